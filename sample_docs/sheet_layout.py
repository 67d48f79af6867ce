"""Set text on pages and draw them into a PDF, keeping the drawn strings as the page's true text."""

# PyMuPDF is marked as typed, yet many of its functions carry no annotations.
# mypy: untyped-calls-exclude=pymupdf

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import pymupdf

Size = tuple[float, float]
Turn = Literal[0, 90, 180]

A4: Size = (595, 842)
A5: Size = (420, 595)
A6: Size = (298, 420)
A6_LANDSCAPE: Size = (420, 298)
LETTER_LANDSCAPE: Size = (792, 612)


@dataclass(frozen=True, slots=True)
class Style:
    """A PyMuPDF font name with its size and line distance in points."""

    font: str
    size: float
    leading: float


HEADING = Style("hebo", 16, 22)


@dataclass(frozen=True, slots=True)
class Run:
    """One string drawn at once, its baseline starting at (x, y) in points from the page's top left."""

    text: str
    x: float
    y: float
    style: Style


@dataclass(frozen=True, slots=True)
class Rule:
    """A straight line between two points, in points from the page's top left."""

    start: tuple[float, float]
    end: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Block:
    """Runs together with the text lines they spell, so that drawing and truth share one source."""

    runs: tuple[Run, ...]
    lines: tuple[str, ...]
    bottom: float
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class Sheet:
    """A page as its reader sees it; `turn` is how far a viewer must turn the stored page, in degrees."""

    size: Size
    blocks: tuple[Block, ...] = ()
    turn: Turn = 0

    @property
    def truth(self) -> str:
        """The text in reading order: drawn lines, with an empty line between blocks."""
        return "\n\n".join("\n".join(block.lines) for block in self.blocks)


@cache
def font(name: str) -> pymupdf.Font:
    """Load a font that ships inside PyMuPDF, so that the result does not depend on installed fonts."""
    return pymupdf.Font(name)


def text_width(text: str, style: Style) -> float:
    """Width of the drawn text in points."""
    return float(font(style.font).text_length(text, style.size))


def wrap(text: str, style: Style, width: float) -> list[str]:
    """Break a paragraph at spaces into lines of at most `width` points."""
    lines: list[str] = []
    current = ""
    for word in text.split():
        longer = f"{current} {word}" if current else word
        if current and text_width(longer, style) > width:
            lines.append(current)
            longer = word
        current = longer
    return [*lines, current]


def set_lines(lines: Sequence[str], style: Style, x: float, top: float, center: float = 0) -> Block:
    """Set given lines from `x`, or, where `center` is a width in points, in the middle of that width."""
    runs = []
    for index, line in enumerate(lines):
        indent = (center - text_width(line, style)) / 2 if center else 0
        runs.append(Run(line, x + indent, top + style.size + index * style.leading, style))
    return Block(tuple(runs), tuple(lines), top + len(lines) * style.leading)


def set_text(paragraphs: Iterable[str], style: Style, x: float, top: float, width: float) -> list[Block]:
    """Set paragraphs under each other with half a line between them."""
    blocks: list[Block] = []
    for paragraph in paragraphs:
        blocks.append(set_lines(wrap(paragraph, style, width), style, x, top))
        top = blocks[-1].bottom + style.leading / 2
    return blocks


def set_row(left: Sequence[tuple[str, float]], right: Sequence[tuple[str, float]], style: Style, y: float) -> Block:
    """Set one row: cells that start at their x, then cells that end at theirs; the baseline is at `y`."""
    runs = [Run(text, x, y, style) for text, x in left]
    runs += [Run(text, x - text_width(text, style), y, style) for text, x in right]
    return Block(tuple(runs), (" ".join(run.text for run in runs),), y)


def join(blocks: Sequence[Block], rules: tuple[Rule, ...] = ()) -> Block:
    """Merge blocks into one whose lines follow each other without a gap in the true text."""
    runs = tuple(run for block in blocks for run in block.runs)
    lines = tuple(line for block in blocks for line in block.lines)
    return Block(runs, lines, blocks[-1].bottom, rules)


def article(size: Size, title: str, paragraphs: Iterable[str], style: Style, margin: float, turn: Turn = 0) -> Sheet:
    """A page with a heading and one column of text; `margin` is in points."""
    width = size[0] - 2 * margin
    heading = set_lines(wrap(title, HEADING, width), HEADING, margin, margin)
    return Sheet(size, (heading, *set_text(paragraphs, style, margin, heading.bottom + 8, width)), turn)


def turn_back(page: pymupdf.Page, size: Size, turn: Turn) -> None:
    """Store an upright page turned and give it the /Rotate entry that makes viewers show it upright."""
    width, height = size
    matrix, box = {
        90: (f"0 1 -1 0 {height} 0", (0, 0, height, width)),
        180: (f"-1 0 0 -1 {width} {height}", (0, 0, width, height)),
    }[turn]
    content = page.read_contents()
    first = page.get_contents()[0]
    page.parent.update_stream(first, b"q " + matrix.encode() + b" cm\n" + content + b"\nQ\n")
    page.set_contents(first)
    page.set_mediabox(pymupdf.Rect(*box))
    page.set_rotation(turn)


def draw_sheet(doc: pymupdf.Document, sheet: Sheet) -> None:
    """Append the sheet to a PDF as vector text and lines."""
    page = doc.new_page(width=sheet.size[0], height=sheet.size[1])
    writer = pymupdf.TextWriter(page.rect)
    for block in sheet.blocks:
        for rule in block.rules:
            page.draw_line(rule.start, rule.end, width=0.8)
        for run in block.runs:
            writer.append((run.x, run.y), run.text, font=font(run.style.font), fontsize=run.style.size)
    if sheet.blocks:
        writer.write_text(page)
    if sheet.turn:
        turn_back(page, sheet.size, sheet.turn)
