"""Laws of budgets: where a batch's size comes from, what lowers it, what lets it grow, and what it never passes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.bucket import bucket_of
from pipeline.budget import BATCHES_A_SIZE, Allowance, Budget, SizeReason, Start, fixed

LENGTH = 3871
LONGER, SHORTER = 2 * LENGTH, LENGTH // 2

sizes = st.integers(1, 64)
batches = st.lists(st.tuples(st.sampled_from([SHORTER, LENGTH, LONGER]), st.floats(0.1, 10), st.integers(0, 2)))


def _growing(size: int, ceiling: int) -> Start:
    return Start(lambda _: size, SizeReason.TUNED, lambda _: ceiling, grows=True)


def _read(budget: Budget, seconds_a_batch: float, seconds_a_page: float, rounds: int = 60) -> list[Allowance]:
    """Read full batches on a device that takes so long for one; the allowances in the order they were in force."""
    seen = []
    for _ in range(rounds):
        allowed = budget.allowance(LENGTH)
        seen.append(allowed)
        seconds = seconds_a_batch + seconds_a_page * allowed.size
        budget.tell(LENGTH, allowed.size, seconds=seconds, oom_splits=0)
    return seen


@given(sizes, st.integers(1, 10_000))
def test_what_was_asked_for_is_what_is_allowed(size: int, length: int):
    assert Budget(fixed(size, SizeReason.ASKED)).allowance(length) == Allowance(size, SizeReason.ASKED)


@given(sizes, batches)
def test_a_size_never_falls_below_one_page_nor_grows_unasked(size: int, told: list[tuple[int, float, int]]):
    budget = Budget(fixed(size, SizeReason.ASKED))
    for length, seconds, splits in told:
        allowed = budget.allowance(length).size
        budget.tell(length, allowed, seconds=seconds, oom_splits=splits)
        assert 1 <= budget.allowance(length).size <= size
        assert allowed <= size


@given(sizes, sizes, batches)
def test_no_size_passes_the_ceiling_or_what_has_not_fitted(
    first: int, ceiling: int, told: list[tuple[int, float, int]]
):
    budget, failed = Budget(_growing(first, ceiling)), 1_000
    for length, seconds, splits in told * BATCHES_A_SIZE:
        size = budget.allowance(length).size
        assert size <= max(first, ceiling)
        assert size < failed or size == 1
        budget.tell(length, size, seconds=seconds, oom_splits=splits)
        if splits and length == SHORTER and size > 1:
            failed = min(failed, size)


def test_without_memory_the_size_is_halved_and_halved_again():
    budget = Budget(fixed(8, SizeReason.ASKED))
    for expected in (4, 2, 1, 1):
        budget.tell(LENGTH, budget.allowance(LENGTH).size, seconds=1.0, oom_splits=1)
        assert budget.allowance(LENGTH) == Allowance(expected, SizeReason.OUT_OF_MEMORY)


def test_what_was_under_way_when_the_size_was_halved_does_not_halve_it_again():
    budget = Budget(fixed(8, SizeReason.ASKED))
    for _ in range(3):
        budget.tell(LENGTH, 8, seconds=1.0, oom_splits=1)
    assert budget.allowance(LENGTH).size == 4


def test_what_does_not_fit_for_some_pages_does_not_for_longer_ones_but_may_for_shorter_ones():
    budget = Budget(fixed(8, SizeReason.ASKED))
    assert budget.allowance(LONGER).size == 8
    budget.tell(LENGTH, 8, seconds=1.0, oom_splits=1)
    assert [budget.allowance(length).size for length in (SHORTER, LENGTH, LONGER, 4 * LENGTH)] == [8, 4, 4, 4]


def test_an_engine_that_shares_out_its_memory_itself_lowers_nothing():
    budget = Budget(Start(lambda _: 8, SizeReason.ENGINE, lowers=False))
    budget.tell(LENGTH, 8, seconds=1.0, oom_splits=3)
    assert budget.allowance(LENGTH) == Allowance(8, SizeReason.ENGINE)


def test_a_size_grows_for_as_long_as_it_pays_and_up_to_the_ceiling():
    seen = _read(Budget(_growing(4, 11)), seconds_a_batch=50.0, seconds_a_page=1.0)
    assert [allowed.size for allowed in seen[::BATCHES_A_SIZE]] == [4, 5, 6, 7, 8, 9, 10, 11, 11, 11]
    assert seen[0].reason is SizeReason.TUNED
    assert seen[-1].reason is SizeReason.FASTER


def test_a_size_that_reads_no_faster_goes_back_to_the_one_before_for_good():
    seen = _read(Budget(_growing(8, 99)), seconds_a_batch=0.5, seconds_a_page=1.0)
    assert [allowed.size for allowed in seen[::BATCHES_A_SIZE]] == [8, 10, *[8] * 8]
    assert seen[-1] == Allowance(8, SizeReason.NOT_FASTER)


def test_after_it_was_halved_a_size_grows_again_but_not_to_where_it_failed():
    budget = Budget(_growing(16, 99))
    budget.tell(LENGTH, 16, seconds=1.0, oom_splits=1)
    seen = _read(budget, seconds_a_batch=1000.0, seconds_a_page=1.0)
    assert seen[0] == Allowance(8, SizeReason.OUT_OF_MEMORY)
    assert seen[-1] == Allowance(15, SizeReason.FASTER)


def test_a_size_that_was_asked_for_and_halved_comes_back_to_just_below_what_failed():
    budget = Budget(fixed(8, SizeReason.ASKED))
    budget.tell(LENGTH, 8, seconds=1.0, oom_splits=1)
    sizes = [allowed.size for allowed in _read(budget, seconds_a_batch=50.0, seconds_a_page=1.0)]
    assert (sizes[0], max(sizes)) == (4, 7)


def test_a_page_that_finds_no_memory_alone_says_nothing_of_batches():
    budget = Budget(fixed(8, SizeReason.ASKED))
    budget.tell(LENGTH, 1, seconds=1.0, oom_splits=1)
    assert budget.allowance(LENGTH).size == 8


def test_batches_that_are_not_full_say_nothing_of_a_size():
    budget = Budget(_growing(8, 99))
    for _ in range(10 * BATCHES_A_SIZE):
        budget.tell(LENGTH, 7, seconds=1.0, oom_splits=0)
        budget.tell(LENGTH, 8, seconds=None, oom_splits=0)
    assert budget.allowance(LENGTH) == Allowance(8, SizeReason.TUNED)


def test_nothing_grows_past_what_is_known_to_fit():
    budget = Budget(Start(lambda _: 4, SizeReason.ENGINE, grows=True))
    assert {allowed.size for allowed in _read(budget, seconds_a_batch=50.0, seconds_a_page=1.0)} == {4}


# what the engine says of its memory

ROOM = ((1000, 40), (2000, 20), (4000, 10))


def test_memory_that_runs_out_lowers_what_the_memory_model_allows():
    budget = Budget(fixed(8, SizeReason.ENGINE))
    budget.learn_room([(10_000, 100)])
    assert budget.allowance(LENGTH).size == 100
    budget.tell(LENGTH, 100, seconds=1.0, oom_splits=1)
    assert budget.allowance(LENGTH) == Allowance(50, SizeReason.OUT_OF_MEMORY)
    assert budget.allowance(SHORTER) == Allowance(100, SizeReason.MEMORY_MODEL)
    assert budget.allowance(2 * LONGER) == Allowance(50, SizeReason.OUT_OF_MEMORY)


@pytest.mark.parametrize(("length", "pages"), [(10, 40), (bucket_of(700), 40), (1500, 20), (3000, 10), (50_000, 10)])
def test_the_memory_model_takes_the_place_of_what_the_engine_declares(length: int, pages: int):
    budget = Budget(fixed(8, SizeReason.ENGINE))
    budget.learn_room(ROOM)
    assert budget.allowance(length) == Allowance(pages, SizeReason.MEMORY_MODEL)


def test_a_tuned_size_is_kept_but_for_what_does_not_fit():
    budget = Budget(fixed(16, SizeReason.TUNED))
    budget.learn_room(ROOM)
    assert budget.allowance(1500) == Allowance(16, SizeReason.TUNED)
    assert budget.allowance(3000) == Allowance(10, SizeReason.MEMORY_MODEL)


def test_who_asks_for_a_size_gets_it_whatever_the_memory_model_says():
    budget = Budget(fixed(64, SizeReason.ASKED))
    budget.learn_room(ROOM)
    assert budget.allowance(3000) == Allowance(64, SizeReason.ASKED)


def test_of_several_engines_the_one_with_least_memory_counts():
    budget = Budget(fixed(8, SizeReason.ENGINE))
    before = budget.version
    budget.learn_room([(4000, 10)])
    budget.learn_room([(4000, 3)])
    budget.learn_room([(4000, 30)])
    assert budget.allowance(3000) == Allowance(3, SizeReason.MEMORY_MODEL)
    assert budget.version > before


def test_a_size_grows_no_further_than_the_memory_model_allows():
    budget = Budget(_growing(4, 99))
    budget.learn_room([(10_000, 6)])
    assert _read(budget, seconds_a_batch=50.0, seconds_a_page=1.0)[-1].size == 6
