"""Which way the lines of a page run: across, across from the right, or down it; told from scripts and shapes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from pipeline.order.box import Frame
from pipeline.result import Line

TALL = 1.8
"""Height over width from which a fragment of two or more wide characters is a line that runs down."""
MAX_DEPTH = 12
"""How often a page is parted into regions of one direction; what is mixed even then is read as most of it is."""

_LEFTWARD = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff\U0001e800-\U0001efff]")


def is_wide(char: str) -> bool:
    """Whether the character belongs to a script written without spaces; Korean is written with them."""
    wide = unicodedata.east_asian_width(char) in "WF"
    return wide and not unicodedata.name(char, "").startswith(("HANGUL", "HALFWIDTH HANGUL"))


def runs_down(line: Line) -> bool:
    """Whether the fragment is a line of Chinese or Japanese that runs down the page."""
    x0, y0, x1, y1 = line.bbox
    text = line.text.strip()
    return len(text) > 1 and y1 - y0 >= TALL * (x1 - x0) and 2 * sum(map(is_wide, text)) >= len(text)


def run_down(lines: Sequence[Line]) -> bool:
    """Whether most letters of a page stand in lines that run down it."""
    return 2 * sum(len(line.text) for line in lines if runs_down(line)) > sum(len(line.text) for line in lines)


def leftward(text: str) -> int:
    """Letters from right to left in the text less those from left to right, by their bidirectional classes (UAX 9)."""
    if not _LEFTWARD.search(text):
        return -sum(map(str.isalpha, text))
    classes = [unicodedata.bidirectional(char) for char in text]
    return sum((kind in ("R", "AL")) - (kind == "L") for kind in classes)


def regions(lines: Sequence[Line]) -> list[tuple[Frame, list[Line]]]:
    """Parts of a page whose lines run one way, in the order they are read."""
    if any(runs_down(line) for line in lines):
        return [part for part in _parted(list(lines), MAX_DEPTH) if part[1]]
    frame = Frame.LEFTWARD if sum(leftward(line.text) for line in lines) > 0 else Frame.ACROSS
    return [(frame, list(lines))] if lines else []


def _parted(lines: list[Line], depth: int) -> list[tuple[Frame, list[Line]]]:
    """The page cut at free strips down or across it until the lines of each part run one way."""
    frames = {_shown(line) for line in lines} - {None}
    if len(frames) < 2 or not depth:
        down = sum(len(line.text) for line in lines if runs_down(line))
        most = 2 * down >= sum(len(line.text) for line in lines)
        return [(Frame.DOWN if frames == {Frame.DOWN} or (frames - {Frame.ACROSS} and most) else Frame.ACROSS, lines)]
    beside = _runs(_groups(lines, 0))
    runs = beside if len(beside) == 2 and None not in {frame for frame, _ in beside} else _runs(_groups(lines, 1))
    if len(runs) < 2:
        runs = beside
    if len(runs) < 2:
        return _parted(lines, 0)
    return [part for frame, run in runs for part in ([(frame, run)] if frame else _parted(run, depth - 1))]


def _runs(groups: Sequence[list[Line]]) -> list[tuple[Frame | None, list[Line]]]:
    """Neighbouring groups whose lines run the same way put together; ones that show none go with those before."""
    runs: list[tuple[Frame | None, list[Line]]] = []
    for group in groups:
        shown = {_shown(line) for line in group} - {None}
        frame = next(iter(shown)) if len(shown) == 1 else None
        if runs and (not shown or (frame is not None and frame is runs[-1][0])):
            runs[-1][1].extend(group)
        else:
            runs.append((frame, list(group)))
    return runs


def _shown(line: Line) -> Frame | None:
    """The way a line runs, if its shape shows it: one or two characters of Chinese may stand in any."""
    if runs_down(line):
        return Frame.DOWN
    x0, y0, x1, y1 = line.bbox
    short = len(line.text.strip()) < 2 or (x1 - x0 < TALL * (y1 - y0) and any(map(is_wide, line.text)))
    return None if short else Frame.ACROSS


def _groups(lines: Sequence[Line], axis: int) -> list[list[Line]]:
    """Lines parted at the strips that none of them enters: from the top if `axis` is 1, from the right if it is 0."""
    groups: list[list[Line]] = []
    end = 0.0
    for line in sorted(lines, key=lambda line: (line.bbox[axis], line.bbox, line.text)):
        if groups and line.bbox[axis] <= end:
            groups[-1].append(line)
            end = max(end, line.bbox[axis + 2])
        else:
            groups.append([line])
            end = line.bbox[axis + 2]
    return groups if axis else groups[::-1]
