"""Laws of packing: what a batch may hold, that nothing is lost, and that nobody waits for ever."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.batch import Batch, BatchLimits, Packer
from pipeline.bucket import bucket_of
from pipeline.page import Page, SizedPage

from .samples import a_sized_page, lengths

limits = st.builds(
    BatchLimits,
    batch_size=st.integers(1, 9),
    window_pages=st.integers(1, 24),
    max_tokens=st.one_of(st.none(), st.integers(1, 20_000)),
)
few_lengths = st.lists(st.one_of(st.integers(60, 130), st.sampled_from([0, 1, 2016, 3871]), lengths), max_size=80)
force_after = st.lists(st.booleans(), min_size=1, max_size=7)


def _pages(page_lengths: list[int]) -> list[SizedPage]:
    """One page for each length, of documents of three pages."""
    found = []
    for number, length in enumerate(page_lengths):
        page = Page(f"file:///{number // 3:03}.pdf", "d" * 64, number % 3, 3)
        found.append(SizedPage(page, 10, 10, 1, None, 0, length))
    return found


def _pack(limit: BatchLimits, pages: list[SizedPage], forced: list[bool], engines: int = 1) -> list[Batch]:
    """Add every page, taking now and then as `forced` says, and at the end all that is left."""
    packer, batches = Packer(limit), []
    for number, page in enumerate(pages):
        packer.add(page)
        if forced[number % len(forced)]:
            batches += _all(packer, force=number % 5 == 0)
    batches += _all(packer, force=True, spread_over=engines)
    assert packer.num_waiting == 0
    return batches


def _all(packer: Packer, *, force: bool = False, spread_over: int = 1) -> Iterator[Batch]:
    while batch := packer.take(force=force, spread_over=spread_over):
        yield batch


@given(limits, few_lengths, force_after, st.integers(1, 4))
def test_no_page_is_lost_and_none_is_doubled(limit: BatchLimits, sizes: list[int], forced: list[bool], engines: int):
    pages = _pages(sizes)
    packed = [page.page.key for batch in _pack(limit, pages, forced, engines) for page in batch.pages]
    assert sorted(packed) == sorted(page.page.key for page in pages)


@given(limits, few_lengths, force_after)
def test_a_batch_never_exceeds_its_size(limit: BatchLimits, sizes: list[int], forced: list[bool]):
    assert all(1 <= len(batch.pages) <= limit.batch_size for batch in _pack(limit, _pages(sizes), forced))


@given(limits.filter(lambda limit: limit.max_tokens), few_lengths, force_after)
def test_a_batch_never_exceeds_its_tokens_unless_one_page_does(
    limit: BatchLimits, sizes: list[int], forced: list[bool]
):
    for batch in _pack(limit, _pages(sizes), forced):
        padded = max(batch.lengths) * len(batch.pages)
        assert padded <= (limit.max_tokens or 0) or len(batch.pages) == 1


@given(limits, few_lengths, force_after)
def test_a_batch_is_of_one_bucket_and_longest_first(limit: BatchLimits, sizes: list[int], forced: list[bool]):
    for batch in _pack(limit, _pages(sizes), forced):
        assert {bucket_of(length) for length in batch.lengths} == {batch.bucket}
        assert batch.lengths == sorted(batch.lengths, reverse=True)


@given(limits, few_lengths, force_after)
def test_the_same_calls_give_the_same_batches(limit: BatchLimits, sizes: list[int], forced: list[bool]):
    assert _pack(limit, _pages(sizes), forced) == _pack(limit, _pages(sizes), forced)


@given(limits, few_lengths)
def test_no_page_sees_more_than_two_windows_of_later_pages_pass(limit: BatchLimits, sizes: list[int]):
    packer, waiting = Packer(limit), dict[tuple[str, int], int]()
    for number, page in enumerate(_pages(sizes)):
        packer.add(page)
        waiting[page.page.key] = number
        for batch in _all(packer):
            for taken in batch.pages:
                del waiting[taken.page.key]
        assert all(number - since < 2 * limit.window_pages for since in waiting.values())


@given(limits, few_lengths)
@example(BatchLimits(batch_size=2, window_pages=1, max_tokens=1), [60, 60, 60])
def test_a_page_that_waited_for_two_windows_is_in_the_very_next_batch(limit: BatchLimits, sizes: list[int]):
    packer, waiting = Packer(limit), dict[tuple[str, int], int]()
    for number, page in enumerate(_pages(sizes)):
        packer.add(page)
        waiting[page.page.key] = number
        oldest = min(waiting, key=lambda key: waiting[key])
        is_overdue = number - waiting[oldest] >= 2 * limit.window_pages
        if is_overdue or number % 11 == 10:  # taken so rarely that pages become overdue
            batch = packer.take()
            taken = {page.page.key for page in batch.pages} if batch else set()
            assert not is_overdue or oldest in taken
            waiting = {key: since for key, since in waiting.items() if key not in taken}


@given(limits, few_lengths)
def test_without_force_nothing_is_given_before_a_bucket_or_the_window_is_full(limit: BatchLimits, sizes: list[int]):
    packer, waiting = Packer(limit), dict[int, int]()
    for page in _pages(sizes[: 2 * limit.window_pages]):  # none of them overdue
        packer.add(page)
        bucket = bucket_of(page.length)
        waiting[bucket] = waiting.get(bucket, 0) + 1
        num_waiting = sum(waiting.values())
        assert packer.num_waiting == num_waiting
        assert packer.is_full == (num_waiting >= limit.window_pages)
        if packer.is_full or max(waiting.values()) >= limit.batch_size:
            batch = packer.take()
            assert batch is not None
            waiting[batch.bucket] -= len(batch.pages)
        else:
            assert packer.take() is None


@given(few_lengths.filter(bool), st.integers(1, 8))
def test_what_is_left_is_shared_among_the_engines(sizes: list[int], engines: int):
    packer = Packer(BatchLimits(batch_size=1000, window_pages=1000))
    for page in _pages(sizes):
        packer.add(page)
    first = packer.take(force=True, spread_over=engines)
    assert first is not None
    assert len(first.pages) <= -(-len(sizes) // engines)


def test_an_empty_packer_gives_nothing_even_by_force():
    assert Packer(BatchLimits(4, 4)).take(force=True) is None


def test_a_page_that_waits_cannot_be_added_again_but_one_that_was_taken_can():
    packer = Packer(BatchLimits(1, 4))
    packer.add(a_sized_page())
    with pytest.raises(ValueError, match="waits already"):
        packer.add(a_sized_page())
    assert packer.take() is not None
    packer.add(a_sized_page())
    assert packer.num_waiting == 1


@given(few_lengths.filter(bool), st.integers(1, 5))
def test_a_batch_is_named_by_its_pages_alone(sizes: list[int], attempt: int):
    pages = tuple(_pages(sizes))
    name = Batch(64, pages).batch_id
    assert name == Batch(80, pages, attempt).batch_id
    assert len(name) == 16
    assert int(name, 16) >= 0
    assert len(pages) == 1 or name != Batch(64, pages[1:]).batch_id
    assert len(pages) == 1 or name != Batch(64, pages[::-1]).batch_id


@given(st.integers(1, 40), st.integers(1, 5))
def test_halves_are_a_partition_for_another_attempt(num_pages: int, attempt: int):
    batch = Batch(64, tuple(_pages([64] * num_pages)), attempt)
    halves = batch.halves()
    assert [page for half in halves for page in half.pages] == list(batch.pages)
    assert len(halves) == min(2, num_pages)
    assert max(len(half.pages) for half in halves) <= (num_pages + 1) // 2
    assert all(half.attempt == attempt + 1 and half.bucket == batch.bucket for half in halves)


@given(few_lengths.filter(bool))
def test_padding_is_what_the_longest_makes_of_the_others(sizes: list[int]):
    batch = Batch(64, tuple(_pages(sizes)))
    assert batch.padded_tokens == sum(max(sizes) - size for size in sizes)
    assert 0 <= batch.padding_ratio < 1
