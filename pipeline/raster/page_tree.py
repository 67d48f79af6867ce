"""Page tree: what a PDF says of its pages, mended in memory where viewers do: their number, and what they show."""

from __future__ import annotations

import re
from typing import Any

from pipeline.raster.library import pymupdf

_mupdf = pymupdf.mupdf

_REFERENCES = re.compile(r"\[\s*(?:\d+\s+\d+\s+R\s*)*\]")
_REFERENCE = re.compile(r"(\d+)\s+\d+\s+R")


def num_leaves(document: Any, *, mend: bool = False) -> int:
    """Pages that can be reached from the root of the tree (ISO 32000-1, 7.7.3), 0 if the tree is out of the ordinary.

    A node that comes up twice counts once, so that a cycle ends.

    Args:
        document: An opened PDF of PyMuPDF.
        mend: Whether to write the true count into each node of the tree in memory; the file stays as it is.
    """
    try:
        root = _node(document.xref_get_key(document.pdf_catalog(), "Pages"))
        return _count(document, root, mend) if root else 0
    except (RuntimeError, ValueError):  # what PyMuPDF raises for an object that is not there
        return 0


def mend_crop(loaded: Any) -> None:
    """Let a page show its MediaBox if its CropBox holds nothing of it, as viewers do; MuPDF would show 612 by 792.

    Args:
        loaded: A page of a PDF that nothing was asked of yet.
    """
    entries = _mupdf.pdf_page_from_fz_page(loaded.this).obj()
    crop = _mupdf.pdf_dict_get_inheritable(entries, _mupdf.PDF_ENUM_NAME_CropBox)
    if not crop.m_internal:
        return
    media = _mupdf.pdf_dict_get_inheritable(entries, _mupdf.PDF_ENUM_NAME_MediaBox)
    whole = _mupdf.pdf_to_rect(media)
    if _mupdf.fz_is_empty_rect(_mupdf.fz_intersect_rect(_mupdf.pdf_to_rect(crop), whole)):
        _mupdf.pdf_dict_put(entries, _mupdf.PDF_ENUM_NAME_CropBox, media)


def _count(document: Any, root: int, mend: bool) -> int:
    kids: dict[int, list[int]] = {}
    order, waiting, seen = [], [root], {root}
    while waiting:
        node = waiting.pop()
        order.append(node)
        found = _kids(document, node)
        if found is None:
            return 0
        kids[node] = [kid for kid in dict.fromkeys(found) if kid not in seen]
        seen.update(kids[node])
        waiting.extend(kids[node])
    counts: dict[int, int] = {}
    for node in reversed(order):
        is_page = document.xref_get_key(node, "Kids")[0] == "null"
        counts[node] = 1 if is_page else sum(counts[kid] for kid in kids[node])
        if mend and not is_page:
            document.xref_set_key(node, "Count", str(counts[node]))
    return counts[root]


def _kids(document: Any, node: int) -> list[int] | None:
    """The nodes below one, none for a page; None if this is neither a page nor a plain list of references."""
    kind, value = document.xref_get_key(node, "Kids")
    if kind == "null":
        return [] if document.xref_get_key(node, "Type") == ("name", "/Page") else None
    if kind == "xref":
        value = document.xref_object(_node((kind, value)))
    return [int(number) for number in _REFERENCE.findall(value)] if _REFERENCES.fullmatch(value.strip()) else None


def _node(found: tuple[str, str]) -> int:
    kind, value = found
    return int(value.split()[0]) if kind == "xref" else 0
