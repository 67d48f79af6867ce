"""Laws of packing: what a batch may hold, that nothing is lost, and that nobody waits for ever."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.batch import Batch, BatchLimits, Closed, Cut
from pipeline.bucket import bucket_of
from pipeline.budget import Budget, SizeReason, Start, fixed
from pipeline.packer import FIRST_LOOK, LIKE_LENGTH, LOOK_AGAIN, MOST_WINDOWS, Packer
from pipeline.page import Page, SizedPage

from .samples import a_sized_page, lengths

limits = st.builds(
    BatchLimits,
    start=st.integers(1, 9).map(lambda size: fixed(size, SizeReason.ASKED)),
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
    packer, batches = Packer.of(limit), []
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
    assert all(1 <= len(batch.pages) <= limit.start.size_for(1) for batch in _pack(limit, _pages(sizes), forced))


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
def test_no_page_sees_more_than_eight_windows_of_later_pages_pass(limit: BatchLimits, sizes: list[int]):
    packer, waiting = Packer.of(limit), dict[tuple[str, int], int]()
    for number, page in enumerate(_pages(sizes)):
        packer.add(page)
        waiting[page.page.key] = number
        for batch in _all(packer):
            for taken in batch.pages:
                del waiting[taken.page.key]
        assert all(number - since < MOST_WINDOWS * limit.window_pages for since in waiting.values())


@given(limits, few_lengths)
@example(BatchLimits.of(2, 1, max_tokens=1), [60, 60, 60])
def test_a_page_that_waited_for_eight_windows_is_in_the_very_next_batch(limit: BatchLimits, sizes: list[int]):
    packer, waiting = Packer.of(limit), dict[tuple[str, int], int]()
    for number, page in enumerate(_pages(sizes)):
        packer.add(page)
        waiting[page.page.key] = number
        oldest = min(waiting, key=lambda key: waiting[key])
        is_overdue = number - waiting[oldest] >= MOST_WINDOWS * limit.window_pages
        if is_overdue or number % 11 == 10:  # taken so rarely that pages become overdue
            batch = packer.take()
            taken = {page.page.key for page in batch.pages} if batch else set()
            assert not is_overdue or oldest in taken
            waiting = {key: since for key, since in waiting.items() if key not in taken}


def _full_at(limit: BatchLimits, bucket: int) -> int:
    size = limit.start.size_for(bucket)
    return size if limit.max_tokens is None else max(1, min(size, limit.max_tokens // bucket))


@given(limits, few_lengths)
def test_without_force_nothing_is_given_before_a_bucket_or_the_window_is_full(limit: BatchLimits, sizes: list[int]):
    packer, waiting = Packer.of(limit), dict[int, int]()
    for page in _pages(sizes[: MOST_WINDOWS * limit.window_pages]):  # none of them overdue
        packer.add(page)
        bucket = bucket_of(page.length)
        waiting[bucket] = waiting.get(bucket, 0) + 1
        num_waiting = sum(waiting.values())
        assert packer.num_waiting == num_waiting
        assert packer.is_full == (num_waiting >= limit.window_pages)
        if packer.is_full or any(count >= _full_at(limit, name) for name, count in waiting.items()):
            batch = packer.take()
            assert batch is not None
            waiting[batch.bucket] -= len(batch.pages)
        else:
            assert packer.take() is None


@given(few_lengths.filter(bool), st.integers(1, 8))
def test_what_is_left_is_shared_among_the_engines(sizes: list[int], engines: int):
    packer = Packer.of(BatchLimits.of(1000, 1000))
    for page in _pages(sizes):
        packer.add(page)
    first = packer.take(force=True, spread_over=engines)
    assert first is not None
    assert len(first.pages) <= -(-len(sizes) // engines)


def test_an_empty_packer_gives_nothing_even_by_force():
    assert Packer.of(BatchLimits.of(4, 4)).take(force=True) is None


def test_a_page_that_waits_cannot_be_added_again_but_one_that_was_taken_can():
    packer = Packer.of(BatchLimits.of(1, 4))
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


# why a batch holds no more


@given(limits, few_lengths, force_after)
def test_what_is_said_of_the_size_of_a_batch_is_so(limit: BatchLimits, sizes: list[int], forced: list[bool]):
    for batch in _pack(limit, _pages(sizes), forced):
        assert batch.cut is not None
        assert (batch.cut.size_limit, batch.cut.reason) == (limit.start.size_for(1), SizeReason.ASKED)
        assert (batch.cut.closed is Closed.SIZE) == (len(batch.pages) == batch.cut.size_limit)
        if batch.cut.closed is Closed.TOKENS:
            assert limit.max_tokens is not None
            assert batch.bucket * (len(batch.pages) + 1) > limit.max_tokens


def test_tokens_are_counted_by_the_longest_page_and_not_by_the_edge_of_its_bucket():
    packer = Packer.of(BatchLimits.of(9, 4, max_tokens=1000))
    assert bucket_of(490) * 2 > 1000
    for page in _pages([490] * 4):
        packer.add(page)
    batch = packer.take()
    assert batch is not None
    assert batch.lengths == [490, 490]


def _closed(limit: BatchLimits, page_lengths: list[int], *, force: bool = False) -> Cut | None:
    packer = Packer.of(limit)
    for page in _pages(page_lengths):
        packer.add(page)
    batch = packer.take(force=force)
    assert batch is not None
    return batch.cut


@pytest.mark.parametrize(
    ("limit", "page_lengths", "force", "closed"),
    [
        (BatchLimits.of(3, 9), [100] * 5, False, Closed.SIZE),
        (BatchLimits.of(3, 9, max_tokens=250), [100] * 5, False, Closed.TOKENS),
        (BatchLimits.of(3, 4), [100, 200, 400, 800], False, Closed.WINDOW),
        (BatchLimits.of(3, 9), [100], True, Closed.REST),
    ],
)
def test_a_batch_says_what_closed_it(limit: BatchLimits, page_lengths: list[int], force: bool, closed: Closed):
    assert _closed(limit, page_lengths, force=force) == Cut(3, SizeReason.ASKED, closed)


def test_what_is_read_again_says_nothing_of_sizes():
    batch = Packer.of(BatchLimits.of(2, 9))
    for page in _pages([100, 100]):
        batch.add(page)
    whole = batch.take()
    assert whole is not None
    assert [half.cut for half in whole.halves()] == [None, None]


# waiting by the clock


def _at(seconds: list[float], limit: BatchLimits) -> Packer:
    packer = Packer.of(limit)
    for page, at_s in zip(_pages([100 * 2**n for n in range(len(seconds))]), seconds, strict=True):
        packer.add(page, at_s)
    return packer


def test_no_page_waits_longer_for_company_than_it_may():
    packer = _at([5.0, 7.0], BatchLimits(fixed(9, SizeReason.ASKED), 99, max_wait_s=10.0))
    assert packer.take(at_s=14.9) is None
    late = packer.take(at_s=15.0)
    assert late is not None
    assert late.cut == Cut(9, SizeReason.ASKED, Closed.WAIT)
    assert late.lengths == [100]
    assert packer.take(at_s=16.9) is None
    assert packer.take(at_s=17.0) is not None


def test_without_such_a_bound_a_page_waits_until_others_come():
    packer = _at([0.0, 0.0], BatchLimits.of(9, 99))
    assert packer.take(at_s=1e9) is None


def test_a_page_that_waits_too_long_takes_along_who_is_there():
    packer = Packer.of(BatchLimits(fixed(4, SizeReason.ASKED), 99, max_wait_s=10.0))
    for at_s, page in enumerate(_pages([101, 102, 103])):
        packer.add(page, float(at_s))
    batch = packer.take(at_s=10.0)
    assert batch is not None
    assert batch.lengths == [103, 102, 101]


# buckets chosen from the pages


def test_buckets_end_at_lengths_that_pages_have_once_enough_were_seen():
    packer = Packer.of(BatchLimits(fixed(2, SizeReason.ASKED), 10_000, num_buckets=3))
    names = set()
    for number, page in enumerate(_pages([2000, 2600, 3000] * FIRST_LOOK)):
        packer.add(page)
        if number + 1 >= FIRST_LOOK and (batch := packer.take()):
            names.add(batch.bucket)
    assert names == {2000, 2600, 3000}


@given(st.lists(st.integers(60, 4000), min_size=FIRST_LOOK, max_size=FIRST_LOOK + 40), st.integers(1, 4))
def test_choosing_edges_loses_no_page(sizes: list[int], num_buckets: int):
    limit = BatchLimits(fixed(5, SizeReason.ASKED), 10_000, num_buckets=num_buckets)
    packer = Packer.of(limit)
    for page in _pages(sizes):
        packer.add(page)
    batches = list(_all(packer, force=True))
    assert sorted(length for batch in batches for length in batch.lengths) == sorted(sizes)
    assert all(max(batch.lengths) <= batch.bucket for batch in batches)


def test_edges_are_chosen_again_when_many_more_pages_were_seen():
    packer, names = Packer.of(BatchLimits(fixed(1, SizeReason.ASKED), 8, num_buckets=1)), list[int]()
    for number, page in enumerate(_pages([100] * FIRST_LOOK + [300] * (LOOK_AGAIN * FIRST_LOOK))):
        packer.add(page)
        batch = packer.take()
        assert batch is not None
        names.append(batch.bucket)
        assert number < FIRST_LOOK * LOOK_AGAIN or batch.bucket == 300
    assert set(names) == {bucket_of(100), 100, bucket_of(300), 300}


# expected answers


def test_pages_of_like_length_are_sorted_by_their_expected_answers():
    expected = {n: float(n * 7 % 8) for n in range(8)}
    packer = Packer.of(BatchLimits.of(4, 8), lambda sized: expected[_number(sized)])
    for page in _pages([1000 + n % 2 for n in range(8)]):
        packer.add(page)
    batch = packer.take()
    assert batch is not None
    assert {expected[_number(sized)] for sized in batch.pages} == {4.0, 5.0, 6.0, 7.0}
    assert batch.lengths == sorted(batch.lengths, reverse=True)


def _number(sized: SizedPage) -> int:
    return 3 * int(sized.page.uri[8:11]) + sized.page.page_index


def test_length_comes_before_the_expected_answer():
    assert 1000 * LIKE_LENGTH**2 < 1050
    packer = Packer.of(BatchLimits.of(2, 8), lambda sized: -float(sized.length))
    for page in _pages([1050, 1000, 1050, 1000]):
        packer.add(page)
    batch = packer.take()
    assert batch is not None
    assert batch.lengths == [1050, 1050]


# sizes that change


def test_a_size_that_has_been_lowered_holds_from_the_next_batch_on():
    budget = Budget(Start(lambda length: 4, SizeReason.TUNED))
    packer = Packer(BatchLimits(budget.start, 99), budget)
    for page in _pages([100] * 3):
        packer.add(page)
    assert packer.take() is None
    budget.tell(100, 4, seconds=1.0, oom_splits=1)
    batch = packer.take()
    assert batch is not None
    assert batch.cut == Cut(2, SizeReason.OUT_OF_MEMORY, Closed.SIZE)
    assert packer.take() is None


def test_many_lengths_are_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pipeline.packer._MOST_PLACES", 10)
    packer = Packer.of(BatchLimits.of(1, 99))
    for page in _pages(list(range(100, 150))):
        packer.add(page)
        assert packer.take() is not None
        assert len(packer._places) <= 10


def test_pages_whose_answers_are_most_alike_go_first_and_strangers_wait():
    packer = Packer.of(BatchLimits.of(2, 5), lambda sized: [1.0, 50.0, 52.0, 400.0, 999.0][_number(sized)])
    for page in _pages([1000] * 5):
        packer.add(page)
    batch = packer.take()
    assert batch is not None
    assert {_number(sized) for sized in batch.pages} == {1, 2}


def test_where_there_is_no_room_for_more_pages_the_fullest_bucket_gives():
    packer = Packer.of(BatchLimits.of(9, 99))
    for page in _pages([100, 100, 100, 5000]):
        packer.add(page)
    assert packer.take() is None
    batch = packer.take(is_crowded=True)
    assert batch is not None
    assert batch.lengths == [100, 100, 100]
    assert batch.cut == Cut(9, SizeReason.ASKED, Closed.WINDOW)


def test_a_page_that_comes_again_goes_when_it_is_overdue_whatever_is_expected_of_it_by_then():
    expected = iter([5.0, 9.0])
    packer = Packer.of(BatchLimits(fixed(4, SizeReason.ASKED), 99, max_wait_s=10.0), lambda _: next(expected))
    packer.add(a_sized_page(), 0.0)
    assert packer.take(force=True) is not None
    packer.add(a_sized_page(), 5.0)
    assert packer.take(at_s=14.0) is None, "it has waited since it came again"
    batch = packer.take(at_s=15.0)
    assert batch is not None
    assert len(batch.pages) == 1
