"""What a person sees while a run is under way, and how they stop it."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

import jobs.progress
from jobs.progress import Progress
from pipeline.batch import BatchLimits
from pipeline.flow import FlowLimits
from pipeline.runner import drive
from pipeline.stats import Totals

from .simulated import Fate, Gathered, Scenario, SimulatedDocument, SimulatedRunner

SCENARIO = Scenario(
    (
        SimulatedDocument("file:///a", (Fate.FINE,) * 20),
        SimulatedDocument("file:///b", (Fate.FINE, Fate.CANNOT_BE_RENDERED)),
    ),
    FlowLimits(BatchLimits.of(2, 8), raster_bytes=10_000),
)


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The clock, which stands still unless it is told otherwise."""
    now = [1000.0]
    monkeypatch.setattr(jobs.progress.time, "monotonic", lambda: now[0])
    return now


def _run(progress: Progress, ticks: list[float], step_s: float) -> None:
    flow = SCENARIO.flow()

    class Ticking:
        def should_stop(self) -> bool:
            return progress.should_stop()

        def say(self, text: str) -> None:
            progress.say(text)

        def look(self, flow: object) -> None:
            ticks[0] += step_s
            progress.look(flow)  # type: ignore[arg-type]

    with progress:
        drive(flow, SimulatedRunner(SCENARIO, flow), Gathered(), Ticking())  # type: ignore[arg-type]


def test_lines_come_now_and_then_and_say_how_far_it_is(seconds: list[float], capsys: pytest.CaptureFixture[str]):
    _run(Progress("lines"), seconds, step_s=7)
    lines = capsys.readouterr().err.splitlines()
    assert 3 <= len(lines) <= 60
    assert all(line.startswith("pagemill: ") for line in lines)
    assert any("of 22 pages, 1 failed" in line and "pages/s" in line and " left" in line for line in lines)


def test_pages_whose_text_is_not_whole_are_told_beside_those_that_failed(
    seconds: list[float], capsys: pytest.CaptureFixture[str]
):
    flow = SCENARIO.flow()
    flow.totals += Totals(pages=9, pages_by_status=Counter({"truncated": 2, "repeated": 1, "failed": 1}))
    for style in ("lines", "bar"):
        with Progress(style) as progress:
            seconds[0] += 99
            progress.look(flow)
            seconds[0] += 99
            progress.look(flow)
    printed = capsys.readouterr().err
    assert ", 1 failed, 2 truncated, 1 repeated, " in printed
    assert "failed=1, truncated=2, repeated=1" in printed


def test_nothing_is_said_when_nothing_is_wanted(seconds: list[float], capsys: pytest.CaptureFixture[str]):
    _run(Progress("none"), seconds, step_s=100)
    assert capsys.readouterr() == ("", "")


def test_a_bar_ends_at_all_of_the_pages(seconds: list[float], capsys: pytest.CaptureFixture[str]):
    _run(Progress("bar"), seconds, step_s=1)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "22/22" in printed.err
    assert "failed=1" in printed.err


def test_without_a_terminal_auto_writes_lines():
    assert Progress("auto")._style == "lines"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_asks_to_finish_and_a_second_one_to_stop_at_once(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
):
    before = signal.getsignal(number)
    with Progress("none") as progress:
        assert not progress.should_stop()
        os.kill(os.getpid(), number)
        assert progress.should_stop()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before
    assert "finishing the batches in flight" in capsys.readouterr().err


class Swallower:
    """A handler such as Ray's, whose exception comes to nothing, with the line that Python has for that."""

    def __del__(self) -> None:
        sys.exit(15)


def swallowed(*_: object) -> None:
    Swallower()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_another_handler_swallowed_asks_to_finish(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
):
    with Progress("none") as progress:
        with progress.overhearing():
            signal.signal(number, swallowed)
            os.kill(os.getpid(), number)
            assert not progress.should_stop()
        assert progress.should_stop()
        assert "Traceback" not in capsys.readouterr().err
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)


def test_a_signal_that_was_heard_counts_once_and_silence_for_nothing():
    with Progress("none") as progress:
        with progress.overhearing():
            signal.signal(signal.SIGTERM, swallowed)
        assert not progress.should_stop()
        with progress.overhearing():
            os.kill(os.getpid(), signal.SIGTERM)
        assert progress.should_stop()


@pytest.mark.parametrize(("seconds", "said"), [(5, "5 s"), (89, "89 s"), (600, "10 min"), (7200, "2.0 h")])
def test_durations_are_told_as_a_person_would(seconds: float, said: str):
    assert jobs.progress._duration(seconds) == said
