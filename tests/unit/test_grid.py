"""Grid pages are random, the same everywhere for the same seed, and hold what they say. No torch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checkpoints.grid import CELL_PX, LETTERS, MAX_CELLS, MAX_LINES, PAPER, SHIFT_PX, GridPages, kept_glyphs

seeds, lines, cells = st.integers(0, 2**32), st.integers(1, 9), st.integers(2, 20)


@given(seeds, lines, cells)
def test_a_page_has_a_cell_for_each_character_and_ink_where_letters_are(seed: int, lines: int, cells: int):
    page = GridPages(seed).page(lines, cells)
    rows = page.text.split("\n")
    assert page.pixels.shape == (lines * CELL_PX, cells * CELL_PX)
    assert page.pixels.dtype == np.uint8
    inked = page.pixels.reshape(lines, CELL_PX, cells, CELL_PX).min(axis=(1, 3)) < PAPER
    assert inked.tolist() == [[letter != " " for letter in row.ljust(cells)] for row in rows]


@given(seeds, lines, cells)
def test_a_text_is_lines_whose_length_can_be_seen(seed: int, lines: int, cells: int):
    rows = GridPages(seed).text(lines, cells).split("\n")
    assert len(rows) == lines
    assert max(map(len, rows)) == cells
    for row in rows:
        assert len(row) >= 2
        assert row == row.strip()
        assert "  " not in row
        assert set(row) <= {*LETTERS, " "}


def test_the_same_seed_gives_the_same_pages_and_another_others():
    first, again, other = ([GridPages(seed).page(2, 8) for _ in range(2)] for seed in (1, 1, 2))
    assert [page.text for page in first] == [page.text for page in again] != [page.text for page in other]
    assert all((one.pixels == two.pixels).all() for one, two in zip(first, again, strict=True))


def test_pages_are_of_the_sizes_that_the_checkpoint_was_trained_on_unless_asked_for():
    pages = GridPages(0)
    sizes = {pages.page().pixels.shape for _ in range(300)}
    heights, widths = ({size[axis] // CELL_PX for size in sizes} for axis in (0, 1))
    assert heights == set(range(1, MAX_LINES + 1))
    assert widths == set(range(2, MAX_CELLS + 1))


def test_characters_are_told_apart_and_never_cut_by_their_shift():
    glyphs = kept_glyphs()
    assert glyphs.shape == (len(LETTERS), CELL_PX, CELL_PX)
    assert len({glyph.tobytes() for glyph in glyphs}) == len(LETTERS)
    margins = [glyphs[:, :SHIFT_PX], glyphs[:, -SHIFT_PX:], glyphs[:, :, :SHIFT_PX], glyphs[:, :, -SHIFT_PX:]]
    assert all((margin == PAPER).all() for margin in margins)


@pytest.mark.parametrize(("lines", "cells", "tokens"), [(1, 2, 5), (4, 8, 38)])
def test_the_visual_tokens_of_a_page_are_those_of_the_model(lines: int, cells: int, tokens: int):
    assert GridPages(0).page(lines, cells).num_visual_tokens == tokens
