"""The blank gate: empty paper of every kind is blank, and nothing that can be read is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from pipeline.raster.ink import ink_mask, is_blank

HEIGHT, WIDTH = 2338, 1654
"""A4 at 200 dpi."""


def _paper(level: float = 245, noise: float = 0.0, seed: int = 0) -> NDArray[np.uint8]:
    levels = np.full((HEIGHT, WIDTH), level)
    if noise:
        levels = levels + np.random.default_rng(seed).normal(0, noise, levels.shape)
    return levels.clip(0, 255).astype(np.uint8)


def _yellowed() -> NDArray[np.uint8]:
    return np.dstack([_paper(240), _paper(228), _paper(190)])


def _uneven() -> NDArray[np.uint8]:
    return (np.linspace(255, 150, WIDTH)[None, :] * np.ones((HEIGHT, 1))).astype(np.uint8)


def _shadowed() -> NDArray[np.uint8]:
    levels = _paper(240).astype(float)
    levels[:, :200] -= np.linspace(120, 0, 200)
    return levels.clip(0, 255).astype(np.uint8)


def _showing_through() -> NDArray[np.uint8]:
    image = Image.fromarray(_paper(244))
    for top in range(200, 2100, 40):
        ImageDraw.Draw(image).text((150, top), "the other side of the page " * 2, font=_font(26), fill=222)
    return np.asarray(image.transpose(Image.Transpose.FLIP_LEFT_RIGHT).filter(ImageFilter.GaussianBlur(1.5)))


def _bordered() -> NDArray[np.uint8]:
    pixels = _paper()
    pixels[:60], pixels[:, -45:], pixels[-30:] = 10, 20, 0
    return pixels


def _punched(gray: int) -> NDArray[np.uint8]:
    image = Image.fromarray(_paper())
    for top in (860, 1490):
        ImageDraw.Draw(image).ellipse((70, top, 117, top + 47), fill=gray)
    return np.asarray(image)


def _dusty() -> NDArray[np.uint8]:
    pixels, dice = _paper(), np.random.default_rng(1)
    for top, left, height, width in dice.integers([0, 0, 1, 1], [2330, 1650, 4, 4], (300, 4)):
        pixels[top : top + height, left : left + width] = 60
    return pixels


def _folded() -> NDArray[np.uint8]:
    pixels = _paper()
    pixels[1168:1171] = 225
    return pixels


def _font(size: int) -> Any:
    return ImageFont.load_default(size)


EMPTY: dict[str, Callable[[], NDArray[np.uint8]]] = {
    "white": lambda: _paper(255),
    "gray": lambda: _paper(200),
    "yellowed": _yellowed,
    "unevenly lit": _uneven,
    "shadowed at an edge": _shadowed,
    "noisy": lambda: _paper(235, 8),
    "very noisy": lambda: _paper(225, 18),
    "showing through": _showing_through,
    "with the borders of a scanner": _bordered,
    "with black punch holes": lambda: _punched(20),
    "with gray punch holes": lambda: _punched(160),
    "dusty": _dusty,
    "folded": _folded,
    "black": lambda: _paper(8),
    "black and noisy": lambda: _paper(12, 6),
}


@pytest.mark.parametrize("kind", EMPTY)
@pytest.mark.parametrize("dpi", [200.0, None])
def test_empty_paper_is_blank(kind: str, dpi: float | None):
    assert is_blank(EMPTY[kind](), dpi)


MARKS = [
    ("7", 20, (820, 2240), 1.0),
    ("1", 18, (820, 2200), 1.0),
    ("12", 22, (1300, 2000), 0.75),
    ("iii", 20, (820, 1100), 0.5),
    ("a word", 28, (800, 1000), 0.35),
]
"""Text, its size in pixels (25 are 9 points), where it stands, and how dark it is: 0.35 is the gray of #a6a6a6."""


@pytest.mark.parametrize("kind", EMPTY)
@pytest.mark.parametrize("mark", MARKS, ids=[text for text, *_ in MARKS])
def test_a_page_with_as_little_as_its_number_on_it_is_not(kind: str, mark: tuple[str, int, tuple[int, int], float]):
    text, size, place, darkness = mark
    pixels = EMPTY[kind]()
    image = Image.fromarray(pixels)
    paper = int(np.median(pixels))
    ink = round(paper * (1 - darkness)) if paper > 100 else round(paper + (255 - paper) * darkness)
    ImageDraw.Draw(image).text(place, text, font=_font(size), fill=ink if image.mode == "L" else (ink,) * 3)
    assert not is_blank(np.asarray(image), 200)


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(sorted(EMPTY)),
    word=st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="-_.,'`:;\"^~*"), min_size=3),
    size=st.integers(22, 60),
    place=st.tuples(st.integers(150, 900), st.integers(250, 2000)),
)
def test_a_word_of_readable_size_is_never_blank(kind: str, word: str, size: int, place: tuple[int, int]):
    pixels = EMPTY[kind]()
    image = Image.fromarray(pixels)
    ink = 0 if np.median(pixels) > 100 else 255
    ImageDraw.Draw(image).text(place, word, font=_font(size), fill=ink if image.mode == "L" else (ink,) * 3)
    assert not is_blank(np.asarray(image), 200)


def test_colour_as_bright_as_the_paper_is_ink():
    pixels = np.full((400, 300, 3), (255, 255, 255), np.uint8)
    pixels[100:120, 50:200:6] = (255, 255, 0)
    assert not is_blank(pixels)
    assert ink_mask(pixels)[110, 50]


def test_a_picture_is_left_to_the_engine():
    dice = np.random.default_rng(2)
    small = Image.fromarray(dice.integers(0, 255, (40, 40, 3), np.uint8))
    assert not is_blank(np.asarray(small.resize((400, 400), Image.Resampling.BICUBIC)))


@pytest.mark.parametrize("shape", [(1, 1), (1, 50), (3, 2), (9, 9), (31, 500)])
@pytest.mark.parametrize("level", [0, 128, 255])
def test_tiny_rasters_of_one_shade_are_blank(shape: tuple[int, int], level: int):
    assert is_blank(np.full(shape, level, np.uint8))
    assert is_blank(np.full((*shape, 3), level, np.uint8), 72)


def test_a_mask_has_the_shape_of_its_raster_and_follows_the_strokes():
    pixels = _paper(240)
    pixels[300:340, 200:206] = 30
    mask = ink_mask(pixels)
    assert mask.shape == pixels.shape
    assert np.array_equal(np.argwhere(mask).min(axis=0), [300, 200])
    assert mask.sum() == 40 * 6
