"""Pool: the engine actors of a run, loading and loaded; who takes the next batch, and who replaces the dead."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from pipeline.cluster.remote import EngineActor
from pipeline.cluster.trouble import cause_of, ending, first_line
from pipeline.engines.engine import Engine, Loaded, Needs
from pipeline.errors import EngineLostError
from pipeline.result import one_line

_AHEAD = 1
"""Batches given to an actor beyond those that it reads: their pixels travel meanwhile."""

_MAX_DEATHS_IN_A_ROW = 12
"""Engine processes that may die without one batch read in between; narrowing a batch of 64 to its page takes 8."""

_MAX_DEATHS_BEFORE_THE_FIRST = 3
"""Engine processes that may die while loading when none has ever loaded."""


@dataclass(slots=True, eq=False)
class Actor:
    """One engine process: `loading` is its load under way or None, `batches` how many it has been given.

    While `is_closed` it is given no more, since the batch that it has is to be read alone.
    """

    handle: Any
    loading: Any
    batches: int = 0
    is_closed: bool = False


@dataclass(slots=True)
class Pool:
    """The actors. `needs` is what each declares to Ray."""

    engine: type[Engine]
    engine_options: Any
    needs: Needs
    actors: list[Actor] = field(default_factory=list)
    _loaded: dict[Loaded, bool] = field(default_factory=dict)
    _deaths_in_a_row: int = 0
    _has_loaded: bool = False

    def resize(self, num_actors: int) -> None:
        """Start actors, or give up some: those that load first, then idle ones; one that has batches stays."""
        for actor in sorted(self.actors, key=lambda actor: actor.loading is None):
            if len(self.actors) <= num_actors:
                break
            if not actor.batches:
                self.actors.remove(actor)
                ray.kill(actor.handle)
        while len(self.actors) < num_actors:
            self.actors.append(self._start())

    def freest(self) -> Actor | None:
        """The loaded actor with least to do, if any has fewer batches than it may have."""
        most = self.needs.batches_at_once + _AHEAD
        free = [a for a in self.actors if a.loading is None and a.batches < most and not a.is_closed]
        return min(free, key=lambda actor: actor.batches, default=None)

    def idle(self) -> Actor | None:
        """A loaded actor with nothing to do, if there is one."""
        return next((a for a in self.actors if a.loading is None and not a.batches), None)

    def loaded(self) -> list[Loaded]:
        """What actors have had to say after loading: the same once, however many actors say it."""
        new = [said for said, is_told in self._loaded.items() if not is_told]
        self._loaded.update(dict.fromkeys(new, True))
        return new

    def loading(self) -> list[Any]:
        """References to what is loading."""
        return [actor.loading for actor in self.actors if actor.loading is not None]

    def take_loaded(self, reference: Any) -> None:
        """An actor has loaded or failed to.

        Raises:
            EngineLostError: the engine itself refuses to load.
            UnfinishedError: something that it needs for loading is not there for now.
        """
        actor = next((a for a in self.actors if a.loading is reference), None)
        if actor is None:  # given up or replaced meanwhile
            return
        try:
            said = ray.get(reference)
        except RayTaskError as error:
            why = one_line(str(cause_of(error)) or type(cause_of(error)).__name__)
            raise EngineLostError(f"engine {self.engine.name} cannot be loaded: {why}") from error
        except RayError as error:
            if (end := ending(error)) is not None:
                raise end from error
            self.replace(actor, error)
            return
        actor.loading, self._has_loaded = None, True
        self._loaded.setdefault(said, False)

    def count_read(self) -> None:
        """A batch was read: the deaths so far were not in a row."""
        self._deaths_in_a_row = 0

    def replace(self, actor: Actor, error: RayError) -> None:
        """Start another actor in place of one that is dead or as good as dead.

        Raises:
            EngineLostError: too many have died in a row.
        """
        if actor not in self.actors:
            return
        ray.kill(actor.handle)
        self._deaths_in_a_row += 1
        most = _MAX_DEATHS_IN_A_ROW if self._has_loaded else _MAX_DEATHS_BEFORE_THE_FIRST
        if self._deaths_in_a_row > most:
            raise EngineLostError(f"engine {self.engine.name} keeps dying: {first_line(cause_of(error))}") from error
        self.actors[self.actors.index(actor)] = self._start()

    def close(self) -> None:
        """Kill all actors."""
        for actor in self.actors:
            ray.kill(actor.handle)

    def _start(self) -> Actor:
        needs = self.needs
        memory = {"memory": needs.memory_bytes} if needs.memory_bytes else {}
        remote_class: Any = EngineActor
        handle = remote_class.options(
            num_cpus=needs.num_cpus, num_gpus=needs.num_gpus, max_concurrency=needs.batches_at_once, **memory
        ).remote()
        return Actor(handle, handle.load.remote(self.engine, self.engine_options))
