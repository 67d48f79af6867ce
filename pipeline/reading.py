"""Reading: the pages that engines have, what was told of them, and what must be read again, how narrowly. Pure."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field, replace
from datetime import datetime

from pipeline.batch import Batch
from pipeline.page import SizedPage
from pipeline.result import BatchReport, Outcome, Timings
from pipeline.task import MAX_CRASHES_ALONE


@dataclass(slots=True)
class _Told:
    """A batch in flight: its pages by key that were not told yet, and what is known of those that were."""

    batch: Batch
    untold: dict[tuple[str, int], SizedPage]
    output_tokens: list[int] = field(default_factory=list)
    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def num_told(self) -> int:
        return len(self.batch.pages) - len(self.untold)

    def report(self, whole: BatchReport | None = None) -> BatchReport | None:
        """What can be said of a batch that was cut short, at best its own report; None if no row names the batch."""
        if not self.num_told:
            return None
        if whole is not None:
            return replace(whole, num_told=self.num_told)
        return BatchReport(
            batch=self.batch,
            node=None,
            device=None,
            actor=None,
            started_at=self.started_at,
            finished_at=self.finished_at,
            queue_s=None,
            total_s=_seconds(self.started_at, self.finished_at),
            timings=Timings(),
            output_tokens=tuple(self.output_tokens),
            idle_ratio=None,
            host_memory_bytes=None,
            num_told=self.num_told,
        )


def _seconds(begin: datetime | None, end: datetime | None) -> float | None:
    return (end - begin).total_seconds() if begin is not None and end is not None else None


@dataclass(slots=True)
class Reading:
    """Batches in flight, each known by its id, and those that wait to be read again.

    A batch is over once and for all when it ends, crashes, is returned or has lost its pixels: what had not been told
    of it by then is what all of these are about, as a batch of its own. Each gives the report to be kept, if any.
    """

    _in_flight: dict[str, _Told] = field(default_factory=dict)
    _retries: deque[Batch] = field(default_factory=deque)
    _crashes_alone: Counter[tuple[str, int]] = field(default_factory=Counter)
    _stopped: bool = False

    @property
    def num_batches(self) -> int:
        """Batches that engines have."""
        return len(self._in_flight)

    @property
    def num_pages(self) -> int:
        """Pages that engines have and have not told of."""
        return sum(len(told.untold) for told in self._in_flight.values())

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in flight and nothing is to be read again."""
        return not (self._in_flight or self._retries)

    def stop(self) -> None:
        """Read nothing again from now on."""
        self._stopped = True
        self._retries.clear()

    def retry(self) -> Batch | None:
        """The next batch that is to be read again, if any."""
        return self._retries.popleft() if self._retries else None

    def give(self, batch: Batch) -> None:
        """Note that an engine has a batch."""
        self._in_flight[batch.batch_id] = _Told(batch, {sized.page.key: sized for sized in batch.pages})

    def tell(self, batch: Batch, outcome: Outcome) -> bool:
        """Note what was told of a page; whether it counts: told twice, or after its batch was over, it does not."""
        told = self._in_flight.get(batch.batch_id)
        if told is None or told.untold.pop(outcome.sized.page.key, None) is None:
            return False
        if outcome.recognition is not None:
            told.output_tokens.append(outcome.recognition.output_tokens or 0)
        told.started_at, told.finished_at = outcome.started_at, outcome.finished_at
        return True

    def end(self, batch: Batch, report: BatchReport) -> tuple[BatchReport | None, SizedPage | None]:
        """A batch has ended. Words that were lost on the way count as if the process had died, see `crash`."""
        if self._in_flight[batch.batch_id].untold:
            return self.crash(batch, alone=True, report=report)
        del self._in_flight[batch.batch_id]
        return report, None

    def crash(
        self, batch: Batch, *, alone: bool, report: BatchReport | None = None
    ) -> tuple[BatchReport | None, SizedPage | None]:
        """A batch was in a process that died; also gives the page that is to blame, once that is known.

        Read beside others (not `alone`) a batch is a suspect and no more: it is read again, and nothing beside it.
        """
        kept, rest = self._over(batch, report)
        if rest is None:
            return kept, None
        if alone and len(rest.pages) > 1:
            self._again(*(replace(half, alone=True) for half in rest.halves()))
            return kept, None
        if alone and len(batch.pages) == 1:
            (sized,) = rest.pages
            self._crashes_alone[sized.page.key] += 1
            if self._crashes_alone[sized.page.key] >= MAX_CRASHES_ALONE and not self._stopped:
                return kept, sized
        self._again(replace(rest, attempt=rest.attempt + 1, alone=True))
        return kept, None

    def give_back(self, batch: Batch) -> BatchReport | None:
        """What is untold of a batch waits to be read, as before."""
        kept, rest = self._over(batch)
        if rest is not None:
            self._again(rest)
        return kept

    def lose(self, batch: Batch) -> tuple[BatchReport | None, tuple[SizedPage, ...]]:
        """The pixels of a batch are gone: also gives the pages that have to be rendered again."""
        kept, rest = self._over(batch)
        return kept, rest.pages if rest else ()

    def _over(self, batch: Batch, report: BatchReport | None = None) -> tuple[BatchReport | None, Batch | None]:
        """Take a batch out: what is to be reported of it, and what is untold of it as a batch."""
        told = self._in_flight.pop(batch.batch_id)
        rest = replace(told.batch, pages=tuple(told.untold.values())) if told.untold else None
        return told.report(report), rest

    def _again(self, *batches: Batch) -> None:
        if not self._stopped:
            self._retries.extend(batches)
