"""Local: everything in this process, one thing after the other; the reference that the cluster is held against."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from pipeline.batch import Batch
from pipeline.document import Source
from pipeline.engines.engine import Engine, Loaded
from pipeline.errors import EngineBrokenError, EngineLostError
from pipeline.page import Page, Raster, RasterLimits, RasterRule
from pipeline.raster import probe, render_pages
from pipeline.result import BatchReport, Settled
from pipeline.step import Place, step
from pipeline.task import (
    BatchEnded,
    Event,
    PageEnded,
    PageFailed,
    PageRendered,
    PageSettled,
    Piece,
    ProbeEnded,
    ProbeTask,
    RenderTask,
    TaskEnded,
)

_NO_LIMITS = RasterLimits()


class LocalRunner:
    """A runner with one rasterizer and one engine, both this process. What crashes takes the run along."""

    def __init__(self, engine: type[Engine], options: Any, rule: RasterRule, limits: RasterLimits = _NO_LIMITS) -> None:
        """Load the engine.

        Raises:
            EngineLostError: it cannot be loaded.
        """
        try:
            self._engine = engine(options)
        except Exception as error:
            raise EngineLostError(f"engine {engine.name} cannot be loaded: {error}") from error
        self._rule = rule
        self._limits = limits
        self._place = Place.here()
        self._events: Iterator[Event] | None = None
        self._reading: Iterator[Event] | None = None
        self._rasters: dict[tuple[str, int], Raster] = {}
        self._said = False

    def num_engines(self) -> int:
        """One."""
        return 1

    def has_free_rasterizer(self) -> bool:
        """Whether no task is under way."""
        return self._events is None

    def has_free_engine(self) -> bool:
        """Whether no batch is being read."""
        return self._reading is None

    def start_task(self, task: ProbeTask | RenderTask) -> None:
        """Remember the task; `wait` works on it, one page a call."""
        if isinstance(task, ProbeTask):
            self._events = self._probe(task, task.sources)
        else:
            self._events = self._render(task, task.pieces)

    def start_batch(self, batch: Batch) -> None:
        """Remember the batch; `wait` reads on in it, one page a call."""
        self._reading = self._read(batch)

    def wait(self, *, take_pages: bool) -> list[Event]:
        """Read one page of the batch under way, or else do one page of the task under way.

        Raises:
            UnfinishedError: what `step` raises, or an `EngineLostError`: a broken engine cannot be replaced here.
        """
        if self._reading is not None:
            event = next(self._reading)
            if isinstance(event, BatchEnded):
                self._reading = None
            return [event]
        if self._events is None or not take_pages:
            return []
        event = next(self._events)
        if isinstance(event, TaskEnded):
            self._events = None
        return [event]

    def forget(self, page: Page) -> None:
        """Drop the pixels of a page."""
        self._rasters.pop(page.key, None)

    def close(self) -> None:
        """Drop all pixels."""
        self._reading = None
        self._rasters.clear()

    def loaded(self) -> list[Loaded]:
        """What the engine has had to say after loading, the first time."""
        said, self._said = self._said, True
        return [] if said else [self._engine.loaded]

    def _read(self, batch: Batch) -> Iterator[Event]:
        rasters = [self._rasters[sized.page.key] for sized in batch.pages]
        try:
            for told in step(self._engine, batch, rasters, place=self._place, submitted_at=datetime.now(UTC)):
                yield BatchEnded(batch, told) if isinstance(told, BatchReport) else PageEnded(batch, told)
        except EngineBrokenError as error:
            problem = f"the engine is broken and needs a new process, so start again: {error}"
            raise EngineLostError(problem) from error

    def _probe(self, task: ProbeTask, sources: tuple[Source, ...]) -> Iterator[Event]:
        for source in sources:
            yield ProbeEnded(task, probe(source, limits=self._limits))
        yield TaskEnded(task)

    def _render(self, task: RenderTask, pieces: tuple[Piece, ...]) -> Iterator[Event]:
        for piece in pieces:
            for made in render_pages(piece.document, piece.first, piece.stop, self._rule, self._limits):
                if isinstance(made, Raster):
                    self._rasters[made.sized.page.key] = made
                    yield PageRendered(task, made.sized)
                elif isinstance(made, Settled):
                    yield PageSettled(task, made)
                else:
                    yield PageFailed(task, made.page, made.failure)
        yield TaskEnded(task)
