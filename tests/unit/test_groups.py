"""Laws of the groups in which crops go through the recognizer."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engines.rapid.groups import NARROWEST_PX, STEP_PX, groups, padded_width_px

widths = st.lists(st.one_of(st.integers(1, 500), st.integers(1, 10_000), st.sampled_from([95, 96, 97, 112, 113])))
limits = st.integers(1, 3_000)


@given(widths, limits)
def test_every_crop_is_in_exactly_one_group(widths_px: list[int], max_columns: int):
    members = [position for group in groups(widths_px, max_columns=max_columns) for position in group]
    assert sorted(members) == list(range(len(widths_px)))


@given(widths, limits)
def test_the_crops_of_a_group_have_one_padded_width(widths_px: list[int], max_columns: int):
    for group in groups(widths_px, max_columns=max_columns):
        assert len({padded_width_px(widths_px[position]) for position in group}) == 1


@given(widths, limits)
def test_a_group_of_several_crops_is_within_the_limit(widths_px: list[int], max_columns: int):
    for group in groups(widths_px, max_columns=max_columns):
        assert len(group) == 1 or sum(padded_width_px(widths_px[position]) for position in group) <= max_columns


@given(widths, limits)
def test_crops_are_not_kept_apart_that_could_be_together(widths_px: list[int], max_columns: int):
    found = groups(widths_px, max_columns=max_columns)
    for width in {padded_width_px(width_px) for width_px in widths_px}:
        sizes = [len(group) for group in found if padded_width_px(widths_px[group[0]]) == width]
        assert sizes[:-1] == [max(1, max_columns // width)] * (len(sizes) - 1)


@given(widths, limits)
def test_groups_come_narrowest_first(widths_px: list[int], max_columns: int):
    order = [padded_width_px(widths_px[group[0]]) for group in groups(widths_px, max_columns=max_columns)]
    assert order == sorted(order)


@given(widths, limits, st.randoms(use_true_random=False))
def test_the_order_of_the_crops_does_not_alter_the_shapes(
    widths_px: list[int], max_columns: int, chance: random.Random
):
    shuffled = chance.sample(widths_px, len(widths_px))
    shapes = [
        [(len(group), padded_width_px(of[group[0]])) for group in groups(of, max_columns=max_columns)]
        for of in (widths_px, shuffled)
    ]
    assert shapes[0] == shapes[1]


@given(st.integers(1, 100_000))
def test_a_crop_is_padded_to_less_than_a_step_more(width_px: int):
    padded = padded_width_px(width_px)
    assert padded >= max(width_px, NARROWEST_PX)
    assert padded % STEP_PX == 0
    assert padded == NARROWEST_PX or padded - width_px < STEP_PX


@pytest.mark.parametrize("width_px", [0, -1])
def test_a_crop_without_columns_is_refused(width_px: int):
    with pytest.raises(ValueError, match="at least one column"):
        padded_width_px(width_px)
