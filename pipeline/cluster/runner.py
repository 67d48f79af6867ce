"""Runner: gives tasks and batches to Ray, and tells what became of them. Everything here runs in the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import ray
from ray.exceptions import RayError

from pipeline.batch import Batch
from pipeline.cluster.batches import Batches
from pipeline.cluster.launch import ClusterOptions, launch
from pipeline.cluster.pool import Pool
from pipeline.cluster.remote import probe_task, render_task
from pipeline.cluster.surroundings import Surroundings, living_nodes
from pipeline.cluster.trouble import ending, first_line, is_of_node, translated
from pipeline.engines.engine import Engine, Loaded, Needs
from pipeline.errors import ClusterError, UnfinishedError
from pipeline.page import Page, RasterRule, SizedPage
from pipeline.placement import width
from pipeline.result import Settled, Unrendered, one_line
from pipeline.scratch import Scratch
from pipeline.task import (
    Event,
    PageFailed,
    PageRendered,
    PageSettled,
    PixelsLost,
    ProbeEnded,
    ProbeTask,
    RenderTask,
    TaskEnded,
)

_BACKPRESSURE: dict[str, Any] = {"_generator_backpressure_num_objects": 4}
"""Objects that a rasterizer may have made and the driver not taken: two blocks of pages."""

_MAX_LOST_IN_A_ROW = 8
"""Tasks with one page that may go down with their node, or be killed for its memory, while no other tells a page."""


@dataclass(slots=True)
class _Stream:
    """A task under way: `num_told` sources or pages of it have been told."""

    task: ProbeTask | RenderTask
    num_told: int = 0

    @property
    def is_one_untold(self) -> bool:
        """Whether it has a single source or page that it has not told of: then its death may be blamed on that."""
        return len(self.task.items()) == 1 and not self.num_told


@dataclass(slots=True)
class ClusterRunner:
    """A runner on a Ray cluster: one that it starts here, or one that it joins."""

    engine: type[Engine]
    engine_options: Any
    needs: Needs
    rule: RasterRule
    options: ClusterOptions
    _pool: Pool = field(init=False)
    _batches: Batches = field(init=False)
    _surroundings: Surroundings = field(init=False)
    _streams: dict[Any, _Stream] = field(default_factory=dict)
    _pixels: dict[tuple[str, int], tuple[Any, int]] = field(default_factory=dict)
    _num_rasterizers: int = 0
    _lost_in_a_row: int = 0
    _problem: UnfinishedError | None = None
    _scratch: Scratch | None = None

    def __post_init__(self) -> None:
        # Memory is declared on a joined cluster only, where it decides placement; here it decides nothing.
        declared = self.needs if self.options.address else replace(self.needs, memory_bytes=0)
        self._pool = Pool(self.engine, self.engine_options, declared)
        self._batches = Batches(self._pool)

    def start(self) -> None:
        """Start or join Ray, and begin to load the engines.

        Raises:
            ClusterError: Ray cannot be started or joined.
        """
        try:
            wide, self._scratch = launch(self.options, self._pool.needs)
        except (RayError, ConnectionError, RuntimeError, ValueError, OSError) as error:
            where = f"join Ray at {self.options.address}" if self.options.address else "start Ray"
            raise ClusterError(f"cannot {where}: {one_line(str(error))}") from error
        self._num_rasterizers = wide.num_rasterizers
        self._surroundings = Surroundings(self._pool.needs, wide.num_actors, self.options.grace_s)
        with translated():
            self._pool.resize(wide.num_actors)

    def num_engines(self) -> int:
        """Actors that are there or loading."""
        return len(self._pool.actors)

    def has_free_rasterizer(self) -> bool:
        """Whether fewer tasks run than there are processes for."""
        return len(self._streams) < self._num_rasterizers

    def has_free_engine(self) -> bool:
        """Whether a loaded actor may have one more batch."""
        return self._batches.has_room()

    def start_task(self, task: ProbeTask | RenderTask) -> None:
        """Submit a rasterizing task."""
        with translated():
            if isinstance(task, ProbeTask):
                probing = probe_task.options(num_returns="streaming")
                generator = probing.remote(task.sources, self.options.limits, task.alone)
            else:
                rendering: Any = render_task.options(num_returns="streaming", **_BACKPRESSURE)
                generator = rendering.remote(task.pieces, self.rule, self.options.limits, task.alone)
        self._streams[generator] = _Stream(task)

    def start_batch(self, batch: Batch) -> None:
        """Give a batch to the actor with least to do; pixels go by reference."""
        with translated():
            self._batches.start(batch, [self._pixels[sized.page.key] for sized in batch.pages])

    def wait(self, *, take_pages: bool) -> list[Event]:
        """What has happened within a fifth of a second.

        Raises:
            UnfinishedError: the run cannot go on; all that had happened before was told by the call before.
        """
        self._raise_problem()
        with translated():
            self._look_around()
            self._batches.start_waiting()
            ready = self._ready(take_pages)
            events: list[Event] = []
            for item in ready:
                events += self._told_by(item)
        if not events:
            self._raise_problem()
        return events

    def _raise_problem(self) -> None:
        if self._problem is not None:
            raise self._problem

    def _ready(self, take_pages: bool) -> list[Any]:
        waiting: list[Any] = [*self._pool.loading(), *self._batches.under_way()]
        waiting += [g for g, stream in self._streams.items() if take_pages or isinstance(stream.task, ProbeTask)]
        if not waiting:
            return []
        ready, _ = ray.wait(waiting, num_returns=1, timeout=0.2, fetch_local=False)
        if ready:
            ready, _ = ray.wait(waiting, num_returns=len(waiting), timeout=0, fetch_local=False)
        return list(ready)

    def _told_by(self, item: Any) -> Iterator[Event]:
        """What a reference that is ready tells; what is told before a problem counts."""
        try:
            for event in self._events_of(item):
                if isinstance(event, PixelsLost):
                    self._forget_all(event.batch)
                yield event
        except UnfinishedError as error:
            self._problem = self._problem or error

    def _events_of(self, item: Any) -> Iterable[Event]:
        if item in self._batches:
            return self._batches.events(item)
        if item in self._streams:
            return self._stream_events(item)
        self._pool.take_loaded(item)
        return []

    def loaded(self) -> list[Loaded]:
        """What engines have had to say after loading, the same once."""
        return self._pool.loaded()

    def forget(self, page: Page) -> None:
        """Let go of a page's pixels; Ray frees them when no actor maps them any more."""
        self._pixels.pop(page.key, None)

    def _forget_all(self, batch: Batch) -> None:
        for sized in batch.pages:
            self.forget(sized.page)

    def close(self) -> None:
        """Give everything back: kill the actors, stop or leave Ray, remove its temporary files."""
        self._pixels.clear()
        if self._surroundings.head_answers():  # else Ray would wait for it for a minute and then end this process
            self._pool.close()
        ray.shutdown()
        if self._scratch:
            self._scratch.remove()

    # surroundings

    def _look_around(self) -> None:
        """Fit the run to the nodes that are left, every few seconds.

        Raises:
            ClusterError: what the run needs has been on no node for the grace, or the head node is gone.
        """
        num_actors = self._surroundings.look(len(self._pool.actors), is_reading=bool(self._batches.under_way()))
        if num_actors is not None:
            self._pool.resize(num_actors)
            if self.options.address:
                asked = self.options
                wide = width(living_nodes(), self._pool.needs, actors=num_actors, rasterizers=asked.rasterizers)
                self._num_rasterizers = wide.num_rasterizers

    # events

    def _stream_events(self, generator: Any) -> list[Event]:
        """What a task has told: that it is over, one source, or a block of pages."""
        stream = self._streams[generator]
        task = stream.task
        try:
            made = ray.get(next(generator))
        except StopIteration:
            del self._streams[generator]
            return [TaskEnded(task)]
        except RayError as error:
            return self._task_death_events(generator, error)
        self._lost_in_a_row = 0
        if isinstance(task, ProbeTask):
            stream.num_told += 1
            return [ProbeEnded(task, made)]
        stream.num_told += len(made)
        sized = [item for item in made if isinstance(item, SizedPage)]
        if sized:
            block = next(generator)
            self._pixels.update({item.page.key: (block, position) for position, item in enumerate(sized)})
        return [_page_event(task, item) for item in made]

    def _task_death_events(self, generator: Any, error: RayError) -> list[Event]:
        """A task that goes down with its node, or for its node's memory, is run again without blaming its only page."""
        stream = self._streams.pop(generator)
        if (end := ending(error)) is not None:
            raise end from error
        if not (is_of_node(error) and stream.is_one_untold):
            return [TaskEnded(stream.task, crash=first_line(error))]
        self._lost_in_a_row += 1
        if self._lost_in_a_row > _MAX_LOST_IN_A_ROW:
            todo = "see to the nodes, lower --rasterizers or --rasterizer-memory-mb, and start again"
            raise ClusterError(f"rasterizing tasks keep going down with their nodes; {todo} ({first_line(error)})")
        self.start_task(stream.task)
        return []


def _page_event(task: RenderTask, item: SizedPage | Settled | Unrendered) -> Event:
    if isinstance(item, Unrendered):
        return PageFailed(task, item.page, item.failure)
    return PageSettled(task, item) if isinstance(item, Settled) else PageRendered(task, item)
