"""Laws of buckets."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.bucket import MOST_CANDIDATES, RATIO, SMALLEST_LENGTH, Edges, Lengths, best_edges, bucket_of, edge

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


# edges chosen from lengths

counted = st.dictionaries(st.integers(0, 60), st.integers(1, 9), max_size=8)


def _padding(counts: dict[int, int], edges: tuple[int, ...]) -> int:
    return sum(count * (min(e for e in edges if e >= length) - length) for length, count in counts.items())


@given(counted.filter(bool), st.integers(1, 6))
def test_no_other_edges_would_pad_less(counts: dict[int, int], num_buckets: int):
    edges = best_edges(counts, num_buckets)
    lengths = sorted(counts)
    others = (
        (*inner, lengths[-1])
        for number in range(min(num_buckets, len(lengths)))
        for inner in combinations(lengths[:-1], number)
    )
    assert 1 <= len(edges) <= num_buckets
    assert _padding(counts, edges) == min(_padding(counts, other) for other in others)


@given(st.dictionaries(st.integers(0, 10_000), st.integers(1, 9), min_size=1, max_size=600), st.integers(1, 8))
def test_edges_rise_and_the_last_holds_the_longest(counts: dict[int, int], num_buckets: int):
    edges = best_edges(counts, num_buckets)
    assert list(edges) == sorted(set(edges))
    assert edges[-1] == max(counts)
    assert set(edges) <= set(counts)


def test_of_very_many_lengths_edges_still_pad_little_more_than_an_even_spread_must():
    counts = dict.fromkeys(range(1, 4001), 1)
    edges = best_edges(counts, 10)
    assert len(counts) > MOST_CANDIDATES
    assert _padding(counts, edges) < 1.02 * _padding(counts, tuple(range(400, 4001, 400)))


def test_no_pages_give_no_edges():
    assert best_edges({}, 4) == ()
    assert Lengths().edges(4) == Edges()


@given(st.lists(st.integers(1, 5000), max_size=5), lengths)
def test_a_page_is_in_the_first_bucket_that_holds_it(rising: list[int], length: int):
    edges = Edges(tuple(sorted(set(rising))))
    name = edges.bucket_of(length)
    assert length <= name
    assert edges.bucket_of(name) == name
    assert name in edges.rising or length > max(edges.rising, default=-1)


def test_lengths_are_counted_in_steps_once_there_are_too_many(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pipeline.bucket.MOST_LENGTHS", 16)
    seen = Lengths()
    for length in range(1, 101):
        seen.add(length)
    assert seen.num_pages == 100
    assert len(seen._counts) <= 16
    assert sum(seen._counts.values()) == 100
    edges = seen.edges(5)
    assert len(edges.rising) == 5
    assert edges.rising[-1] >= 100


@given(counted.filter(bool), st.floats(0.0, 0.5))
def test_there_are_no_more_buckets_than_little_padding_takes(counts: dict[int, int], good_enough: float):
    edges = best_edges(counts, 60, good_enough)
    tokens = sum(length * count for length, count in counts.items())
    most = tokens * good_enough / (1 - good_enough)
    assert _padding(counts, edges) <= most + 1e-6
    assert len(edges) == 1 or _padding(counts, best_edges(counts, len(edges) - 1)) > most - 1e-6
