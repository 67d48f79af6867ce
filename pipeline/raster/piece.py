"""Piece: letters that stand together on one printed line, as MuPDF finds them on a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_FILLED_OR_STROKED = 16 | 32
"""MuPDF's flags of letters that are painted; those of an invisible layer are neither."""
_MIN_ALPHA = 40
_BULLETS = str.maketrans({"\uf0b7": "•", "\uf0a7": "▪", "\uf0d8": "➢", "\uf0fc": "✓", "\uf06f": "○", "\u00ad": "-"})
"""What the common bullets of symbol fonts show, which have no Unicode of their own; a soft hyphen that is set shows."""
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_NO_BLANK_AFTER = re.compile("[\u0700-\u1fff\u2c00-\u2dff\ua640-\uabff\uac00-\ud7ff]")
"""Letters of scripts with blanks after which MuPDF finds none that is only a gap: Vietnamese, Greek with breathings,
Indic scripts, Korean (`may_add_space` in its stext-device.c)."""
_BLANK = 0.15
"""How wide a gap is a blank, in sizes of the letters: MuPDF's own value."""
_NUMBER = re.compile(r"\d+(?:[.,:/\u066b\u066c]\d+)*")
_DRAWN_OUT = re.compile("(?<=\u0640) +(?=\u0640)")


Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Span:
    """Letters of a piece that are set in one font."""

    text: str
    bbox: Box
    font: str


@dataclass(frozen=True, slots=True)
class Piece:
    """Letters that stand together on one printed line; `bbox` in points of the upright page."""

    text: str
    bbox: Box
    spans: tuple[Span, ...]
    is_across: bool
    is_painted: bool

    @property
    def num_letters(self) -> int:
        """Characters that are no blanks."""
        return sum(not character.isspace() for character in self.text)


def pieces_of(page: Mapping[str, Any], box: Box) -> Iterator[Piece]:
    """The pieces of a page out of MuPDF's structured text, as far as they lie on the page.

    Args:
        page: What `TextPage.extractRAWDICT` gives, or `extractDICT` if no place of a letter is needed.
        box: The page, in the same points; pieces are told from its corner.
    """
    for block in page["blocks"]:
        for line in block.get("lines", ()):
            direction, vertical = line["dir"], bool(line["wmode"])
            is_across = vertical or (direction[0] > 0.999 and abs(direction[1]) < 0.05)
            for run in _runs(line["spans"], vertical):
                text = _joined(run).translate(_BULLETS)
                x0, y0, x1, y1 = _union(span["bbox"] for span in run)
                middle_x, middle_y = (x0 + x1) / 2, (y0 + y1) / 2
                if not text.strip() or not (box[0] <= middle_x <= box[2] and box[1] <= middle_y <= box[3]):
                    continue
                painted = [
                    span for span in run if span["char_flags"] & _FILLED_OR_STROKED and span["alpha"] >= _MIN_ALPHA
                ]
                spans = tuple(Span(_text_of(span), _moved(span["bbox"], box), span["font"]) for span in run)
                yield Piece(text, _moved((x0, y0, x1, y1), box), spans, is_across, len(painted) == len(run))


def not_drawn_out(text: str) -> str:
    """Without the blanks between strokes that draw an Arabic word out to the width of its line."""
    return _DRAWN_OUT.sub("", text)


def needs_places(text: str) -> bool:
    """Whether there are letters of which it has to be known where they stand: from right to left, or without blanks."""
    return bool(_RIGHT_TO_LEFT.search(text) or _NO_BLANK_AFTER.search(text))


def _joined(run: Sequence[Mapping[str, Any]]) -> str:
    text, last = _text_of(run[0]), run[0]
    for span in run[1:]:
        text += " " * _is_parted(text[-1:], last["bbox"][2], span["bbox"][0], span["size"]) + _text_of(span)
        last = span
    return not_drawn_out(text)


def _is_parted(letter: str, end: float, start: float, size: float) -> bool:
    """Whether a blank is shown after a letter after which MuPDF does not find it."""
    return bool(_NO_BLANK_AFTER.match(letter)) and start - end > _BLANK * size


def _text_of(span: Mapping[str, Any]) -> str:
    """The span's letters, with the blanks that are shown, and numbers in text from right to left as they are read.

    MuPDF turns those with the text, and finds the width of a blank after letters of some scripts only.
    """
    if "text" in span:
        return str(span["text"])
    letters = span["chars"]
    text = "".join(letter["c"] for letter in letters)
    for number in _NUMBER.finditer(text) if len(text) == len(letters) else ():
        start, stop = number.span()
        if letters[start]["origin"][0] > letters[stop - 1]["origin"][0]:
            text = text[:start] + text[start:stop][::-1] + text[stop:]
    parted = [
        shown + " " * (after["c"] != " " and _is_parted(shown, one["bbox"][2], after["origin"][0], span["size"]))
        for shown, one, after in zip(text, letters, letters[1:], strict=False)
    ]
    return "".join(parted) + text[len(parted) :]


def _runs(spans: Sequence[Mapping[str, Any]], vertical: bool) -> Iterator[list[Mapping[str, Any]]]:
    """Spans of a line that stand close enough to be one piece, and are painted alike."""
    run: list[Mapping[str, Any]] = []
    for span in spans:
        if run:
            last, start = run[-1], 1 if vertical else 0
            gap = span["bbox"][start] - last["bbox"][start + 2]
            alike = (span["char_flags"] & _FILLED_OR_STROKED) == (last["char_flags"] & _FILLED_OR_STROKED)
            if not alike or not -2 * span["size"] < gap < span["size"]:
                yield run
                run = []
        run.append(span)
    if run:
        yield run


def _moved(bbox: Sequence[float], page: Sequence[float]) -> Box:
    return bbox[0] - page[0], bbox[1] - page[1], bbox[2] - page[0], bbox[3] - page[1]


def _union(boxes: Iterable[Sequence[float]]) -> Box:
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def once(pieces: Sequence[Piece]) -> list[Piece]:
    """Without those that are drawn a second time a little aside, to look bold or to throw a shadow."""
    kept: dict[tuple[str, int, int], list[Piece]] = {}
    found = []
    for piece in pieces:
        x, y, height = piece.bbox[0], piece.bbox[1], max(1.0, piece.bbox[3] - piece.bbox[1])
        cell = (piece.text, int(x // 8), int(y // 8))
        near = [
            other
            for dx in (-1, 0, 1)
            for dy in (-1, 0, 1)
            for other in kept.get((cell[0], cell[1] + dx, cell[2] + dy), ())
        ]
        if all(abs(o.bbox[0] - x) + abs(o.bbox[1] - y) > 0.25 * height for o in near):
            kept.setdefault(cell, []).append(piece)
            found.append(piece)
    return found


def without_leaders(pieces: Sequence[Piece]) -> list[Piece]:
    """Without rows of dots that are drawn from the margin on, under the words that they lead from."""
    dotted = {id(piece) for piece in pieces if is_leader(piece)}
    words = [piece for piece in pieces if id(piece) not in dotted]
    return [piece for piece in pieces if id(piece) not in dotted or not any(_overlap(piece, word) for word in words)]


def is_leader(piece: Piece) -> bool:
    """Whether it is a row of dots that leads from a word to another."""
    return len(piece.text) > 4 and not set(piece.text) - set(". ·…_")


def _overlap(one: Piece, other: Piece) -> bool:
    across = min(one.bbox[2], other.bbox[2]) - max(one.bbox[0], other.bbox[0])
    down = min(one.bbox[3], other.bbox[3]) - max(one.bbox[1], other.bbox[1])
    return across > 2 and down > 0.5 * (other.bbox[3] - other.bbox[1])
