"""How a run has ended: in one word for its row, and in the exit code that a scheduler goes by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from jobs.progress import Progress
from pipeline.errors import (
    EXIT_DONE,
    EXIT_INTERRUPTED,
    EXIT_OUT_OF_TIME,
    EXIT_PAGES_FAILED,
    UnfinishedError,
)
from pipeline.flow import Flow
from pipeline.schedule import FailureBudget
from pipeline.stats import Totals


@dataclass(slots=True)
class TimedWatch:
    """A `pipeline.runner.Watch` that also stops the run at a moment, if there is one."""

    progress: Progress
    until: datetime | None
    now: Callable[[], datetime]
    ran_out: bool = False

    def should_stop(self) -> bool:
        """Whether to finish what is in flight and leave."""
        if self.until is not None and not self.ran_out and self.now() >= self.until:
            self.ran_out = True
            self.say("it is time to stop: finishing the batches in flight, the rest is left to the next run")
        return self.ran_out or self.progress.should_stop()

    def say(self, text: str) -> None:
        """Show a line."""
        self.progress.say(text)

    def look(self, flow: Flow) -> None:
        """Show how far the run is."""
        self.progress.look(flow)


@dataclass(frozen=True, slots=True)
class Ending:
    """What is known of a run at its end."""

    totals: Totals
    complete: bool
    ran_out: bool = False
    problem: str | None = None
    budget: FailureBudget | None = None

    @property
    def outcome(self) -> str:
        """`done`, `pages_failed`, `out_of_time`, `interrupted` or `unfinished`."""
        if self.problem is not None:
            return "unfinished"
        if not self.complete:
            return "out_of_time" if self.ran_out else "interrupted"
        return "pages_failed" if self.totals.pages_failed + self.totals.pages_failed_before else "done"

    @property
    def exit_code(self) -> int:
        """That of the outcome; failures that the budget allows are none, those that it does not go before the time."""
        code = {"unfinished": UnfinishedError.exit_code, "interrupted": EXIT_INTERRUPTED}.get(self.outcome)
        if code is not None:
            return code
        if not self._failures_are_allowed():
            return EXIT_PAGES_FAILED
        return EXIT_OUT_OF_TIME if self.outcome == "out_of_time" else EXIT_DONE

    def _failures_are_allowed(self) -> bool:
        totals = self.totals
        if self.budget is not None:
            return self.budget.allows(totals.pages_failed, totals.pages)
        return not totals.pages_failed + totals.pages_failed_before
