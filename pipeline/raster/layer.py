"""Layer: the text that a page of a PDF holds itself, and whether it may stand for what the page shows."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.result import Recognition


@dataclass(frozen=True, slots=True)
class Layer:
    """What was found: `verdict` is a word and after a colon the reason; `recognition` is set if the text is sound."""

    verdict: str
    recognition: Recognition | None = None
