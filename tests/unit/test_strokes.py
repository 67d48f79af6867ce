"""How much is printed on a raster: in proportion to the characters, whatever their size, colour and paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from pipeline.raster.strokes import printed_chars

SIZE = (1664, 2336)
WORDS = "the river rose in the night and took the lower bridge with it before anyone had thought to close the road "
LETTERS_A_LINE = len(WORDS[:60].replace(" ", ""))


def _page(num_lines: int, em: int = 26, *, ink: int = 20, paper: int = 255) -> NDArray[np.uint8]:
    """Lines of 60 characters."""
    image = Image.new("L", SIZE, paper)
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(em)
    for row in range(num_lines):
        draw.text((100, 60 + 1.5 * em * row), WORDS[:60], font=font, fill=ink)
    return np.asarray(image)


def test_a_page_of_print_has_about_as_many_characters_as_are_told():
    assert printed_chars(_page(40)) == pytest.approx(40 * LETTERS_A_LINE, rel=0.35)


@pytest.mark.parametrize("em", [18, 36, 48])
def test_large_print_has_no_more_characters_than_small_print(em: int):
    assert printed_chars(_page(30, em)) == pytest.approx(printed_chars(_page(30)), rel=0.3)


def test_twice_the_lines_are_twice_the_characters():
    assert printed_chars(_page(40)) == pytest.approx(2 * printed_chars(_page(20)), rel=0.1)


def _inverted(pixels: NDArray[Any]) -> NDArray[Any]:
    return 255 - pixels


def _noisy(pixels: NDArray[Any]) -> NDArray[Any]:
    noise = np.random.default_rng(3).normal(0, 6, pixels.shape)
    return (pixels * 0.9 + noise).clip(0, 255).astype(np.uint8)


def _shaded(pixels: NDArray[Any]) -> NDArray[Any]:
    return (pixels * np.linspace(1, 0.6, pixels.shape[1])).astype(np.uint8)


def _red(pixels: NDArray[Any]) -> NDArray[Any]:
    return np.dstack([np.full_like(pixels, 240), pixels, pixels])


@pytest.mark.parametrize("seen", [_inverted, _noisy, _shaded, _red])
def test_the_same_print_counts_the_same_on_other_paper(seen: Any):
    page = _page(30)
    assert printed_chars(seen(page)) == pytest.approx(printed_chars(page), rel=0.15)


def test_gray_print_counts_and_what_shines_through_does_not():
    assert printed_chars(_page(30, ink=150, paper=245)) > 0.7 * printed_chars(_page(30))
    assert printed_chars(_page(30, ink=215, paper=245)) == 0


def test_paper_rules_and_borders_hold_no_characters():
    page = np.full(SIZE[::-1], 250, np.uint8)
    page[:, :50] = page[100:104] = page[:, 800:804] = page[:, 1500] = 0
    assert printed_chars(page) == 0


shapes = st.tuples(st.integers(1, 150), st.integers(1, 200)) | st.tuples(
    st.integers(1, 40), st.integers(1, 140), st.just(3)
)


@given(shapes.flatmap(lambda shape: arrays(np.uint8, shape)))
def test_every_raster_has_a_number_of_characters(pixels: NDArray[Any]):
    height, width = pixels.shape[:2]
    assert 0 <= printed_chars(pixels) <= height * width
