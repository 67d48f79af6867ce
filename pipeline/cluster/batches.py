"""Batches: what the actors are reading, what they tell of it, and what becomes of it when one of them dies.

A batch is a streaming generator. Ray drops what a generator has yielded and the driver has not taken yet when the
actor dies before the generator's end (2.60, measured); what had ended before can still be taken. Calls of an actor
start in the order given only while it runs one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import ray
from ray.exceptions import ObjectLostError, RayError

from pipeline.batch import Batch
from pipeline.cluster.pool import Actor, Pool
from pipeline.cluster.trouble import cause_of, ending, first_line, is_death, is_no_memory, pixels_are_gone
from pipeline.errors import UnfinishedError
from pipeline.result import BatchReport
from pipeline.task import BatchCrashed, BatchEnded, BatchReturned, Event, PageEnded, PixelsLost

_LAST_WORDS_S = 10.0
"""How long to wait for what a dead actor may have told before."""

Pixels = Sequence[tuple[Any, int]]
"""Where the pixels of each page of a batch are: the reference of a block, and the position in it."""


@dataclass(slots=True)
class Batches:
    """See the module."""

    pool: Pool
    _under_way: dict[Any, tuple[Actor, Batch]] = field(default_factory=dict)
    _waiting: tuple[Batch, Pixels] | None = None

    def __contains__(self, generator: object) -> bool:
        return generator in self._under_way

    def under_way(self) -> list[Any]:
        """The generators of all batches that actors have, in the order given."""
        return list(self._under_way)

    def has_room(self) -> bool:
        """Whether `start` can be called: an actor has room, and no batch waits to have one for itself."""
        return self._waiting is None and self.pool.freest() is not None

    def start(self, batch: Batch, pixels: Pixels) -> None:
        """Give a batch to the actor with least to do, or as soon as there is one to an actor that has nothing else."""
        if batch.alone and self.pool.needs.batches_at_once > 1:
            self._waiting = (batch, pixels)
            self.start_waiting()
            return
        actor = self.pool.freest()
        if actor is None:
            raise RuntimeError("start_batch needs a free engine: ask has_free_engine first")
        self._submit(actor, batch, pixels)

    def start_waiting(self) -> None:
        """Give the batch that waits for an actor of its own to one that has become free, if there is one."""
        actor = self.pool.idle()
        if self._waiting is not None and actor is not None:
            actor.is_closed = True
            self._submit(actor, *self._waiting)
            self._waiting = None

    def events(self, generator: Any) -> Iterator[Event]:
        """What was told of a batch; and if its actor has died, what became of all that the actor had.

        Raises:
            UnfinishedError: the run cannot go on.
        """
        actor, batch = self._under_way[generator]
        try:
            yield from self._told(generator)
        except RayError as error:
            if pixels_are_gone(error):
                self._over(generator)
                yield PixelsLost(batch)
            elif (end := ending(error)) is not None:
                raise end from error
            elif is_death(error):
                yield from self._death_events(actor, generator, error)
            else:
                self._over(generator)
                yield BatchCrashed(batch, first_line(cause_of(error)))

    def _submit(self, actor: Actor, batch: Batch, pixels: Pixels) -> None:
        numbers = {block: number for number, block in enumerate(dict.fromkeys(block for block, _ in pixels))}
        places = [(numbers[block], position) for block, position in pixels]
        reading = actor.handle.recognize.options(num_returns="streaming")
        generator = reading.remote(batch, datetime.now(UTC), places, *numbers)
        actor.batches += 1
        self._under_way[generator] = (actor, batch)

    def _over(self, generator: Any) -> None:
        actor, _ = self._under_way.pop(generator)
        actor.batches -= 1
        actor.is_closed = False

    def _told(self, generator: Any) -> Iterator[Event]:
        """All that can be taken without waiting, once there is something.

        Raises:
            RayError: what has ended the generator.
        """
        _, batch = self._under_way[generator]
        is_more = True
        while is_more:
            try:
                reference = next(generator)
            except StopIteration:  # its last words are lost
                self._over(generator)
                yield BatchReturned(batch)
                return
            for told in _value(generator, reference):
                if isinstance(told, BatchReport):
                    self._over(generator)
                    self.pool.count_read()
                    yield BatchEnded(batch, told)
                    return
                yield PageEnded(batch, told)
            is_more = generator.next_ready()

    def _death_events(self, actor: Actor, ended: Any, error: RayError) -> Iterator[Event]:
        """What becomes of all batches of an actor; `ended` is the generator that has told of its death.

        One at a time, an actor reads its batches in the order given: it died under the first without a report.

        Several at a time, all without a report are suspects. But if it was killed for its node's memory, the node
        was full, and no page is blamed for that.
        """
        problem: UnfinishedError | None = None
        try:
            self.pool.replace(actor, error)
        except UnfinishedError as end:
            problem = end
        left: list[Batch] = []
        for generator, batch in [(g, batch) for g, (a, batch) in self._under_way.items() if a is actor]:
            if generator is not ended:
                yield from self._last_words(generator)
            if generator in self._under_way:
                self._over(generator)
                left.append(batch)
        suspects = len(left) if self.pool.needs.batches_at_once > 1 else 1
        if is_no_memory(error):
            suspects = 0
        said = first_line(cause_of(error))
        yield from (BatchCrashed(batch, said, alone=suspects == 1) for batch in left[:suspects])
        yield from (BatchReturned(batch) for batch in left[suspects:])
        if problem is not None:
            raise problem

    def _last_words(self, generator: Any) -> Iterator[Event]:
        try:
            while generator in self._under_way and self._is_ready(generator):
                yield from self._told(generator)
        except RayError:
            pass

    @staticmethod
    def _is_ready(generator: Any) -> bool:
        ready, _ = ray.wait([generator], timeout=_LAST_WORDS_S, fetch_local=False)
        return bool(ready)


def _value(generator: Any, reference: Any) -> Any:
    """What a generator has yielded; nothing if that was lost with its node before it was taken."""
    try:
        return ray.get(reference)
    except ObjectLostError:
        if reference == generator.completed():  # that is no value: pixels were not there
            raise
        return ()
