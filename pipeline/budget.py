"""Budget: how many pages a batch may hold, length by length: what a run starts from, and what it learns. Pure.

A size comes from the person who has asked for it, from a tuning, from the engine's model of its memory, or from the
engine's declaration. Running out of memory halves it, for pages of that length and longer ones, and what failed is not
tried again. A size that was tuned, or was halved, grows by one step at a time for as long as larger batches are
measurably faster, up to what is known to fit: what a tuning has tried, what the memory model allows, less than failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median

from pipeline.bucket import bucket_of


class SizeReason(StrEnum):
    """Where the largest size of a batch comes from: the column `size_reason`."""

    ASKED = "asked"
    TUNED = "tuned"
    MEMORY_MODEL = "memory_model"
    ENGINE = "engine"
    FASTER = "faster"
    NOT_FASTER = "not_faster"
    OUT_OF_MEMORY = "out_of_memory"


BATCHES_A_SIZE = 6
"""Full batches that are measured before a size is compared with the one before it."""

WORTH = 1.03
"""Larger batches are kept if they read pages so many times as fast; the knee of a tuning is defined by the same 3 %."""

STEP_SHARE = 4
"""A size grows by this part of the one that the run began with, and by one page at least."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many pages a batch may hold, and why so many."""

    size: int
    reason: SizeReason


@dataclass(frozen=True, slots=True)
class Start:
    """What sizes a run begins with. `size_for` and `ceiling_for` give pages for a length; a ceiling is never passed.

    `grows` says whether batches may become larger than `size_for` says. `lowers` is off for engines that share out
    their memory themselves, page by page, whatever batches the pages come in.
    """

    size_for: Callable[[int], int]
    reason: SizeReason
    ceiling_for: Callable[[int], int] | None = None
    grows: bool = False
    lowers: bool = True


def fixed(size: int, reason: SizeReason) -> Start:
    """The same size for every length, which does not grow."""
    return Start(lambda _: size, reason)


@dataclass(slots=True)
class _Class:
    """The pages of one geometric class of lengths: the size in force, and how fast batches of it were read."""

    allowance: Allowance
    step: int
    before: tuple[int, float] | None = None
    rates: list[float] = field(default_factory=list)
    is_settled: bool = False
    was_lowered: bool = False

    def lower(self, size: int) -> None:
        """Begin again from a smaller size, since a larger one has not fitted."""
        self.allowance = Allowance(size, SizeReason.OUT_OF_MEMORY)
        self.before, self.rates, self.is_settled, self.was_lowered = None, [], False, True


@dataclass(slots=True)
class Budget:
    """See the module. `version` changes whenever an allowance may have changed."""

    start: Start
    version: int = 0
    _classes: dict[int, _Class] = field(default_factory=dict)
    _failed: dict[int, int] = field(default_factory=dict)
    _room: tuple[tuple[int, int], ...] = ()

    def allowance(self, length: int) -> Allowance:
        """Pages that a batch may hold whose longest page has this length."""
        return self._in_force(bucket_of(length))

    def _in_force(self, name: int) -> Allowance:
        own, room = self._class_of(name).allowance, self._room_for(name)
        if room is None or own.reason is SizeReason.ASKED:
            return own
        if own.reason is SizeReason.ENGINE or room < own.size:
            return Allowance(room, SizeReason.MEMORY_MODEL)
        return own

    def learn_room(self, room: Sequence[tuple[int, int]]) -> None:
        """Take over what engines' models of their memory allow: pairs of a length and pages. The least counts."""
        known = dict(self._room)
        for length, pages in room:
            known[length] = max(1, min(pages, known.get(length, pages)))
        self._room = tuple(sorted(known.items()))
        self.version += 1

    def tell(self, length: int, num_pages: int, *, seconds: float | None, oom_splits: int) -> None:
        """Learn from a batch that was read: its longest page, its pages, its time, and how often memory ran out.

        A page that finds no memory although it is alone says nothing of batches: no smaller one would have helped.
        """
        name = bucket_of(length)
        if oom_splits and self.start.lowers:
            if num_pages > 1:
                self._lower(name, num_pages)
            return
        known, allowed = self._class_of(name), self._in_force(name)
        may_grow = (self.start.grows or known.was_lowered) and not known.is_settled
        if not may_grow or num_pages < allowed.size or not seconds:
            return
        known.rates.append(num_pages / seconds)
        if len(known.rates) >= BATCHES_A_SIZE:
            self._compare(known, name, allowed.size)

    def _class_of(self, name: int) -> _Class:
        """A class begins with the start's size, or with what is left of it where shorter pages have not fitted."""
        if name not in self._classes:
            size = max(1, self.start.size_for(name))
            self._classes[name] = _Class(Allowance(size, self.start.reason), max(1, size // STEP_SHARE))
            lowered = [self._classes[short].allowance.size for short in self._failed if short < name]
            if lowered and min(lowered) < self._in_force(name).size:
                self._classes[name].lower(min(lowered))
        return self._classes[name]

    def _room_for(self, name: int) -> int | None:
        """Of the lengths that are known, the shortest that is no shorter decides; beyond them, the longest does."""
        if not self._room:
            return None
        return next((pages for length, pages in self._room if length >= name), self._room[-1][1])

    def _lower(self, name: int, num_pages: int) -> None:
        """What has not fitted for pages of one length does not fit for longer ones either."""
        self._class_of(name)
        self._failed[name] = min(num_pages, self._failed.get(name, num_pages))
        size = max(1, num_pages // 2)
        for other in [other for other in self._classes if other >= name and size < self._in_force(other).size]:
            self._classes[other].lower(size)
        self.version += 1

    def _compare(self, known: _Class, name: int, size: int) -> None:
        """Go on to a larger size if this one has proved worth it; else back to the one before it, for good."""
        rate, known.rates = median(known.rates), []
        if known.before is not None and rate < WORTH * known.before[1]:
            known.allowance, known.is_settled = Allowance(known.before[0], SizeReason.NOT_FASTER), True
        else:
            larger = min(size + known.step, self._largest(name))
            known.before, known.is_settled = (size, rate), larger <= size
            if not known.is_settled:
                known.allowance = Allowance(larger, SizeReason.FASTER)
        self.version += 1

    def _largest(self, name: int) -> int:
        """The most pages that are known to fit; zero where nothing is known of it."""
        known = [size - 1 for short, size in self._failed.items() if short <= name]
        known += [room for room in (self._room_for(name),) if room is not None]
        if self.start.ceiling_for is not None:
            known.append(self.start.ceiling_for(name))
        return min(known, default=0)
