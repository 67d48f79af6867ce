"""Pages that lie on their side or head are turned, and no other page is."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pymupdf
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from pipeline.page import RasterRule, SizedPage
from pipeline.raster.reading import session
from pipeline.raster.upright import quarters_to_upright, turned_upright

from .samples import a_page

WORDS = "The river rose in the night and took the lower bridge with it before anyone had thought to close the road. "


@cache
def _letter(columns: int = 1) -> NDArray[np.uint8]:
    """A page of text, 1240 by 1754 pixels."""
    image = Image.new("L", (1240, 1754), 250)
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(24)
    width = 1040 // columns
    for column in range(columns):
        for row in range(38):
            start = (7 * row + 3 * column) % 40
            line = (WORDS * 2)[start : start + width // 13]
            draw.text((100 + column * (width + 20), 120 + 40 * row), line, font=font, fill=20)
    return np.asarray(image)


def _photograph() -> NDArray[np.uint8]:
    dice = np.random.default_rng(5)
    return np.asarray(
        Image.fromarray(dice.integers(0, 255, (30, 40), np.uint8)).resize((800, 600), Image.Resampling.BICUBIC)
    )


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("quarters", range(4))
@pytest.mark.parametrize("how", ["gray", "colour", "white on black"])
def test_a_page_of_text_is_turned_however_it_lies(columns: int, quarters: int, how: str):
    pixels = np.ascontiguousarray(np.rot90(_letter(columns), -quarters))
    if how == "colour":
        pixels = np.dstack([pixels] * 3)
    elif how == "white on black":
        pixels = 255 - pixels
    assert quarters_to_upright(pixels) == -quarters % 4


@pytest.mark.parametrize(
    "pixels",
    [
        np.full((1754, 1240), 255, np.uint8),
        np.zeros((300, 400), np.uint8),
        np.full((20, 500), 255, np.uint8),
        np.full((1, 1), 0, np.uint8),
        _photograph(),
    ],
    ids=["white", "black", "narrow", "tiny", "photograph"],
)
@pytest.mark.parametrize("quarters", range(4))
def test_a_page_without_text_is_left_as_it_is(pixels: NDArray[Any], quarters: int):
    assert quarters_to_upright(np.ascontiguousarray(np.rot90(pixels, quarters))) == 0


def test_a_page_of_a_script_that_cannot_be_read_is_not_turned():
    """Signs of no script: the classifier of pages may be as sure as it likes."""
    image = Image.new("L", (1240, 1754), 250)
    draw, dice = ImageDraw.Draw(image), np.random.default_rng(0)
    for top in range(120, 1640, 44):
        left = 100
        while left < 1100:
            x, y = dice.integers(0, 18, 2)
            draw.line((left, top + y, left + 18, top + 18 - y), fill=20, width=3)
            draw.arc((left, top + x // 2, left + 18, top + 18), 90, 270, fill=20, width=3)
            left += 24 + 12 * int(dice.integers(0, 4) == 0)
    for quarters in range(4):
        assert quarters_to_upright(np.ascontiguousarray(np.rot90(np.asarray(image), quarters))) == 0


def _chinese(*, down: bool) -> NDArray[np.uint8]:
    """A page of Chinese across, or in columns from the right as of old."""
    page = pymupdf.open().new_page(width=400, height=560)
    text = "造纸坊的早晨从水声开始工人把竹子泡在池中等它变软再捣成浆水很冷手要快风景人们一起走过桥去看河"
    for row in range(18):
        for place in range(20):
            across, along = (360 - 19 * row, 50 + 23 * place) if down else (40 + 16 * place, 50 + 27 * row)
            page.insert_text((across, along), text[(7 * row + place) % len(text)], fontname="china-s", fontsize=15)
    drawn = page.get_pixmap(dpi=150, colorspace="gray")
    return np.frombuffer(drawn.samples, np.uint8).reshape(drawn.height, drawn.width)


def test_columns_of_chinese_are_not_taken_for_a_page_on_its_side():
    assert quarters_to_upright(_chinese(down=True)) == 0
    for quarters in range(4):
        turned = quarters_to_upright(np.ascontiguousarray(np.rot90(_chinese(down=False), -quarters)))
        assert turned in (0, -quarters % 4)


@pytest.mark.parametrize("quarters", range(4))
def test_without_the_classifier_a_page_is_turned_by_what_can_be_read(quarters: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pipeline.raster.upright.find_spec", lambda _: None)
    assert quarters_to_upright(np.ascontiguousarray(np.rot90(_letter(2), -quarters))) == -quarters % 4
    assert quarters_to_upright(255 - np.ascontiguousarray(np.rot90(_letter(), -quarters))) == -quarters % 4
    assert quarters_to_upright(np.ascontiguousarray(np.rot90(_photograph(), -quarters))) == 0


def test_without_the_classifier_columns_of_chinese_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pipeline.raster.upright.find_spec", lambda _: None)
    assert quarters_to_upright(_chinese(down=True)) == 0
    for quarters in range(4):
        turned = quarters_to_upright(np.ascontiguousarray(np.rot90(_chinese(down=False), -quarters)))
        assert turned in (0, -quarters % 4)


def test_a_contents_page_is_turned_though_most_of_its_print_is_dots():
    image = Image.new("L", (1240, 1754), 250)
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(24)
    for row in range(38):
        draw.text((140, 120 + 40 * row), f"{row}.1 {WORDS[row : row + 14]}{'.' * 110}", font=font, fill=20)
    for quarters in range(4):
        assert quarters_to_upright(np.ascontiguousarray(np.rot90(np.asarray(image), -quarters))) == -quarters % 4


def test_what_is_told_of_a_turned_page_is_that_of_its_turned_raster():
    rule = RasterRule(150, 10**7, 32, "hunyuan_visual_tokens")
    pixels = np.ascontiguousarray(np.rot90(_letter()[:1728, :1216], -1))
    sized = SizedPage(a_page(), 1728, 1216, 1, 150.0, 90, rule.length(1728, 1216), warning="as it was")
    made, turned = turned_upright(sized, pixels, rule)
    assert np.array_equal(turned, _letter()[:1728, :1216])
    assert turned.flags.c_contiguous
    assert (made.width_px, made.height_px, made.rotation) == (1216, 1728, 0)
    assert made.length == rule.length(1216, 1728)
    assert (made.dpi, made.warning, made.page) == (150.0, "as it was", sized.page)


def test_an_upright_page_is_given_back_untouched():
    sized = SizedPage(a_page(), 1240, 1754, 1, 150.0, 180, 100)
    made, pixels = turned_upright(sized, _letter(), RasterRule(150, 10**7))
    assert made is sized
    assert pixels is _letter()


def test_a_model_that_is_missing_is_told_as_a_missing_library():
    with pytest.raises(ImportError, match=r"no \*_nothing\.onnx in the package rapidocr: install"):
        session("rapidocr", "*_nothing.onnx")
    with pytest.raises(ImportError, match="in the package no_such_package"):
        session("no_such_package", "*.onnx")
