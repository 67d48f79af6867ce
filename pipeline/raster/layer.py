"""Layer: the text that a page of a PDF holds itself, and whether it may stand for what the page shows.

The letters come from MuPDF, the judgement from `pipeline.soundness`; here the page is looked at: drawn small to see
where its ink is, and single lines of it are read to see whether a font says what it shows.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.order import page_text, reading_order
from pipeline.raster.ink import ink_mask
from pipeline.raster.piece import Piece, Span, is_leader, not_drawn_out, once, without_leaders
from pipeline.raster.reading import LINE_PX, lines_of_print, read_line, typical
from pipeline.result import Line, Recognition
from pipeline.soundness import SOUND, Evidence, is_strange, verdict_on_page, verdict_on_text

LOOK_DPI = 110
"""Resolution in which the page is looked at: letters of 5 points are as high as a line has to be to be found."""

_MAX_PIECES = 20_000
_MIN_CONTRAST = 40
_LONG_RUN_PX = 40
"""A run of ink as long as this is a rule, a box or a patch of colour, and no letter."""
_FEW_INK_PX = 300
"""So little ink outside of the text is not looked at: three letters of 10 points have as much."""
_NUM_READ = 8
"""Lines outside of the text that are read at the most."""
_CLEAR = 0.85
_MIN_IN_FONT, _MIN_IN_SPAN = 12, 5
"""Letters of a font that make it worth a look, and letters of a span from which its font can be judged."""
_WIDE_COUNTS = 2.5
"""As many letters a Chinese character is worth."""

_JUDGED_ASPECT = 7
"""So much of a line, in its heights, is read to judge its font: some fourteen letters, in 20 ms."""

Draw = Callable[[float, tuple[float, float, float, float] | None], NDArray[Any]]
"""Draws the page, or a box of it in points, in at most so many pixels a point: gray, (height, width), uint8."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What was found: `verdict` is a word and after a colon the reason; `recognition` is set if the text is sound.

    `num_chars` counts the characters that were found, blanks apart; None where there are none or nobody counted.
    """

    verdict: str
    recognition: Recognition | None = None
    num_chars: int | None = None


@dataclass(slots=True)
class LayerJudge:
    """Judges the layers of the pages of one document, and remembers which of its fonts say what they show."""

    _trusted: set[object] = field(default_factory=set)

    def judge(
        self,
        pieces: Sequence[Piece],
        draw: Draw,
        covers: Sequence[tuple[float, float, float, float]],
        fonts: Mapping[str, object],
        width_pt: float,
        scale: float,
    ) -> Layer:
        """Decide whether the text is sound.

        Args:
            pieces: What MuPDF finds, in any order.
            draw: Draws the page.
            covers: Where text lies under a picture, as boxes in points.
            fonts: What tells fonts of one name apart, by their names.
            width_pt: Width of the page in points.
            scale: Pixels of the raster a point, for the boxes of the lines.
        """
        if len(pieces) > _MAX_PIECES:
            num_chars = sum(piece.num_letters for piece in pieces)
            return Layer(f"garbled: {len(pieces):,} pieces of text on one page", num_chars=num_chars)
        if not any(piece.num_letters for piece in pieces):
            return Layer(verdict_on_text(Evidence("")))
        gray = draw(LOOK_DPI / 72, None)
        per_point = gray.shape[1] / width_pt  # a large page is drawn smaller
        seen = without_leaders([piece for piece in once(pieces) if _is_seen(piece, gray, per_point, covers)])
        shown = {id(piece) for piece in seen}
        unseen = [piece for piece in once(pieces) if id(piece) not in shown and not is_leader(piece)]
        evidence = Evidence(
            text="\n".join(piece.text for piece in seen),
            num_unseen=sum(piece.num_letters for piece in unseen),
            num_turned=sum(piece.num_letters for piece in seen if not piece.is_across),
        )
        verdict = verdict_on_text(evidence)
        if verdict == SOUND:
            verdict = verdict_on_page(self._looked_at(evidence, seen, gray, per_point, draw, fonts))
        num_chars = evidence.num_unseen + sum(piece.num_letters for piece in seen)
        return Layer(verdict, _recognition(seen, scale) if verdict == SOUND else None, num_chars)

    def _looked_at(
        self,
        evidence: Evidence,
        seen: Sequence[Piece],
        gray: NDArray[Any],
        per_point: float,
        draw: Draw,
        fonts: Mapping[str, object],
    ) -> Evidence:
        """The evidence with what only the pixels, and each font by itself, can tell."""
        by_font: dict[str, list[Span]] = {}
        for span in (span for piece in seen if piece.is_across for span in piece.spans):
            by_font.setdefault(span.font, []).append(span)
        dark = 255 - gray if np.median(gray) < 100 else gray
        ink = ink_mask(dark)
        outside = _without_text(ink, seen, per_point)
        if outside.sum() > _FEW_INK_PX:
            outside = _without_rules(outside)
            lines = list(lines_of_print(dark, outside))
        else:
            lines = []
        return Evidence(
            evidence.text,
            evidence.num_unseen,
            evidence.num_turned,
            num_outside=_num_readable(lines),
            num_pictured_lines=len(lines),
            pictured_ink=float(outside.sum() / max(1, ink.sum())),
            similarities=tuple(self._similarities(by_font, draw, fonts)),
            by_font=["".join(span.text for span in those) for those in by_font.values()],
        )

    def _similarities(
        self, by_font: Mapping[str, Sequence[Span]], draw: Draw, fonts: Mapping[str, object]
    ) -> Iterator[float]:
        """For each font that was not looked at yet, how much of what is set in it can be read from its pixels."""
        for name, those in by_font.items():
            key = (name, fonts.get(name))
            if key in self._trusted or sum(len(span.text) for span in those) < _MIN_IN_FONT:
                continue
            readable = sorted(filter(_is_readable, those), key=lambda span: -min(20, len(span.text)))[:3]
            best = 0.0
            for span in readable:
                best = max(best, _similarity(span, draw))
                if best > 0.8:
                    break
            if readable:
                yield best
                self._trusted.add(key)


def _is_seen(
    piece: Piece, gray: NDArray[Any], per_point: float, covers: Sequence[tuple[float, float, float, float]]
) -> bool:
    """Whether a piece is painted, lies under no picture, and differs from what is around it."""
    x0, y0, x1, y1 = piece.bbox
    middle_x, middle_y = (x0 + x1) / 2, (y0 + y1) / 2
    if not piece.is_painted or any(a <= middle_x <= c and b <= middle_y <= d for a, b, c, d in covers):
        return False
    left, top, right, bottom = (max(0, round(value * per_point)) for value in piece.bbox)
    pixels = gray[top : bottom + 1, left : right + 1]
    return bool(pixels.size) and int(pixels.max()) - int(pixels.min()) >= _MIN_CONTRAST


def _without_text(ink: NDArray[np.bool_], seen: Sequence[Piece], per_point: float) -> NDArray[np.bool_]:
    outside = ink.copy()
    for piece in seen:
        left, top, right, bottom = (round(value * per_point) for value in piece.bbox)
        outside[max(0, top - 2) : bottom + 3, max(0, left - 2) : right + 3] = False
    return outside


def _without_rules(ink: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Without runs of ink so long, across or down, that they are rules or patches."""
    kept = ink.copy()
    for mask, target in ((ink, kept), (ink.T, kept.T)):
        edges = np.diff(np.pad(mask, ((0, 0), (1, 1))).astype(np.int8), axis=1)
        rows, starts = np.nonzero(edges == 1)
        stops = np.nonzero(edges == -1)[1]
        for index in np.flatnonzero(stops - starts >= _LONG_RUN_PX):
            target[rows[index], starts[index] : stops[index]] = False
    return kept


def _num_readable(lines: list[NDArray[Any]]) -> int:
    """About how many characters can be read in these lines; some are read, and the others are taken to be like them."""
    read = [read_line(line) for line in typical(lines, _NUM_READ)]
    num = sum(sum(map(str.isalnum, text)) for text, sure in read if sure > _CLEAR and sum(map(str.isalnum, text)) > 2)
    return round(num * len(lines) / len(read)) if read else 0


def _is_readable(span: Span) -> bool:
    """Whether the recognizer knows the script: Latin, digits, Chinese, Japanese; and there is enough of it."""
    letters = [character for character in unicodedata.normalize("NFKC", span.text) if character.isalnum()]
    known = sum(map(_is_known, letters))
    enough = sum(_WIDE_COUNTS if unicodedata.east_asian_width(letter) == "W" else 1.0 for letter in letters)
    height = span.bbox[3] - span.bbox[1]
    return span.bbox[2] - span.bbox[0] > height > 4 and known >= 0.8 * len(letters) and enough >= _MIN_IN_SPAN


def _is_known(letter: str) -> bool:
    return letter.isascii() or unicodedata.name(letter, "").startswith(("LATIN", "CJK UNIFIED", "HIRAGANA", "KATAKANA"))


def _similarity(span: Span, draw: Draw) -> float:
    """How much of a span can be read from its pixels, 0 to 1; of a long one the beginning."""
    x0, y0, x1, y1 = span.bbox
    share = min(1.0, _JUDGED_ASPECT * (y1 - y0) / (x1 - x0))
    pixels = draw(LINE_PX / (y1 - y0), (x0, y0, x0 + share * (x1 - x0), y1))
    read, _ = read_line(255 - pixels if np.median(pixels) < 100 else pixels)
    wanted = span.text if share == 1 else span.text[: round(share * len(span.text))]
    return SequenceMatcher(None, _plain(wanted), _plain(read), autojunk=False).ratio()


def _plain(text: str) -> str:
    """Letters and digits without case and accents, which the recognizer may take for each other."""
    apart = unicodedata.normalize("NFKD", text).casefold()
    return "".join(character for character in apart if character.isalnum())


def _recognition(seen: Sequence[Piece], scale: float) -> Recognition:
    lines = []
    for piece in seen:
        text = "".join(character for character in piece.text if not is_strange(character))
        if text.strip():
            x0, y0, x1, y1 = (value * scale for value in piece.bbox)
            lines.append(Line(unicodedata.normalize("NFC", text), (x0, y0, x1, y1), None))
    rows = reading_order(lines)
    return Recognition(not_drawn_out(page_text(rows)), lines=tuple(line for row in rows for line in row))
