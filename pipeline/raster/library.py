"""Library: PyMuPDF, imported once and for all without what it brings along."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["pymupdf"]


@contextmanager
def _as_if_missing(*modules: str) -> Iterator[None]:
    """Let imports of these modules fail, unless they are there already."""
    hidden = [module for module in modules if module not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for module in hidden:
            del sys.modules[module]


# PyMuPDF loads a layout model and ONNX Runtime where it finds them: 140 MB and 0.6 s a process, not used here.
with _as_if_missing("pymupdf.layout", "pymupdf4llm"):
    import pymupdf

pymupdf.TOOLS.mupdf_display_errors(False)
pymupdf.TOOLS.mupdf_display_warnings(False)
