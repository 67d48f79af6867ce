"""Worker: the process that has the engine while it is tuned. It reads the batches of a trial and tells what it took."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from typing import Any

from pipeline.batch import Batch, padding_share
from pipeline.engines.engine import Engine
from pipeline.errors import DeviceBusyError, DeviceOutOfMemoryError, ErrorCode
from pipeline.page import Raster
from pipeline.result import BatchReport, Outcome, one_line
from pipeline.step import Place, step
from pipeline.tuning.memory import machine_bytes, peak_bytes, reset_peak
from pipeline.tuning.sheet import Sheet
from pipeline.tuning.trial import Ask, Trial


@dataclass(frozen=True, slots=True)
class Order:
    """Read these batches, each of numbers of pages, `at_once` of them at a time."""

    ask: Ask
    batches: tuple[tuple[int, ...], ...]
    at_once: int = 1


@dataclass(frozen=True, slots=True)
class Ready:
    """The engine is ready: what it has to say, and the memory of its device, as far as others do not hold it."""

    notice: str | None
    capacity_bytes: int


@dataclass(frozen=True, slots=True)
class Read:
    """The trial, and the numbers of pages that the engine failed on though it had memory."""

    trial: Trial
    failed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Trouble:
    """The engine could not be loaded, or is of no more use: one line."""

    text: str


def serve(connection: Connection, engine: type[Engine], options: Any, sheets: Sequence[Sheet], on_gpu: bool) -> None:
    """Load the engine, then carry out orders until the pipe ends. What libraries print goes to stderr."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that gives orders
    os.dup2(2, 1)
    try:
        loaded = engine(options)
        connection.send(Ready(loaded.notice, _capacity(on_gpu)))
    except Exception as error:
        connection.send(Trouble(_said(error)))
        return
    while True:
        try:
            order = connection.recv()
        except EOFError:
            return
        try:
            answer: Read | Trouble = _Reading(loaded, order, sheets).read()
        except (DeviceOutOfMemoryError, DeviceBusyError, MemoryError):
            answer = Read(Trial(order.ask, out_of_memory=True))
        except Exception as error:
            answer = Trouble(_said(error))
        connection.send(answer)


@dataclass(slots=True)
class _Reading:
    engine: Engine
    order: Order
    sheets: Sequence[Sheet]
    latencies_s: list[float] = field(default_factory=list)
    outcomes: list[tuple[int, Outcome]] = field(default_factory=list)
    reports: list[BatchReport] = field(default_factory=list)

    def read(self) -> Read:
        """Carry out the order."""
        batches = [sorted(numbers, key=lambda n: -self.sheets[n].sized.length) for numbers in self.order.batches]
        rasters = {number: self.sheets[number].raster() for numbers in batches for number in numbers}
        self.engine.widen(self.order.ask.batch_size)
        reset_peak()
        started = time.perf_counter()
        if self.order.at_once == 1:
            for numbers in batches:
                self._read(numbers, rasters)
        else:
            with ThreadPoolExecutor(self.order.at_once) as pool:
                list(pool.map(lambda numbers: self._read(numbers, rasters), batches))
        return self._answer(time.perf_counter() - started)

    def _read(self, numbers: Sequence[int], rasters: dict[int, Raster]) -> None:
        pages = [rasters[number] for number in numbers]
        batch = Batch(self.order.ask.bucket, tuple(page.sized for page in pages))
        number_of = {id(rasters[number].sized): number for number in numbers}
        started, now = time.perf_counter(), datetime.now(UTC)
        for told in step(self.engine, batch, pages, place=Place.here(), submitted_at=now):
            if isinstance(told, BatchReport):
                self.reports.append(told)
            else:
                self.latencies_s.append(time.perf_counter() - started)
                self.outcomes.append((number_of[id(told.sized)], told))

    def _answer(self, seconds: float) -> Read:
        read = [outcome for _, outcome in self.outcomes if outcome.recognition is not None]
        failures = [(n, outcome.failure) for n, outcome in self.outcomes if outcome.failure is not None]
        no_memory = any(failure.code is ErrorCode.OUT_OF_MEMORY for _, failure in failures)
        gpus = [report.gpu for report in self.reports if report.gpu is not None]
        idle = [report.idle_ratio for report in self.reports if report.idle_ratio is not None]
        trial = Trial(
            self.order.ask,
            num_pages=len(read),
            num_tokens=_num_tokens(read),
            seconds=seconds,
            latencies_s=tuple(self.latencies_s),
            memory_allocated_bytes=max((gpu.allocated_bytes for gpu in gpus), default=None),
            memory_reserved_bytes=max((gpu.reserved_bytes for gpu in gpus), default=None),
            host_memory_bytes=peak_bytes(),
            idle_ratio=sum(idle) / len(idle) if idle else None,
            padding_ratio=_padding([report.batch for report in self.reports]),
            out_of_memory=no_memory or any(report.oom_splits for report in self.reports),
        )
        failed = [n for n, failure in failures if failure.code is not ErrorCode.OUT_OF_MEMORY]
        return Read(trial, tuple(sorted(set(failed))))


def _num_tokens(read: Sequence[Outcome]) -> int:
    """Tokens that were written; of an engine that writes none, the lengths of the pages."""
    written = list(_written(read))
    return sum(written) if written else sum(outcome.sized.length for outcome in read)


def _written(read: Sequence[Outcome]) -> Iterator[int]:
    for outcome in read:
        if outcome.recognition is not None and outcome.recognition.output_tokens is not None:
            yield outcome.recognition.output_tokens


def _padding(batches: Sequence[Batch]) -> float:
    return padding_share(sum(batch.padded_tokens for batch in batches), sum(sum(batch.lengths) for batch in batches))


def _capacity(on_gpu: bool) -> int:
    if not on_gpu:
        return machine_bytes()
    from pipeline.engines.device import gpu_memory_bytes

    total, held_by_others = gpu_memory_bytes()
    return total - held_by_others


def _said(error: Exception) -> str:
    return one_line(str(error)) or type(error).__name__
