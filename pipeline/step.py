"""One batch in, exactly one outcome per page out, whatever the engine does to a page.

What is not a page's doing leaves `step` as an exception and gives no outcome at all: the engine is broken, its
endpoint is down, others fill its device. What a halved batch had read by then is lost and read again next time.
"""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pipeline.batch import Batch
from pipeline.engines.engine import Engine
from pipeline.errors import DeviceOutOfMemoryError, EngineBrokenError, ErrorCode, UnfinishedError, transient
from pipeline.page import Raster
from pipeline.result import Answer, BatchOutcome, BatchReport, Failure, Outcome, Recognition, Stage, Timings, one_line


@dataclass(frozen=True, slots=True)
class Place:
    """Where batches are run: names for the `batches` table."""

    node: str
    device: str
    actor: str

    @classmethod
    def here(cls, device: str = "cpu") -> Place:
        """This process."""
        return cls(socket.gethostname(), device, f"pid-{os.getpid()}")


def step(
    engine: Engine, batch: Batch, rasters: Sequence[Raster], *, place: Place, submitted_at: datetime
) -> BatchOutcome:
    """Let the engine read a batch; a fault is narrowed by halving until the page that causes it is alone.

    Raises:
        EngineBrokenError: the engine is of no more use; nothing was narrowed.
        UnfinishedError: what `pipeline.errors.transient` says of the error that a page alone met, or what the
            engine itself raised. Outcomes of other pages of the batch are lost.
    """
    started_at, started = datetime.now(UTC), time.perf_counter()
    reading = _Reading(engine)
    outcomes = reading.read(list(rasters), batch.attempt)
    total_s = time.perf_counter() - started
    answers = reading.answers
    report = BatchReport(
        batch=batch,
        node=place.node,
        device=place.device,
        actor=place.actor,
        started_at=started_at,
        finished_at=datetime.now(UTC),
        queue_s=max(0.0, (started_at - submitted_at).total_seconds()),
        total_s=total_s,
        timings=_sum_timings(answers),
        output_tokens=tuple(o.recognition.output_tokens or 0 for o in outcomes if o.recognition),
        idle_ratio=answers[0].effort.idle_ratio if len(answers) == 1 else None,
        host_memory_bytes=host_memory_bytes(),
        oom_splits=reading.num_oom_splits,
    )
    return BatchOutcome(tuple(outcomes), report)


@dataclass(slots=True)
class _Reading:
    """The reading of one batch: what the engine has answered so far, and how often memory made it halve."""

    engine: Engine
    answers: list[Answer] = field(default_factory=list)
    num_oom_splits: int = 0

    def read(self, rasters: list[Raster], attempt: int) -> list[Outcome]:
        """One outcome for each raster, in order."""
        try:
            answer = self.engine.recognize(rasters)
        except (EngineBrokenError, UnfinishedError):
            raise
        except Exception as error:
            is_memory = isinstance(error, DeviceOutOfMemoryError | MemoryError)
            if len(rasters) == 1:
                failure = _failure(error)
        else:
            is_memory = False
            breach = _breach(answer, len(rasters))
            if breach is None:
                self.answers.append(answer)
                pages = zip(rasters, answer.pages, strict=True)
                return [Outcome(r.sized, recognition, None, attempt) for r, recognition in pages]
            failure = Failure(Stage.RECOGNIZE, ErrorCode.ENGINE_CONTRACT, breach)
        if len(rasters) == 1:
            return [Outcome(rasters[0].sized, None, failure, attempt)]
        self.num_oom_splits += is_memory
        middle = len(rasters) // 2
        return self.read(rasters[:middle], attempt + 1) + self.read(rasters[middle:], attempt + 1)


def _failure(error: Exception) -> Failure:
    """Why one page that was read alone has no text; raises what is not the page's fault."""
    if (ending := transient(error)) is not None:
        raise ending from error
    is_memory = isinstance(error, DeviceOutOfMemoryError | MemoryError)
    code = ErrorCode.OUT_OF_MEMORY if is_memory else ErrorCode.ENGINE_ERROR
    return Failure(Stage.RECOGNIZE, code, _said(error))


def _breach(answer: Any, num_pages: int) -> str | None:
    """What is wrong with what an engine gave, if it is not one text for each page: engines are anybody's code."""
    results: Any = answer.pages if isinstance(answer, Answer) else None
    if not isinstance(results, list | tuple):
        return f"the engine gave no answer but {type(answer).__name__}"
    if len(results) != num_pages:
        return f"the engine gave {len(results)} results for {num_pages} pages"
    if not all(isinstance(page, Recognition) and isinstance(page.text, str) for page in results):
        return "the engine gave a result that is no text"
    return None


def _sum_timings(answers: Sequence[Answer]) -> Timings:
    def total(values: list[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return sum(known) if known else None

    return Timings(
        total([a.effort.timings.preprocess_s for a in answers]),
        total([a.effort.timings.transfer_s for a in answers]),
        total([a.effort.timings.prefill_s for a in answers]),
        total([a.effort.timings.decode_s for a in answers]),
    )


def _said(error: Exception) -> str:
    return one_line(f"{type(error).__name__}: {error}")


def host_memory_bytes() -> int:
    """Resident memory of this process now; where the system does not say (not Linux), its peak so far."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
