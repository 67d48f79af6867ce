"""The loop that carries a flow: what it commits when the runner or the output gives up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from pipeline.batch import BatchLimits
from pipeline.budget import SizeReason, fixed
from pipeline.errors import EngineLostError, StorageError, UsageError
from pipeline.flow import Flow, FlowLimits
from pipeline.page import Page
from pipeline.runner import drive
from pipeline.task import Event, Ready

from .simulated import Chaos, Fate, Gathered, Scenario, SimulatedDocument, SimulatedRunner

TEN_PAGES = Scenario(
    (SimulatedDocument("file:///a", (Fate.FINE,) * 10), SimulatedDocument("file:///b", (Fate.CANNOT_BE_RENDERED,))),
    FlowLimits(BatchLimits.of(2, 8), raster_bytes=10_000, pages_per_task=4),
    num_rasterizers=1,
    num_engines=1,
    chaos=Chaos(seed=1),
)


class Onlooker:
    """A watch that never stops a run."""

    def should_stop(self) -> bool:
        return False

    def say(self, text: str) -> None:
        pass

    def look(self, flow: Flow) -> None:
        pass


@dataclass(slots=True)
class Failing:
    """A runner that gives up after some turns; and it remembers whose pixels it was told to forget."""

    runner: SimulatedRunner
    error: Exception
    turns: int
    forgotten: list[Page] = field(default_factory=list)

    def __getattr__(self, name: str) -> object:
        return getattr(self.runner, name)

    def wait(self, *, take_pages: bool) -> list[Event]:
        self.turns -= 1
        if self.turns < 0:
            raise self.error
        return self.runner.wait(take_pages=take_pages)

    def forget(self, page: Page) -> None:
        self.forgotten.append(page)
        self.runner.forget(page)


def _drive(error: Exception, turns: int, gathered: Gathered) -> Failing:
    flow = TEN_PAGES.flow()
    failing = Failing(SimulatedRunner(TEN_PAGES, flow), error, turns)
    drive(flow, failing, gathered, Onlooker())  # type: ignore[arg-type]
    return failing


def _page_waits(seconds_a_turn: float) -> list[int]:
    """Sizes of batches of a run of one document of ten pages, whose pages may wait ten seconds for company."""
    limits = BatchLimits(fixed(99, SizeReason.ASKED), 99, max_wait_s=10.0)
    scenario = replace(TEN_PAGES, limits=FlowLimits(limits, raster_bytes=1 << 30, pages_per_task=1))
    flow, now = scenario.flow(), iter(range(10**9))
    gathered = Gathered()
    clock = lambda: 5_000.0 + seconds_a_turn * next(now)  # noqa: E731
    drive(flow, SimulatedRunner(scenario, flow), gathered, Onlooker(), clock)  # type: ignore[arg-type]
    return [len(report.batch.pages) for report in gathered.reports]


def test_pages_wait_for_company_by_the_clock_that_the_loop_is_given():
    patient, hurried = _page_waits(0.0), _page_waits(20.0)
    assert sum(patient) == sum(hurried) == 10
    assert len(patient) == 3, "one for each of their buckets"
    assert len(hurried) > 5


def test_what_was_settled_is_committed_when_the_runner_gives_up():
    gathered = Gathered()
    with pytest.raises(EngineLostError, match="keeps dying"):
        _drive(EngineLostError("engine fake keeps dying"), 10, gathered)
    assert gathered.num_flushes == 1
    assert 0 < len(gathered.results) < 11


def test_what_was_settled_in_the_very_last_turn_is_committed_too():
    whole = Gathered()
    _drive(EngineLostError(""), 10**9, whole)
    assert len(whole.results) == 11
    for turns in range(1, 60):
        gathered = Gathered()
        try:
            _drive(EngineLostError(""), turns, gathered)
        except EngineLostError:
            assert gathered.results == whole.results[: len(gathered.results)]
        assert gathered.num_flushes == 1


def test_pixels_are_forgotten_as_soon_as_their_page_is_settled():
    gathered = Gathered()
    failing = _drive(EngineLostError(""), 10**9, gathered)
    assert failing.forgotten == [result.page for result in gathered.results]
    assert failing.runner.pixels == {}


@dataclass(slots=True)
class Full(Gathered):
    """A committer on a disk that is full."""

    on_flush: Callable[[], None] = lambda: None

    def take(self, ready: Ready) -> None:
        if ready.results:
            raise StorageError("pages/part could not be written: disk full")


def test_a_full_disk_ends_the_run_and_is_not_written_to_again():
    full = Full()
    with pytest.raises(StorageError, match="disk full"):
        _drive(EngineLostError(""), 10**9, full)
    assert full.num_flushes == 0


def test_a_wrong_command_found_out_late_is_told_as_such():
    with pytest.raises(UsageError):
        _drive(UsageError("no such thing"), 5, Gathered())
