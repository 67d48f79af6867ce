"""Laws of raster sizes and lengths."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import PageFault
from pipeline.page import CELL_PX, LENGTH_RULES, Fit, RasterRule, hunyuan_visual_tokens, pixel_area

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
HUNYUAN = RasterRule(200, 2048 * 2048, 32, "hunyuan_visual_tokens", min_pixels=512 * 512, max_aspect=200)


def _fits(rule: RasterRule, width: float, height: float, dpi: float | None = None) -> tuple[Fit, Fit]:
    return rule.fit_points(width, height), rule.fit_pixels(width, height, dpi)


@given(rules, sides, sides)
def test_sides_are_multiples_and_never_zero(rule: RasterRule, width: float, height: float):
    for fit in _fits(rule, width, height):
        for side in (fit.width_px, fit.height_px):
            assert side >= rule.side_multiple_px
            assert side % rule.side_multiple_px == 0


@given(rules, sides, sides, st.integers(0, 10**9))
def test_no_raster_has_more_pixels_than_the_limit(rule: RasterRule, width: float, height: float, min_pixels: int):
    for fit in _fits(replace(rule, min_pixels=min_pixels), width, height):
        assert fit.width_px * fit.height_px <= rule.max_pixels


@given(rules, sides, sides)
def test_a_vector_page_is_drawn_at_the_dpi_or_coarser(rule: RasterRule, width_pt: float, height_pt: float):
    assert 0 < rule.fit_points(width_pt, height_pt).scale <= rule.dpi / 72


@given(st.floats(10, 1200), st.floats(40, 14_400), st.floats(40, 14_400))
def test_a_page_that_fits_is_drawn_at_the_dpi(dpi: float, width_pt: float, height_pt: float):
    rule = RasterRule(dpi, 10**12, 32)
    assert rule.fit_points(width_pt, height_pt).scale == dpi / 72
    assert rule.fit_pixels(width_pt, height_pt, None).scale == 1


@given(rules, sides, sides, st.floats(10, 1200))
def test_a_page_of_scans_is_drawn_no_finer_than_they_are(rule: RasterRule, width: float, height: float, finest: float):
    fit = rule.fit_points(width, height, finest)
    assert fit.scale <= finest / 72
    if fit.note is None and width * height >= 420 * 595:
        assert fit.scale == min(rule.dpi, finest) / 72


def test_a_scan_that_claims_to_be_small_has_the_pixels_of_a_small_page():
    fit = RasterRule(150, 10**8).fit_points(180, 300, 602)
    assert (fit.width_px, fit.height_px) == (807, 1345), "as many as A5 at 150 dpi"
    assert RasterRule(150, 10**8).fit_points(180, 300, 200).width_px == 500, "the scan has no more"
    assert RasterRule(150, 10**8).fit_points(180, 300).width_px == 375, "letters are as large as the page says"


@given(rules, sides, sides, st.one_of(st.none(), st.floats(50, 4800)))
def test_an_image_is_never_enlarged(rule: RasterRule, width_px: float, height_px: float, dpi: float | None):
    assert 0 < rule.fit_pixels(width_px, height_px, dpi).scale <= 1


@given(rules, st.integers(1, 4000), st.integers(1, 4000), st.floats(50, 4800))
def test_a_scan_is_never_made_finer_than_the_dpi(rule: RasterRule, width_px: int, height_px: int, dpi: float):
    made = rule.fit_pixels(width_px, height_px, dpi).scale * dpi
    assert made <= min(rule.dpi, dpi) * (1 + 1e-9)


@given(rules, sides, sides)
def test_sides_of_a_page_that_fits_are_the_nearest_multiples(rule: RasterRule, width: float, height: float):
    fit = replace(rule, max_pixels=10**30).fit_points(width, height)
    for side, exact in ((fit.width_px, width * fit.scale), (fit.height_px, height * fit.scale)):
        assert side == rule.side_multiple_px or abs(side - exact) <= rule.side_multiple_px / 2


@given(rules, sides, sides)
def test_a_page_on_its_side_has_the_raster_on_its_side(rule: RasterRule, width: float, height: float):
    stands, lies = rule.fit_points(width, height), rule.fit_points(height, width)
    assert (stands.width_px, stands.height_px, stands.scale) == (lies.height_px, lies.width_px, lies.scale)


def smart_resize(height: int, width: int) -> tuple[int, int]:
    """What the processor of HunyuanOCR makes of a raster: the rule of `smart_resize` in transformers, told anew."""
    assert max(height, width) <= 200 * min(height, width), "refused"
    rows, columns = round(height / 32), round(width / 32)
    if rows * columns > 4096:
        shrink = math.sqrt(4_194_304 / (height * width))
        rows, columns = (max(1, math.floor(side * shrink / 32)) for side in (height, width))
    elif rows * columns < 256:
        grow = math.sqrt(262_144 / (height * width))
        rows, columns = (math.ceil(side * grow / 32) for side in (height, width))
    return rows * 32, columns * 32


@given(st.floats(10, 1200), sides, st.floats(1, 200), st.booleans(), st.one_of(st.none(), st.floats(50, 4800)))
def test_the_models_own_processor_leaves_every_raster_as_it_is(
    dpi: float, short: float, aspect: float, lies: bool, dpi_of_image: float | None
):
    rule = replace(HUNYUAN, dpi=dpi)
    long = max(short, min(short * aspect, short * 200))
    for fit in _fits(rule, *((long, short) if lies else (short, long)), dpi_of_image):
        assert smart_resize(fit.height_px, fit.width_px) == (fit.height_px, fit.width_px)
        assert 512 * 512 <= fit.width_px * fit.height_px <= 2048 * 2048


def test_a_page_below_the_minimum_is_made_larger_and_keeps_its_proportions():
    assert HUNYUAN.fit_points(72, 72) == Fit(512, 512, 512 / 72)
    assert HUNYUAN.fit_pixels(100, 100, 300) == Fit(512, 512, 5.12)
    assert HUNYUAN.fit_pixels(2000, 1000, None) == Fit(1984, 992, 1), "no more than rounded"
    stamp = HUNYUAN.fit_pixels(160, 40, None)
    assert (stamp.width_px, stamp.height_px) == (1024, 256)


def test_a_strip_is_refused_beyond_the_limit_and_rounded_within_it():
    for width, height in ((6401, 32), (32, 6401)):
        with pytest.raises(PageFault, match="page_too_narrow: 200 times as long as wide, the engine takes 200"):
            HUNYUAN.fit_pixels(width, height, None)
    assert RasterRule(72, 10**6).fit_pixels(6401, 1, None) == Fit(6401, 1, 1)
    rounded = HUNYUAN.fit_pixels(9400, 47.5, None)
    assert (rounded.width_px, rounded.height_px) == (9408, 64), "32 would be 294 times"
    at_the_limit = HUNYUAN.fit_pixels(40_000, 200, None)
    assert (at_the_limit.width_px, at_the_limit.height_px) == (25_600, 128), "160 would be too many pixels"


def test_a_limit_below_one_unit_is_one_unit():
    fit = RasterRule(72, 100, 32).fit_points(500, 700)
    assert (fit.width_px, fit.height_px) == (32, 32)
    assert fit.note == "rendered smaller: 512 x 704 would be 360,448 pixels, the limit is 100"


@given(st.integers(1, 500), st.integers(1, 500))
def test_visual_tokens_follow_the_formula_of_the_processor(cells_wide: int, cells_high: int):
    grid_w, grid_h = 2 * cells_wide, 2 * cells_high  # patches of 16 pixels
    tokens = hunyuan_visual_tokens(16 * grid_w, 16 * grid_h)
    assert tokens == (grid_h // 2) * (grid_w // 2 + 1) + 2


@pytest.mark.parametrize(("dpi", "tokens"), [(144, 2016), (200, 3871)])
def test_an_a4_page_costs_what_the_model_says(dpi: int, tokens: int):
    fit = replace(HUNYUAN, dpi=dpi).fit_points(*A4_PT)
    assert HUNYUAN.length(fit.width_px, fit.height_px) == tokens


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_pixel_area_counts_begun_cells(width_px: int, height_px: int):
    assert pixel_area(width_px, height_px) == -(-width_px * height_px // CELL_PX**2)
    assert RasterRule(72, 10**9).length(width_px, height_px) == pixel_area(width_px, height_px)


def test_a_line_of_paper_a_mile_long_keeps_the_pixel_limit():
    rule = RasterRule(144, 2048 * 2048, 32)
    fit = rule.fit_pixels(1e8, 1, None)
    assert fit.height_px == 32
    assert fit.scale == pytest.approx(fit.width_px / 1e8, rel=0.01)
    assert math.isclose(fit.width_px * fit.height_px, rule.max_pixels, rel_tol=0.01)


@given(rules, sides, sides)
def test_a_note_is_made_of_a_page_that_the_limit_makes_smaller_and_of_no_other(rule: RasterRule, w: float, h: float):
    unbounded = replace(rule, max_pixels=10**30)
    for fit, full in zip(_fits(rule, w, h, 300), _fits(unbounded, w, h, 300), strict=True):
        assert (fit.note is None) == (fit.scale == full.scale)
        assert full.note is None


def test_the_note_of_a_page_made_smaller_says_what_it_would_be_and_what_the_limit_is():
    rule = RasterRule(72, 4_000_000)
    words = "rendered smaller: 8000 x 6000 would be 48,000,000 pixels, the limit is 4,000,000"
    assert rule.fit_points(8000, 6000).note == words
    assert rule.fit_pixels(8000, 6000, None).note == words
    assert rule.fit_pixels(16000, 12000, 144).note == words, "at the resolution that is asked for, not the scan's own"


def test_a_page_that_is_only_rounded_has_no_note():
    rule = RasterRule(72, 2048 * 2048, 32)
    assert rule.fit_points(2050, 2048).note is None
    assert rule.fit_pixels(1000, 1001, None).note is None


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
