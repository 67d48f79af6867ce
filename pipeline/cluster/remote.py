"""Remote: what runs in Ray's worker processes, rasterizing tasks and engine actors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import ray

from pipeline.batch import Batch
from pipeline.document import Source
from pipeline.engines.engine import Engine, Loaded, StreamingEngine
from pipeline.errors import EngineBrokenError
from pipeline.page import Raster, RasterLimits, RasterRule
from pipeline.result import BatchReport, Outcome
from pipeline.step import Place, step
from pipeline.task import Piece

Told = Outcome | BatchReport
"""What an actor tells of a batch: its pages one by one, and at last the report."""

_CALLS_PER_WORKER = 64
"""Rasterizing tasks a worker process does before Ray replaces it, so that no leak of a decoder grows."""


@ray.remote(max_retries=0, max_calls=_CALLS_PER_WORKER)
def probe_task(sources: Sequence[Source], limits: RasterLimits, alone: bool) -> Iterator[Any]:
    """Tell of each source. Runs in a rasterizing process."""
    from pipeline.rasterizer import probe_sources

    yield from probe_sources(sources, limits, alone=alone)


@ray.remote(max_retries=0, max_calls=_CALLS_PER_WORKER)
def render_task(pieces: Sequence[Piece], rule: RasterRule, limits: RasterLimits, alone: bool) -> Iterator[Any]:
    """For each block what is told of its pages, then their pixels if it has any. Runs in a rasterizing process."""
    from pipeline.rasterizer import render_blocks

    for block in render_blocks(pieces, rule, limits, alone=alone):
        yield block.told
        if block.pixels:
            yield block.pixels


@ray.remote(max_restarts=0, max_task_retries=0)
class EngineActor:
    """Holds one loaded engine for the whole run. Once the engine is broken, it refuses every batch.

    Batches may be read by several threads at a time, but none before `load` has answered.
    """

    def load(self, engine: type[Engine], options: Any) -> Loaded:
        """Load the engine's model: what the engine has to say then."""
        self._engine = engine(options)
        self._broken: EngineBrokenError | None = None
        context = ray.get_runtime_context()
        gpus = context.get_accelerator_ids().get("GPU", [])
        device = ",".join(f"cuda:{gpu}" for gpu in gpus) or "cpu"
        self._place = Place(Place.here().node, device, context.get_actor_id() or "")
        return self._engine.loaded

    def recognize(
        self, batch: Batch, submitted_at: datetime, places: Sequence[tuple[int, int]], *blocks: Any
    ) -> Iterator[list[Told]]:
        """Read a batch; `places` says for each page in which block its pixels are, and where in it.

        What is told at the same moment is told together: all of a batch, by an engine that does not stream.
        """
        if self._broken is not None:
            raise self._broken
        found = zip(batch.pages, places, strict=True)
        rasters = [Raster(sized, blocks[block][position]) for sized, (block, position) in found]
        try:
            told = step(self._engine, batch, rasters, place=self._place, submitted_at=submitted_at)
            yield from ([item] for item in told) if isinstance(self._engine, StreamingEngine) else _together(told)
        except EngineBrokenError as error:
            self._broken = error
            raise


def _together(told: Iterable[Told]) -> Iterator[list[Told]]:
    """All of it at the end, also if that is an error."""
    held: list[Told] = []
    try:
        for item in told:
            held.append(item)  # noqa: PERF402 (what came before an error is to be there)
    except Exception:
        yield held
        raise
    yield held
