"""Laws of raster sizes and lengths."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.page import CELL_PX, LENGTH_RULES, RasterRule, hunyuan_visual_tokens, pixel_area

from .samples import a_page, a_sized_page

A4_PT = (595.276, 841.89)
rules = st.builds(
    RasterRule,
    dpi=st.floats(10, 1200),
    max_pixels=st.integers(32 * 32, 10**8),
    side_multiple_px=st.sampled_from([1, 2, 28, 32]),
    length_rule=st.sampled_from(sorted(LENGTH_RULES)),
)
sides = st.floats(0.01, 1e6)


def _size(rule: RasterRule, width: float, height: float, scale: float) -> tuple[int, int]:
    return rule.side(width * scale), rule.side(height * scale)


@given(rules, sides, sides)
def test_sides_are_multiples_and_never_zero(rule: RasterRule, width_pt: float, height_pt: float):
    size = _size(rule, width_pt, height_pt, rule.scale_of_points(width_pt, height_pt))
    assert all(side >= rule.side_multiple_px and side % rule.side_multiple_px == 0 for side in size)


@given(rules, sides, sides)
def test_no_raster_has_more_pixels_than_the_limit_but_for_rounding(rule: RasterRule, width: float, height: float):
    unit = rule.side_multiple_px
    for scale in (rule.scale_of_points(width, height), rule.scale_of_pixels(width, height, None)):
        short, long = sorted(_size(rule, width, height, scale))
        before_rounding = (long - unit / 2) * (short - unit / 2 if short > unit else unit)
        assert before_rounding <= rule.max_pixels * (1 + 1e-9)


@given(rules, sides, sides)
def test_a_vector_page_is_drawn_at_the_dpi_or_coarser(rule: RasterRule, width_pt: float, height_pt: float):
    assert 0 < rule.scale_of_points(width_pt, height_pt) <= rule.dpi / 72


@given(st.floats(10, 1200), st.floats(40, 14_400), st.floats(40, 14_400))
def test_a_page_that_fits_is_drawn_at_the_dpi(dpi: float, width_pt: float, height_pt: float):
    rule = RasterRule(dpi, 10**12, 32)
    assert rule.scale_of_points(width_pt, height_pt) == dpi / 72
    assert rule.scale_of_pixels(width_pt, height_pt, None) == 1


@given(rules, sides, sides, st.one_of(st.none(), st.floats(50, 4800)))
def test_an_image_is_never_enlarged(rule: RasterRule, width_px: float, height_px: float, dpi: float | None):
    assert 0 < rule.scale_of_pixels(width_px, height_px, dpi) <= 1


@given(rules, st.integers(1, 4000), st.integers(1, 4000), st.floats(50, 4800))
def test_a_scan_is_never_made_finer_than_the_dpi(rule: RasterRule, width_px: int, height_px: int, dpi: float):
    assert rule.scale_of_pixels(width_px, height_px, dpi) * dpi <= max(rule.dpi, dpi) * (1 + 1e-9)
    if dpi > rule.dpi:
        assert rule.scale_of_pixels(width_px, height_px, dpi) * dpi <= rule.dpi * (1 + 1e-9)


@given(rules, st.floats(0.01, 1e5))
def test_a_side_is_the_nearest_multiple(rule: RasterRule, exact_px: float):
    side = rule.side(exact_px)
    assert side == rule.side_multiple_px or abs(side - exact_px) <= rule.side_multiple_px / 2


@given(st.integers(1, 500), st.integers(1, 500))
def test_visual_tokens_follow_the_formula_of_the_processor(cells_wide: int, cells_high: int):
    grid_w, grid_h = 2 * cells_wide, 2 * cells_high  # patches of 16 pixels
    tokens = hunyuan_visual_tokens(16 * grid_w, 16 * grid_h)
    assert tokens == (grid_h // 2) * (grid_w // 2 + 1) + 2


@pytest.mark.parametrize(("dpi", "tokens"), [(144, 2016), (200, 3871)])
def test_an_a4_page_costs_what_the_model_says(dpi: int, tokens: int):
    rule = RasterRule(dpi, 2048 * 2048, 32, "hunyuan_visual_tokens")
    scale = rule.scale_of_points(*A4_PT)
    assert rule.length(*_size(rule, *A4_PT, scale)) == tokens


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_pixel_area_counts_begun_cells(width_px: int, height_px: int):
    assert pixel_area(width_px, height_px) == -(-width_px * height_px // CELL_PX**2)
    assert RasterRule(72, 10**9).length(width_px, height_px) == pixel_area(width_px, height_px)


def test_a_line_of_paper_a_mile_long_keeps_the_pixel_limit():
    rule = RasterRule(144, 2048 * 2048, 32)
    width_px, height_px = _size(rule, 1e8, 1, rule.scale_of_pixels(1e8, 1, None))
    assert height_px == 32
    assert math.isclose(width_px * height_px, rule.max_pixels, rel_tol=0.01)


@given(rules, sides, sides)
def test_a_note_is_made_of_a_page_that_the_limit_makes_smaller_and_of_no_other(rule: RasterRule, w: float, h: float):
    unbounded = replace(rule, max_pixels=10**30)
    for scale, full, note in (
        (rule.scale_of_points(w, h), unbounded.scale_of_points(w, h), rule.note_of_points(w, h)),
        (rule.scale_of_pixels(w, h, 300), unbounded.scale_of_pixels(w, h, 300), rule.note_of_pixels(w, h, 300)),
    ):
        assert (note is None) == (_size(rule, w, h, scale) == _size(rule, w, h, full))


def test_the_note_of_a_page_made_smaller_says_what_it_would_be_and_what_the_limit_is():
    rule = RasterRule(72, 4_000_000)
    words = "rendered smaller: 8000 x 6000 would be 48,000,000 pixels, the limit is 4,000,000"
    assert rule.note_of_points(8000, 6000) == words
    assert rule.note_of_pixels(8000, 6000, None) == words
    assert rule.note_of_pixels(16000, 12000, 144) == words, "at the resolution that is asked for, not the scan's own"


def test_a_page_that_is_only_rounded_has_no_note():
    rule = RasterRule(72, 2048 * 2048, 32)
    assert rule.note_of_points(2050, 2048) is None
    assert rule.note_of_pixels(1000, 1001, None) is None


def test_warnings_of_a_page_add_up():
    page = a_sized_page()
    assert page.warned(None) == page
    assert page.warned("a").warned(None).warned("b").warning == "a; b"


def test_a_page_is_told_by_place_and_index():
    assert a_page(3, uri="file:///x").key == ("file:///x", 3)


def test_bytes_of_a_raster_count_its_channels():
    gray, colour = a_sized_page(channels=1), a_sized_page(channels=3)
    assert gray.num_bytes == gray.width_px * gray.height_px
    assert colour.num_bytes == 3 * gray.num_bytes
