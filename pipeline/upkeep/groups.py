"""Groups: which parts are put together, so that rows of a later run still come after those of an earlier one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from pipeline.part import PartName


@dataclass(frozen=True, slots=True)
class SizedPart:
    """A part and its bytes."""

    name: PartName
    size_bytes: int


def groups(parts: Iterable[SizedPart], target_bytes: int) -> Iterator[tuple[SizedPart, ...]]:
    """Parts of one table and date, in the order of their keys, in groups of neighbours: two parts or more in each.

    A group holds whole runs, as many as fit into the target; parts of a run that is larger are put together among
    themselves. So the part that takes a group's place, named by its newest run, stands where they stood.
    """
    together: list[SizedPart] = []
    for _, members in groupby(parts, lambda part: part.name.newest_run):
        run = list(members)
        if _size(together) + _size(run) > target_bytes:
            yield from _if_many(together)
            together = []
        if _size(run) > target_bytes:
            yield from _within(run, target_bytes)
        else:
            together += run
    yield from _if_many(together)


def merged_name(group: Sequence[SizedPart], taken: Iterable[PartName]) -> PartName:
    """What the part that takes a group's place is called: by its newest run, with a number that is not `taken`."""
    last = group[-1].name
    run_id = PartName.merged_run_id(last.newest_run)
    numbers = [name.number for name in taken if replace(name, number=0) == replace(last, run_id=run_id, number=0)]
    return replace(last, run_id=run_id, number=max(numbers, default=-1) + 1)


def _within(run: Sequence[SizedPart], target_bytes: int) -> Iterator[tuple[SizedPart, ...]]:
    together: list[SizedPart] = []
    for part in run:
        if _size(together) + part.size_bytes > target_bytes:
            yield from _if_many(together)
            together = []
        together.append(part)
    yield from _if_many(together)


def _if_many(parts: Sequence[SizedPart]) -> Iterator[tuple[SizedPart, ...]]:
    if len(parts) > 1:
        yield tuple(parts)


def _size(parts: Iterable[SizedPart]) -> int:
    return sum(part.size_bytes for part in parts)
