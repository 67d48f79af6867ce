"""Cluster: the flow on Ray; the only ray import. Placement, back-pressure, and what to do when processes die.

Rasterizing tasks are streaming generators: for each block of pages a small description and then the pixels.
The driver fetches descriptions only; pixels stay in the object store until an engine actor maps them. Ray
retries nothing by itself (`max_retries=0`, `max_restarts=0`): `pipeline.flow` decides what is run again, and
how narrowly.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

import ray
from ray.exceptions import ObjectLostError, RayActorError, RayError, RayTaskError, WorkerCrashedError

import pipeline
from pipeline.batch import Batch
from pipeline.document import Source
from pipeline.engines.engine import Engine, Needs
from pipeline.errors import ClusterError, EngineLostError
from pipeline.page import Page, Raster, RasterLimits, RasterRule, SizedPage
from pipeline.result import BatchOutcome, Unrendered, one_line
from pipeline.scratch import Scratch
from pipeline.step import Place, step
from pipeline.task import (
    BatchCrashed,
    BatchEnded,
    BatchReturned,
    Event,
    PageFailed,
    PageRendered,
    Piece,
    PixelsLost,
    ProbeEnded,
    ProbeTask,
    RenderTask,
    TaskEnded,
)

_BUFFERED_OBJECTS = 4
"""Objects that a rasterizer may have made and the driver not taken: two blocks of pages."""

_IN_FLIGHT = 2
"""Batches given to an actor: one that it reads and one whose pixels travel meanwhile."""

_CALLS_PER_WORKER = 64
"""Rasterizing tasks a worker process does before Ray replaces it, so that no leak of a decoder grows."""

_MAX_DEATHS_IN_A_ROW = 12
"""Engine processes that may die without one batch read in between; narrowing a batch of 64 to its page takes 8."""

_LOOPBACK: dict[str, Any] = {"_node_ip_address": "127.0.0.2"} if sys.platform == "linux" else {}
"""A Ray that is started here listens on the loopback interface only (Ray itself replaces 127.0.0.1)."""

_LAST_WORDS_S = 10.0
"""How long to wait for what a dead actor may have answered before."""

_MAX_DEATHS_BEFORE_THE_FIRST = 3
"""Engine processes that may die while loading when none has ever loaded."""

_CONNECT_S = 10.0
"""Longest wait for the head node of a cluster to answer."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Where to run and how wide; zeros choose by the machine or cluster."""

    address: str = ""
    actors: int = 0
    rasterizers: int = 0
    raster_bytes: int = 768 << 20
    limits: RasterLimits = field(default_factory=RasterLimits)


@dataclass(slots=True)
class _Actor:
    handle: Any
    loading: Any
    batches: int = 0


@ray.remote(max_retries=0, max_calls=_CALLS_PER_WORKER)
def _probe(sources: Sequence[Source], limits: RasterLimits, alone: bool) -> Iterator[Any]:
    from pipeline.rasterizer import probe_sources

    yield from probe_sources(sources, limits, alone=alone)


@ray.remote(max_retries=0, max_calls=_CALLS_PER_WORKER)
def _render(pieces: Sequence[Piece], rule: RasterRule, limits: RasterLimits, alone: bool) -> Iterator[Any]:
    from pipeline.rasterizer import render_blocks

    for block in render_blocks(pieces, rule, limits, alone=alone):
        yield block.told
        if block.pixels:
            yield block.pixels


@ray.remote(max_restarts=0, max_task_retries=0)
class _EngineActor:
    """Holds one loaded engine for the whole run."""

    def load(self, engine: type[Engine], options: Any) -> None:
        self._engine = engine(options)
        context = ray.get_runtime_context()
        gpus = context.get_accelerator_ids().get("GPU", [])
        device = ",".join(f"cuda:{gpu}" for gpu in gpus) or "cpu"
        self._place = Place(Place.here().node, device, context.get_actor_id() or "")

    def recognize(
        self, batch: Batch, submitted_at: datetime, places: Sequence[tuple[int, int]], *blocks: Any
    ) -> BatchOutcome:
        """Read a batch; `places` says for each page in which block its pixels are, and where in it."""
        found = zip(batch.pages, places, strict=True)
        rasters = [Raster(sized, blocks[block][position]) for sized, (block, position) in found]
        return step(self._engine, batch, rasters, place=self._place, submitted_at=submitted_at)


@dataclass(slots=True)
class ClusterRunner:
    """A runner on a Ray cluster: one that it starts here, or one that it joins."""

    engine: type[Engine]
    engine_options: Any
    needs: Needs
    rule: RasterRule
    options: ClusterOptions
    _actors: list[_Actor] = field(default_factory=list)
    _streams: dict[Any, ProbeTask | RenderTask] = field(default_factory=dict)
    _batches: dict[Any, tuple[_Actor, Batch]] = field(default_factory=dict)
    _pixels: dict[tuple[str, int], tuple[Any, int]] = field(default_factory=dict)
    _num_rasterizers: int = 0
    _deaths_in_a_row: int = 0
    _has_loaded: bool = False
    _scratch: Scratch | None = None

    def start(self) -> None:
        """Start or join Ray, and begin to load the engines.

        Raises:
            ClusterError: Ray cannot be started or joined.
        """
        try:
            num_actors = self._join() if self.options.address else self._start_here()
        except (RayError, ConnectionError, RuntimeError, ValueError, OSError) as error:
            where = f"join Ray at {self.options.address}" if self.options.address else "start Ray"
            raise ClusterError(f"cannot {where}: {one_line(str(error))}") from error
        self._actors = [self._new_actor() for _ in range(num_actors)]

    def num_engines(self) -> int:
        """Actors that are there or loading."""
        return len(self._actors)

    def has_free_rasterizer(self) -> bool:
        """Whether fewer tasks run than there are processes for."""
        return len(self._streams) < self._num_rasterizers

    def has_free_engine(self) -> bool:
        """Whether a loaded actor has fewer than two batches."""
        return self._freest() is not None

    def start_task(self, task: ProbeTask | RenderTask) -> None:
        """Submit a rasterizing task."""
        if isinstance(task, ProbeTask):
            generator = _probe.options(num_returns="streaming").remote(task.sources, self.options.limits, task.alone)
        else:
            streaming = _render.options(num_returns="streaming", _generator_backpressure_num_objects=_BUFFERED_OBJECTS)
            generator = streaming.remote(task.pieces, self.rule, self.options.limits, task.alone)
        self._streams[generator] = task

    def start_batch(self, batch: Batch) -> None:
        """Give a batch to the actor with least to do; pixels go by reference."""
        actor = self._freest()
        if actor is None:
            raise RuntimeError("start_batch needs a free engine: ask has_free_engine first")
        pixels = [self._pixels[sized.page.key] for sized in batch.pages]
        numbers = {block: number for number, block in enumerate(dict.fromkeys(block for block, _ in pixels))}
        places = [(numbers[block], position) for block, position in pixels]
        actor.batches += 1
        reference = actor.handle.recognize.remote(batch, datetime.now(UTC), places, *numbers)
        self._batches[reference] = (actor, batch)

    def wait(self, *, take_pages: bool) -> list[Event]:
        """What has happened within a fifth of a second."""
        waiting: list[Any] = [actor.loading for actor in self._actors if actor.loading is not None]
        waiting += self._batches
        waiting += [g for g, task in self._streams.items() if take_pages or isinstance(task, ProbeTask)]
        if not waiting:
            return []
        ready, _ = ray.wait(waiting, num_returns=1, timeout=0.2, fetch_local=False)
        if ready:
            ready, _ = ray.wait(waiting, num_returns=len(waiting), timeout=0, fetch_local=False)
        events: list[Event] = []
        for item in ready:
            if item in self._batches:
                events += self._batch_events(item)
            elif item in self._streams:
                events += self._stream_events(item)
            else:
                self._take_loaded(item)
        return events

    def forget(self, page: Page) -> None:
        """Let go of a page's pixels; Ray frees them when no actor maps them any more."""
        self._pixels.pop(page.key, None)

    def close(self) -> None:
        """Give everything back: kill the actors, stop or leave Ray, remove its temporary files."""
        self._pixels.clear()
        for actor in self._actors:
            ray.kill(actor.handle)
        ray.shutdown()
        if self._scratch:
            self._scratch.remove()

    # processes

    def _start_here(self) -> int:
        cores = os.cpu_count() or 1
        num_actors = self.options.actors or max(1, int(cores // max(self.needs.num_cpus, 1)))
        self._num_rasterizers = self.options.rasterizers or cores
        # Engines and rasterizers may both use every core: the system shares them, and back-pressure
        # stops the rasterizers as soon as they are ahead.
        num_cpus = self._num_rasterizers + max(1, round(num_actors * self.needs.num_cpus))
        self._scratch = Scratch.make()
        ray.init(
            num_cpus=num_cpus,
            object_store_memory=max(self.options.raster_bytes * 5 // 2, 256 << 20),
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _temp_dir=str(self._scratch.folder),
            **_LOOPBACK,
        )
        return num_actors

    def _join(self) -> int:
        _must_answer(self.options.address)
        code = str(Path(pipeline.__file__).parent)
        ray.init(
            address=self.options.address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            runtime_env={"py_modules": [code]},
        )
        total = ray.cluster_resources()
        cpus, gpus = total.get("CPU", 1.0), total.get("GPU", 0.0)
        if self.needs.num_gpus:
            num_actors = self.options.actors or max(1, int(gpus // self.needs.num_gpus))
        else:
            num_actors = self.options.actors or max(1, int((cpus - 1) // max(self.needs.num_cpus, 1)))
        left = int(cpus - num_actors * self.needs.num_cpus)
        self._num_rasterizers = self.options.rasterizers or max(1, left)
        return num_actors

    def _new_actor(self) -> _Actor:
        needs = self.needs
        # Memory is declared on a joined cluster only, where it decides placement; here it decides nothing.
        memory = {"memory": needs.memory_bytes} if self.options.address and needs.memory_bytes else {}
        remote_class: Any = _EngineActor
        handle = remote_class.options(num_cpus=needs.num_cpus, num_gpus=needs.num_gpus, **memory).remote()
        return _Actor(handle, handle.load.remote(self.engine, self.engine_options))

    def _freest(self) -> _Actor | None:
        free = [a for a in self._actors if a.loading is None and a.batches < _IN_FLIGHT]
        return min(free, key=lambda actor: actor.batches, default=None)

    def _take_loaded(self, reference: Any) -> None:
        actor = next((a for a in self._actors if a.loading is reference), None)
        if actor is None:  # a batch that was given back with its dead actor
            return
        try:
            ray.get(reference)
        except RayTaskError as error:
            said = one_line(str(error.cause) or type(error.cause).__name__)
            raise EngineLostError(f"engine {self.engine.name} cannot be loaded: {said}") from error
        except RayError as error:
            self._replace(actor, error)
            return
        actor.loading, self._has_loaded = None, True

    def _replace(self, actor: _Actor, error: RayError) -> None:
        if actor not in self._actors:
            return
        self._deaths_in_a_row += 1
        most = _MAX_DEATHS_IN_A_ROW if self._has_loaded else _MAX_DEATHS_BEFORE_THE_FIRST
        if self._deaths_in_a_row > most:
            raise EngineLostError(f"engine {self.engine.name} keeps dying: {_first_line(error)}") from error
        self._actors[self._actors.index(actor)] = self._new_actor()

    # events

    def _batch_events(self, reference: Any) -> list[Event]:
        """What became of a batch; and if its actor has died, of all that the actor had."""
        actor, batch = self._batches[reference]
        try:
            ended: Event = BatchEnded(batch, ray.get(reference))
            self._deaths_in_a_row = 0
        except RayActorError as error:
            return self._death_events(actor, error)
        except (ObjectLostError, WorkerCrashedError):  # of an argument: the batch itself never ran
            for sized in batch.pages:
                self.forget(sized.page)
            ended = PixelsLost(batch)
        except RayError as error:
            ended = BatchCrashed(batch, _first_line(error))
        del self._batches[reference]
        actor.batches -= 1
        return [ended]

    def _death_events(self, actor: _Actor, error: RayError) -> list[Event]:
        """An actor reads its batches in the order given: it died under the first without an outcome."""
        events: list[Event] = []
        died_under: Batch | None = None
        for reference, batch in [(r, b) for r, (a, b) in self._batches.items() if a is actor]:
            del self._batches[reference]
            try:
                events.append(BatchEnded(batch, ray.get(reference, timeout=_LAST_WORDS_S)))
            except RayError:
                events.append(BatchReturned(batch) if died_under else BatchCrashed(batch, _first_line(error)))
                died_under = died_under or batch
        self._replace(actor, error)
        return events

    def _stream_events(self, generator: Any) -> list[Event]:
        """What a task has told: that it is over, one source, or a block of pages."""
        task = self._streams[generator]
        try:
            made = ray.get(next(generator))
        except StopIteration:
            del self._streams[generator]
            return [TaskEnded(task)]
        except RayError as error:
            del self._streams[generator]
            return [TaskEnded(task, crash=_first_line(error))]
        if isinstance(task, ProbeTask):
            return [ProbeEnded(task, made)]
        sized = [item for item in made if isinstance(item, SizedPage)]
        if sized:
            block = next(generator)
            self._pixels.update({item.page.key: (block, position) for position, item in enumerate(sized)})
        return [_page_event(task, item) for item in made]


def _page_event(task: RenderTask, item: SizedPage | Unrendered) -> Event:
    if isinstance(item, SizedPage):
        return PageRendered(task, item)
    return PageFailed(task, item.page, item.failure)


def _must_answer(address: str) -> None:
    """Refuse an address where nothing listens at once; Ray itself would try for five minutes."""
    host, _, port = address.rpartition(":")
    if address == "auto":
        return
    if not host or not port.isdigit():
        raise ValueError("the address must be 'auto' or HOST:PORT of the head node")
    with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S):
        pass


def _first_line(error: Exception) -> str:
    return one_line(str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__)
