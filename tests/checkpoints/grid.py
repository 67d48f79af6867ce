"""Grid pages, which the tiny checkpoint reads: a character of DejaVu Sans Mono in each cell of one visual token.

The glyphs lie beside this module as pixels, so that pages are the same on a machine without the font.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

CELL_PX, FONT_PX, SHIFT_PX = 32, 28, 2
"""Side of a cell, size of the font, and how far a character may stand from the middle, either way and up or down."""
BASELINE_PX = 26
LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ.,:-/+"
"""What stands on pages; a space does, too, but neither first nor last in a line, nor beside another."""
MAX_LINES, MAX_CELLS = 4, 8
"""The largest page that the checkpoint was trained on. Lines have at least two cells."""
SPACE_SHARE = 0.08
PAPER = 255
GLYPHS = Path(__file__).with_name("glyphs.npz")


@dataclass(frozen=True, slots=True)
class GridPage:
    """A page and what it says: `pixels` are gray, uint8, of shape (height, width), both multiples of 32."""

    text: str
    pixels: NDArray[np.uint8]

    @property
    def num_visual_tokens(self) -> int:
        """What HunYuanVL makes of it: one a cell, one more at the end of each line, one before and one after all."""
        height_px, width_px = self.pixels.shape
        return height_px // CELL_PX * (width_px // CELL_PX + 1) + 2


class GridPages:
    """Random pages, the same for the same seed.

    Args:
        seed: Of both texts and shifts.
        font_path: DejaVu Sans Mono; None takes the glyphs that are kept here, which are the same.
    """

    def __init__(self, seed: int, font_path: str | Path | None = None) -> None:
        self._dice = np.random.default_rng(seed)
        self._glyphs = _shifted(draw_glyphs(font_path) if font_path else kept_glyphs())

    def text(self, lines: int, cells: int) -> str:
        """Lines of 2 to `cells` characters, one of which has exactly `cells`."""
        lengths = self._dice.integers(2, cells + 1, lines)
        lengths[self._dice.integers(lines)] = cells
        return "\n".join(self._line(int(length)) for length in lengths)

    def pixels(self, text: str) -> NDArray[np.uint8]:
        """A text as gray pixels, shape (32 * lines, 32 * longest line), each character shifted at random."""
        rows = text.split("\n")
        cells = max(map(len, rows))
        page = np.full((len(rows), CELL_PX, cells, CELL_PX), PAPER, np.uint8)
        shifts = 2 * SHIFT_PX + 1
        for line, row in enumerate(rows):
            for cell, letter in enumerate(row):
                page[line, :, cell] = self._glyphs[letter][tuple(self._dice.integers(shifts, size=2))]
        return page.reshape(len(rows) * CELL_PX, cells * CELL_PX)

    def page(self, lines: int = 0, cells: int = 0) -> GridPage:
        """One page. Zero lines or cells mean a random number that the checkpoint was trained on."""
        lines = lines or int(self._dice.integers(1, MAX_LINES + 1))
        text = self.text(lines, cells or int(self._dice.integers(2, MAX_CELLS + 1)))
        return GridPage(text, self.pixels(text))

    def _line(self, length: int) -> str:
        row = [LETTERS[letter] for letter in self._dice.integers(len(LETTERS), size=length)]
        for place in range(1, length - 1):
            if row[place - 1] != " " and self._dice.random() < SPACE_SHARE:
                row[place] = " "
        return "".join(row)


def kept_glyphs() -> NDArray[np.uint8]:
    """The glyphs of `LETTERS` that are kept here: uint8, shape (letters, 32, 32), in the middle of their cells."""
    with np.load(GLYPHS, allow_pickle=False) as kept:
        glyphs: NDArray[np.uint8] = kept["glyphs"]
    return glyphs


def draw_glyphs(font_path: str | Path) -> NDArray[np.uint8]:
    """The same, drawn with a font."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.truetype(str(font_path), FONT_PX)
    made = []
    for letter in LETTERS:
        cell = Image.new("L", (CELL_PX, CELL_PX), PAPER)
        ImageDraw.Draw(cell).text((CELL_PX / 2, BASELINE_PX), letter, font=font, fill=0, anchor="ms")
        made.append(np.asarray(cell))
    return np.stack(made)


def _shifted(glyphs: NDArray[np.uint8]) -> dict[str, NDArray[np.uint8]]:
    """Every glyph at every shift down and to the right: for each letter uint8 of shape (5, 5, 32, 32)."""
    margin, shifts = SHIFT_PX, range(2 * SHIFT_PX + 1)
    padded = np.pad(glyphs, ((0, 0), (margin, margin), (margin, margin)), constant_values=PAPER)
    views = [
        [padded[:, 2 * margin - down :, 2 * margin - right :][:, :CELL_PX, :CELL_PX] for right in shifts]
        for down in shifts
    ]
    stacked = np.moveaxis(np.array(views), 2, 0)
    blank = np.full_like(stacked[0], PAPER)
    return {**dict(zip(LETTERS, stacked, strict=True)), " ": blank}
