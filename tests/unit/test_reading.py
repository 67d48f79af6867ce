"""What engines have: pages told of stay told whatever dies, and what kills an engine is found among many."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.batch import Batch
from pipeline.page import SizedPage
from pipeline.reading import Reading
from pipeline.result import Outcome, Recognition

from .samples import NOON, a_failure, a_report, a_sized_page


def a_batch(*indices: int) -> Batch:
    return Batch(100, tuple(a_sized_page(index) for index in indices))


def told(sized: SizedPage, tokens: int | None = 2) -> Outcome:
    return Outcome(sized, Recognition("text", output_tokens=tokens), None, 1, NOON, NOON)


def given_to_an_engine(batch: Batch, num_told: int = 0) -> Reading:
    """A batch in flight, its first pages told."""
    reading = Reading()
    reading.give(batch)
    for sized in batch.pages[:num_told]:
        assert reading.tell(batch, told(sized))
    return reading


def indices(batch: Batch | None) -> list[int]:
    return [sized.page.page_index for sized in batch.pages] if batch else []


def test_a_page_counts_the_first_time_it_is_told():
    batch = a_batch(0, 1)
    reading = given_to_an_engine(batch, 1)
    assert not reading.tell(batch, told(batch.pages[0]))
    assert (reading.num_pages, reading.num_batches) == (1, 1)


def test_what_is_told_of_a_batch_that_is_over_does_not_count():
    batch = a_batch(0, 1)
    reading = given_to_an_engine(batch)
    reading.crash(batch, alone=True)
    assert not reading.tell(batch, told(batch.pages[0]))


def test_what_comes_late_counts_if_the_same_batch_is_read_again():
    batch = a_batch(0)
    reading = given_to_an_engine(batch)
    reading.crash(batch, alone=True)
    again = reading.retry()
    assert again is not None
    reading.give(again)
    assert reading.tell(batch, told(batch.pages[0]))
    assert not reading.tell(again, told(batch.pages[0]))
    assert reading.end(again, a_report(again.pages)) == (a_report(again.pages), None)
    assert reading.is_idle


def test_only_what_is_untold_is_read_again_after_a_death_in_halves_and_alone():
    batch = a_batch(*range(8))
    reading = given_to_an_engine(batch, 3)
    report, cause = reading.crash(batch, alone=True)
    assert (cause, report and report.num_pages) == (None, 3)
    halves = [reading.retry(), reading.retry()]
    assert [indices(half) for half in halves] == [[3, 4], [5, 6, 7]]
    assert all(half and half.alone and half.attempt == 2 for half in halves)
    assert reading.retry() is None


def test_the_row_of_a_batch_that_was_cut_short_says_what_is_known_of_it():
    batch = a_batch(*range(4))
    reading = given_to_an_engine(batch, 2)
    reading.tell(batch, replace(told(batch.pages[2]), recognition=None, failure=a_failure()))
    report, _ = reading.crash(batch, alone=True)
    assert report is not None
    assert (report.batch, report.num_told, report.output_tokens, report.total_s) == (batch, 3, (2, 2), 0.0)
    assert (report.node, report.device, report.actor, report.queue_s) == (None, None, None, None)


def test_a_batch_of_which_nothing_was_told_leaves_no_row():
    batch = a_batch(0, 1)
    for over in (
        lambda reading: reading.crash(batch, alone=True)[0],
        lambda reading: reading.give_back(batch),
        lambda reading: reading.lose(batch)[0],
        lambda reading: reading.end(batch, a_report(batch.pages))[0],
    ):
        assert over(given_to_an_engine(batch)) is None


def test_no_time_is_known_of_a_batch_whose_pages_came_without():
    batch = a_batch(0, 1)
    reading = given_to_an_engine(batch)
    reading.tell(batch, Outcome(batch.pages[0], Recognition("text"), None, 1))
    report = reading.give_back(batch)
    assert report is not None
    assert report.total_s is None


def test_a_batch_whose_pages_were_all_told_is_over_whatever_happens_then():
    batch = a_batch(0, 1)
    reading = given_to_an_engine(batch, 2)
    report, cause = reading.crash(batch, alone=True)
    assert (cause, report and report.num_pages, reading.is_idle) == (None, 2, True)
    reading = given_to_an_engine(batch, 2)
    assert reading.give_back(batch) is not None
    assert reading.is_idle
    reading = given_to_an_engine(batch, 2)
    assert reading.lose(batch)[1] == ()


def test_what_is_given_back_or_lost_is_what_is_untold():
    batch = a_batch(0, 1, 2)
    reading = given_to_an_engine(batch, 1)
    report = reading.give_back(batch)
    again = reading.retry()
    assert (indices(again), again and again.attempt, report and report.num_told) == ([1, 2], 1, 1)
    reading = given_to_an_engine(batch, 1)
    assert [sized.page.page_index for sized in reading.lose(batch)[1]] == [1, 2]
    assert reading.is_idle


def test_a_batch_that_ends_with_pages_untold_has_them_read_again_and_keeps_its_own_report():
    batch = a_batch(0, 1, 2)
    reading = given_to_an_engine(batch, 1)
    report, cause = reading.end(batch, a_report(batch.pages))
    assert report == replace(a_report(batch.pages), num_told=1)
    assert cause is None
    assert [indices(reading.retry()), indices(reading.retry())] == [[1], [2]]


def test_a_page_of_which_no_word_ever_comes_fails_in_the_end():
    batch: Batch | None = a_batch(0)
    reading, cause = Reading(), None
    for _ in range(2):
        assert batch is not None
        reading.give(batch)
        _, cause = reading.end(batch, a_report(batch.pages))
        batch = reading.retry()
    assert cause == a_sized_page(0)


def test_suspects_are_read_again_whole_and_alone_and_none_is_blamed():
    one, other = a_batch(0), a_batch(1, 2)
    reading = Reading()
    for _ in range(5):
        for batch in (one, other):
            reading.give(batch)
        assert [reading.crash(batch, alone=False)[1] for batch in (one, other)] == [None, None]
        found = [reading.retry(), reading.retry()]
        assert [indices(batch) for batch in found] == [[0], [1, 2]]
        assert all(batch and batch.alone for batch in found)


def test_the_last_untold_page_of_a_batch_is_not_blamed_before_it_was_read_alone():
    batch = a_batch(0, 1)
    reading = given_to_an_engine(batch, 1)
    assert reading.crash(batch, alone=True)[1] is None
    for expected in (None, batch.pages[1]):
        again = reading.retry()
        assert again is not None
        reading.give(again)
        assert reading.crash(again, alone=True)[1] == expected
    assert reading.is_idle


def test_after_a_stop_nothing_is_read_again():
    batch, behind = a_batch(0, 1), a_batch(2)
    reading = given_to_an_engine(batch, 1)
    reading.give(behind)
    reading.stop()
    assert reading.give_back(behind) is None
    assert reading.crash(batch, alone=True)[1] is None
    assert reading.is_idle
    again = given_to_an_engine(behind)
    again.stop()
    again.crash(behind, alone=True)
    again.give(behind)
    assert again.crash(behind, alone=True) == (None, None), "a page that was not given its two tries is left to be done"


@given(st.integers(1, 64), st.data())
def test_the_one_page_that_kills_is_found_in_a_bounded_number_of_deaths(num_pages: int, data: st.DataObject):
    """Whatever was told before each death, and whatever was read beside it the first time."""
    guilty = data.draw(st.integers(0, num_pages - 1))
    beside = data.draw(st.booleans())
    reading, causes, deaths, done = Reading(), [], 0, 0
    batch: Batch | None = a_batch(*range(num_pages))
    while batch is not None:
        reading.give(batch)
        innocent = [sized for sized in batch.pages if sized.page.page_index != guilty]
        is_deadly = len(innocent) < len(batch.pages)
        num_heard = data.draw(st.integers(0, len(innocent))) if is_deadly else len(innocent)
        done += sum(reading.tell(batch, told(sized)) for sized in innocent[:num_heard])
        if is_deadly:
            deaths += 1
            causes.append(reading.crash(batch, alone=batch.alone or not beside)[1])
        else:
            reading.end(batch, a_report(batch.pages))
        batch = reading.retry()
    assert [cause.page.page_index for cause in causes if cause] == [guilty]
    assert done == num_pages - 1
    assert deaths <= 4 + (num_pages - 1).bit_length()


@pytest.mark.parametrize("alone", [True, False])
def test_a_batch_keeps_its_name_while_its_pages_are_the_same(alone: bool):
    batch = a_batch(0)
    reading = given_to_an_engine(batch)
    reading.crash(batch, alone=alone)
    again = reading.retry()
    assert again is not None
    assert again.batch_id == batch.batch_id
