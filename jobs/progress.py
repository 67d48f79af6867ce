"""What a person sees while a run is under way, and how they stop it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any

from tqdm import tqdm

from pipeline.flow import Flow
from pipeline.result import Status
from pipeline.stats import Totals

_LINE_EVERY_S = 30.0


class Progress:
    """A `pipeline.runner.Watch`: a bar on a terminal, a line now and then elsewhere, and the Ctrl-C handler.

    The first SIGINT, SIGTERM or SIGHUP asks the run to finish what is in flight; the second raises KeyboardInterrupt.
    """

    def __init__(self, style: str) -> None:
        terminal = sys.stderr.isatty()
        self._style = ("bar" if terminal else "lines") if style == "auto" else style
        self._interrupted = False
        self._bar: tqdm[Any] | None = None
        self._started = self._last_line = time.monotonic()
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Progress:
        self._listen()
        if self._style == "bar":
            self._bar = tqdm(unit="page", dynamic_ncols=True, file=sys.stderr, smoothing=0.1, desc="starting")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        if self._bar is not None:
            self._bar.close()

    @contextmanager
    def overhearing(self) -> Iterator[None]:
        """For what takes the signals away, as Ray does while it starts: what came meanwhile counts, and ours are back.

        Ray's handler raises SystemExit, which is lost where Python ignores exceptions, as between a fork's locks.
        """
        reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        before, tell = signal.set_wakeup_fd(writing, warn_on_full_buffer=False), sys.unraisablehook
        came = b""
        try:
            sys.unraisablehook = lambda lost: None if lost.exc_type is SystemExit else tell(lost)
            yield
        finally:
            sys.unraisablehook = tell
            signal.set_wakeup_fd(before)
            self._listen()
            with suppress(BlockingIOError):
                came = os.read(reading, 4096)
            os.close(reading)
            os.close(writing)
        if not self._interrupted and (numbers := self._previous.keys() & set(came)):
            self._on_signal(numbers.pop(), None)

    def _listen(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue  # under nohup a run is to outlive its terminal
            previous = signal.signal(number, self._on_signal)
            self._previous.setdefault(number, previous)

    def should_stop(self) -> bool:
        """Whether to finish what is in flight and leave."""
        return self._interrupted

    def say(self, text: str) -> None:
        """A line on stderr that does not tear the bar."""
        tqdm.write(f"pagemill: {text}", file=sys.stderr)

    def look(self, flow: Flow) -> None:
        """Redraw the bar, or write a line if it is time."""
        if self._bar is not None:
            self._draw(self._bar, flow)
        elif self._style == "lines" and time.monotonic() - self._last_line >= _LINE_EVERY_S:
            self._last_line = time.monotonic()
            self.say(self._line(flow))

    def _draw(self, bar: tqdm[Any], flow: Flow) -> None:
        totals = flow.totals
        if bar.total != flow.pages_known:
            bar.total = flow.pages_known
            bar.refresh()
        bar.initial = totals.pages_already_done
        bar.set_description(_stage(flow), refresh=False)
        bar.set_postfix({"failed": totals.pages_failed, **_cut(totals), "waiting": flow.num_waiting}, refresh=False)
        bar.update(totals.pages + totals.pages_already_done - bar.n)

    def _line(self, flow: Flow) -> str:
        totals, known = flow.totals, flow.pages_known
        rate = totals.pages / max(time.monotonic() - self._started, 1e-9)
        done = totals.pages + totals.pages_already_done
        left = f", about {_duration((known - done) / rate)} left" if rate and known > done else ""
        failed = f", {totals.pages_failed} failed" if totals.pages_failed else ""
        cut = "".join(f", {count} {status}" for status, count in _cut(totals).items())
        return f"{_stage(flow)}: {done} of {known} pages{failed}{cut}, {rate:.2f} pages/s{left}"

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._interrupted:
            raise KeyboardInterrupt
        self._interrupted = True
        self.say("finishing the batches in flight, then leaving; once more stops at once")


def _cut(totals: Totals) -> dict[str, int]:
    """Pages that are done and whose text is not whole, by status."""
    counts = {str(status): totals.pages_by_status.get(status, 0) for status in (Status.TRUNCATED, Status.REPEATED)}
    return {status: count for status, count in counts.items() if count}


def _stage(flow: Flow) -> str:
    if flow.complete:
        return "done"
    if flow.num_in_flight:
        return "reading"
    return "rasterizing" if flow.pages_known else "starting"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
