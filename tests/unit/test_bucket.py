"""Laws of buckets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.bucket import RATIO, SMALLEST_LENGTH, bucket_of, edge

from .samples import lengths


@given(lengths)
def test_no_page_is_longer_than_the_name_of_its_bucket(length: int):
    assert length <= bucket_of(length)


@given(lengths, lengths)
def test_a_longer_page_is_never_in_a_smaller_bucket(one: int, other: int):
    shorter, longer = sorted((one, other))
    assert bucket_of(shorter) <= bucket_of(longer)


@given(lengths)
def test_the_bucket_of_a_bucket_is_itself(length: int):
    assert bucket_of(bucket_of(length)) == bucket_of(length)


@given(lengths.filter(lambda length: length > SMALLEST_LENGTH))
def test_pages_of_one_bucket_differ_in_length_by_less_than_the_ratio(length: int):
    assert bucket_of(length) < RATIO * length


@given(st.integers(0, 80))
def test_every_edge_is_the_longest_page_of_its_own_bucket(step: int):
    assert bucket_of(edge(step)) == edge(step)
    assert bucket_of(edge(step) + 1) == edge(step + 1)


def test_all_short_pages_share_the_smallest_bucket():
    assert {bucket_of(length) for length in range(SMALLEST_LENGTH + 1)} == {SMALLEST_LENGTH}


def test_a_negative_length_is_refused():
    with pytest.raises(ValueError, match="negative: -1"):
        bucket_of(-1)
