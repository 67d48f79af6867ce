"""Runner: where the work is done, and the loop that carries a flow from its first source to its last row."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Protocol

from pipeline.batch import Batch
from pipeline.commit import Committer
from pipeline.engines.engine import Loaded
from pipeline.errors import StorageError, UnfinishedError
from pipeline.flow import Flow
from pipeline.page import Page
from pipeline.task import Event, ProbeTask, RenderTask


class Runner(Protocol):
    """Carries out tasks and batches somewhere. It keeps the pixels of rendered pages until told to forget them."""

    def num_engines(self) -> int:
        """How many engines share the batches."""

    def has_free_rasterizer(self) -> bool:
        """Whether `start_task` can be called."""

    def has_free_engine(self) -> bool:
        """Whether `start_batch` can be called."""

    def start_task(self, task: ProbeTask | RenderTask) -> None:
        """Begin to probe or to render."""

    def start_batch(self, batch: Batch) -> None:
        """Give a batch to an engine."""

    def wait(self, *, take_pages: bool) -> Iterable[Event]:
        """What has happened, after a short wait at most; without `take_pages` rendered pages stay where they are.

        Raises:
            UnfinishedError: the work cannot go on here.
        """

    def forget(self, page: Page) -> None:
        """Drop the pixels of a page, if there are any."""

    def loaded(self) -> Iterable[Loaded]:
        """What engines have had to say after loading, the same once a run; see `pipeline.engines.engine.Engine`."""

    def close(self) -> None:
        """End all processes and remove temporary files."""


class Watch(Protocol):
    """Looks on: shows a person how far the run is and what it has to say, and says when it should stop."""

    def should_stop(self) -> bool:
        """Whether to finish what is in flight and leave."""

    def say(self, text: str) -> None:
        """Show a line."""

    def look(self, flow: Flow) -> None:
        """Called often, with the state of the flow."""


def drive(
    flow: Flow, runner: Runner, committer: Committer, watch: Watch, clock: Callable[[], float] = time.monotonic
) -> None:
    """Run a flow to its end, or to the end of what is in flight once the watch wants to stop.

    `clock` gives seconds and never goes back; by it is measured how long a page waits for company.

    Raises:
        UnfinishedError: the runner or the output gave up; what could be committed is.
    """
    told = set[str]()
    try:
        while not flow.finished:
            if watch.should_stop():
                flow.stop()
            flow.now_s = clock()
            _hand_out(flow, runner)
            events = runner.wait(take_pages=flow.wants_pages)
            flow.now_s = clock()
            for event in events:
                flow.on(event)
            for said in runner.loaded():
                flow.learn_room(said.room)
                if said.notice and said.notice not in told:
                    watch.say(said.notice)
                    told.add(said.notice)
            ready = flow.take_ready()
            for result in ready.results:
                if result.page is not None:
                    runner.forget(result.page)
            committer.take(ready)
            watch.look(flow)
    except StorageError:
        raise
    except UnfinishedError:
        committer.take(flow.take_ready())
        committer.flush()
        raise
    committer.flush()


def _hand_out(flow: Flow, runner: Runner) -> None:
    while runner.has_free_rasterizer() and (task := flow.next_task()):
        runner.start_task(task)
    while runner.has_free_engine() and (batch := flow.next_batch(runner.num_engines())):
        runner.start_batch(batch)
