"""Totals are a monoid, and what they count is what happened."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import reduce
from operator import add

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import ErrorCode
from pipeline.result import PageResult, Status, Timings
from pipeline.stats import Buckets, BucketTotals, Totals, of_batch, of_result

from .samples import a_document, a_failure, a_report, a_result, a_sized_page

counters = st.dictionaries(st.sampled_from(["ok", "failed", "blank"]), st.integers(0, 9)).map(Counter)
eighths = st.integers(0, 800).map(lambda n: n / 8)  # floats that add without rounding
totals = st.builds(
    Totals,
    documents=st.integers(0, 9),
    pages=st.integers(0, 9),
    pages_by_status=counters,
    failures_by_code=counters,
    characters=st.integers(0, 10**12),
    raster_s=eighths,
    engine_s=eighths,
    buckets=st.dictionaries(
        st.integers(1, 4),
        st.builds(
            BucketTotals,
            pages=st.integers(0, 9),
            padded_tokens=st.integers(0, 99),
            length_tokens=st.integers(0, 99),
            slots=eighths,
            idle_slots=eighths,
            engine_s=eighths,
        ),
    ).map(Buckets),
)


@given(totals, totals, totals)
def test_totals_merge_in_any_grouping(a: Totals, b: Totals, c: Totals):
    assert (a + b) + c == a + (b + c)


@given(totals)
def test_empty_totals_are_neutral(a: Totals):
    assert a + Totals() == a == Totals() + a


@given(totals, totals)
def test_totals_merge_in_any_order(a: Totals, b: Totals):
    assert a + b == b + a


@given(totals)
def test_padding_is_a_share(a: Totals):
    assert 0 <= a.padding_ratio <= 1


@given(st.lists(st.booleans(), max_size=20))
def test_totals_of_results_count_each_of_them(reads: list[bool]):
    failed = PageResult(a_document(), None, Status.FAILED, failure=a_failure(ErrorCode.ENCRYPTED))
    whole = reduce(add, [of_result(a_result(text="four") if read else failed) for read in reads], Totals())
    assert whole.pages == len(reads)
    assert whole.pages_failed == reads.count(False)
    assert whole.characters == 4 * reads.count(True)
    assert whole.failures_by_code == Counter(encrypted=reads.count(False))
    assert whole.raster_bytes == a_sized_page().num_bytes * reads.count(True)


def test_totals_of_a_batch_count_its_pages_and_its_padding():
    whole = of_batch(a_report((a_sized_page(0, length=100), a_sized_page(1, length=90)), total_s=2.0))
    assert (whole.batches, whole.batched_pages) == (1, 2)
    said = whole.as_dict()
    assert [said[name] for name in ("batches", "batched_pages", "length_tokens", "padded_tokens")] == [1, 2, 190, 10]
    assert whole.padding_ratio == 10 / 200
    assert whole.engine_s == 2.0


def test_batches_are_counted_by_bucket_with_their_padding_and_idle_slots():
    pages = (a_sized_page(0, length=100), a_sized_page(1, length=90))
    one = replace(a_report(pages, total_s=2.0), timings=Timings(), idle_ratio=0.25, output_tokens=(40, 20))
    other = replace(a_report(pages[:1], total_s=1.0), timings=Timings(), idle_ratio=0.0, output_tokens=(20,))
    name = one.batch.bucket
    assert one.batch.bucket == other.batch.bucket
    (of_bucket,) = (of_batch(one) + of_batch(other)).buckets.values()
    assert (of_bucket.pages, of_bucket.batches, of_bucket.padded_tokens) == (3, 2, 10)
    assert of_bucket.padding_ratio == 10 / 300
    assert of_bucket.idle_ratio == 20 / 100  # 60 tokens in 80 slots, and 20 in 20
    assert of_bucket.pages_per_s == 1.0
    assert of_batch(one).as_dict()["buckets"][str(name)]["pages"] == 2


def test_of_an_engine_without_slots_nobody_says_that_none_was_idle():
    bucket = of_batch(replace(a_report((a_sized_page(0),), total_s=2.0), idle_ratio=None)).buckets.whole()
    assert bucket.idle_ratio is None
    assert BucketTotals().pages_per_s is None
    assert BucketTotals().padding_ratio == 0.0


def test_what_an_engine_worked_on_a_batch_counts_where_it_tells_of_it():
    report = replace(a_report((a_sized_page(0),), total_s=9.0), timings=Timings(None, None, 1.0, 2.0))
    assert of_batch(report).buckets.whole().engine_s == 3.0


def test_totals_as_json_hold_plain_values():
    values = of_result(a_result()).as_dict()
    assert values["pages"] == 1
    assert type(values["pages_by_status"]) is dict


def test_what_cannot_be_added_is_refused():
    with pytest.raises(TypeError, match="cannot add dict and Counter"):
        Totals(pages_by_status={}) + Totals()
