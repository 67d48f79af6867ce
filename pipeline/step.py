"""One batch in, exactly one outcome per page out, told page by page, whatever the engine does to a page.

What is not a page's doing leaves `step` as an exception: the engine is broken, its endpoint is down, others fill its
device. Pages that were told by then stay told; the others have no outcome at all and are read again next time.
"""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pipeline.batch import Batch
from pipeline.engines.engine import Engine, StreamingEngine
from pipeline.errors import DeviceOutOfMemoryError, EngineBrokenError, ErrorCode, UnfinishedError, transient
from pipeline.page import Raster
from pipeline.result import (
    Answer,
    BatchReport,
    Effort,
    Failure,
    GpuUse,
    Outcome,
    PageRead,
    Recognition,
    Stage,
    Timings,
    one_line,
)


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
) -> Iterator[Outcome | BatchReport]:
    """Let the engine read a batch: an outcome for each page as soon as it is told, and at last the report.

    A fault is narrowed by halving what is untold until the page that causes it is alone.

    Raises:
        EngineBrokenError: the engine is of no more use; nothing more was narrowed.
        UnfinishedError: what `pipeline.errors.transient` says of the error that a page alone met, or what the
            engine itself raised.
    """
    started_at, started = datetime.now(UTC), time.perf_counter()
    reading = _Reading(engine, started_at)
    tokens: list[int] = []
    for outcome in reading.read(list(rasters), batch.attempt):
        if outcome.recognition is not None:
            tokens.append(outcome.recognition.output_tokens or 0)
        yield outcome
    efforts = reading.efforts
    yield BatchReport(
        batch=batch,
        node=place.node,
        device=place.device,
        actor=place.actor,
        started_at=started_at,
        finished_at=datetime.now(UTC),
        queue_s=max(0.0, (started_at - submitted_at).total_seconds()),
        total_s=time.perf_counter() - started,
        timings=_sum_timings(efforts),
        output_tokens=tuple(tokens),
        idle_ratio=efforts[0].idle_ratio if len(efforts) == 1 else None,
        host_memory_bytes=host_memory_bytes(),
        gpu=_sum_gpu(efforts),
        oom_splits=reading.num_oom_splits + sum(effort.oom_splits for effort in efforts),
    )


class _Breach(Exception):
    """What an engine gave is not what its contract says: engines are anybody's code."""


@dataclass(slots=True)
class _Reading:
    """The reading of one batch: what the engine has said it took so far, and how often memory made it halve."""

    engine: Engine
    started_at: datetime
    efforts: list[Effort] = field(default_factory=list)
    num_oom_splits: int = 0

    def read(self, rasters: list[Raster], attempt: int) -> Iterator[Outcome]:
        """One outcome for each raster, as they are told."""
        untold = dict(enumerate(rasters))
        error: Exception | None = None
        try:
            for position, result in self._told(rasters):
                if position not in untold:
                    raise _Breach(f"the engine told twice of page {position + 1} of a batch of {len(rasters)}")
                failure = _failure(result) if isinstance(result, Exception) else None
                recognition = result if isinstance(result, Recognition) else None
                yield self._outcome(untold.pop(position), recognition, failure, attempt)
        except (EngineBrokenError, UnfinishedError):
            raise
        except Exception as raised:
            error = raised.with_traceback(None)  # whose frames hold the pixels
        left = list(untold.values())
        if not left:
            return
        error = error or _Breach(f"the engine did not tell of this page in a batch of {len(rasters)}")
        if len(rasters) == 1:
            yield self._outcome(left[0], None, _failure(error), attempt)
            return
        self.num_oom_splits += isinstance(error, DeviceOutOfMemoryError | MemoryError)
        middle = len(left) // 2
        for half in filter(None, (left[:middle], left[middle:])):
            yield from self.read(half, attempt + 1)

    def _told(self, rasters: list[Raster]) -> Iterator[tuple[int, Recognition | Exception]]:
        """What the engine tells of which page; notes what it took."""
        if not isinstance(self.engine, StreamingEngine):
            answer = _checked(self.engine.recognize(rasters), len(rasters))
            self.efforts.append(answer.effort)
            yield from enumerate(answer.pages)
            return
        streamed: Any = self.engine.stream(rasters)
        for told in streamed:
            if isinstance(told, Effort):
                self.efforts.append(told)
                continue
            if not isinstance(told, PageRead):
                raise _Breach(f"the engine told of no page but {type(told).__name__}")
            position: Any = told.position
            if not (isinstance(position, int) and 0 <= position < len(rasters)):
                raise _Breach(f"the engine told of position {position} in a batch of {len(rasters)}")
            if not (isinstance(told.result, Exception) or _is_text(told.result)):
                raise _Breach("the engine gave a result that is no text")
            yield position, told.result

    def _outcome(
        self, raster: Raster, recognition: Recognition | None, failure: Failure | None, attempt: int
    ) -> Outcome:
        return Outcome(raster.sized, recognition, failure, attempt, self.started_at, datetime.now(UTC))


def _failure(error: Exception) -> Failure:
    """Why one page that was read alone has no text; raises what is not the page's fault."""
    if isinstance(error, _Breach):
        return Failure(Stage.RECOGNIZE, ErrorCode.ENGINE_CONTRACT, str(error))
    if isinstance(error, EngineBrokenError | UnfinishedError):
        raise error
    if (ending := transient(error)) is not None:
        raise ending from error
    is_memory = isinstance(error, DeviceOutOfMemoryError | MemoryError)
    code = ErrorCode.OUT_OF_MEMORY if is_memory else ErrorCode.ENGINE_ERROR
    return Failure(Stage.RECOGNIZE, code, one_line(f"{type(error).__name__}: {error}"))


def _checked(answer: Any, num_pages: int) -> Answer:
    """What an engine gave for all pages, if it is one text for each."""
    results: Any = answer.pages if isinstance(answer, Answer) else None
    if not isinstance(answer, Answer) or not isinstance(results, list | tuple):
        raise _Breach(f"the engine gave no answer but {type(answer).__name__}")
    if len(results) != num_pages:
        raise _Breach(f"the engine gave {len(results)} results for {num_pages} pages")
    if not all(map(_is_text, results)):
        raise _Breach("the engine gave a result that is no text")
    return answer


def _is_text(result: Any) -> bool:
    return isinstance(result, Recognition) and isinstance(result.text, str)


def _sum_timings(efforts: Sequence[Effort]) -> Timings:
    def total(values: list[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return sum(known) if known else None

    return Timings(
        total([effort.timings.preprocess_s for effort in efforts]),
        total([effort.timings.transfer_s for effort in efforts]),
        total([effort.timings.prefill_s for effort in efforts]),
        total([effort.timings.decode_s for effort in efforts]),
    )


def _sum_gpu(efforts: Sequence[Effort]) -> GpuUse | None:
    """The highest memory of a batch that was read in pieces; the busy share only of one that was not."""
    seen = [effort.gpu for effort in efforts if effort.gpu is not None]
    if not seen:
        return None
    utilization = seen[0].utilization if len(seen) == 1 else None
    return GpuUse(max(gpu.allocated_bytes for gpu in seen), max(gpu.reserved_bytes for gpu in seen), utilization)


def host_memory_bytes() -> int:
    """Resident memory of this process now; where the system does not say (not Linux), its peak so far."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
