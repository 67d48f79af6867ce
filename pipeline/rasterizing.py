"""Rasterizing: the tasks under way, how much of each was told, and what is done again when a process dies. Pure."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline.document import Source
from pipeline.task import MAX_CRASHES_ALONE, Piece, ProbeTask, RenderTask

Work = Sequence[Source] | Sequence[Piece]
"""What a task is made of: sources to look at, or pieces to render; at least one."""


@dataclass(slots=True)
class Rasterizing:
    """See the module. What was in a process that died is done again alone, so that what kills it is found."""

    num_tasks: int = 0
    _num_told: dict[int, int] = field(default_factory=dict)
    _again: deque[tuple[Work, bool]] = field(default_factory=deque)
    _crashes_alone: Counter[tuple[str, int]] = field(default_factory=Counter)

    @property
    def is_idle(self) -> bool:
        """Whether no task is under way, and nothing waits to be done again."""
        return not self._num_told and not self._again

    def start(self, work: Work, *, alone: bool = False) -> ProbeTask | RenderTask:
        """A new task."""
        self.num_tasks += 1
        self._num_told[self.num_tasks] = 0
        sources = tuple(item for item in work if isinstance(item, Source))
        if sources:
            return ProbeTask(self.num_tasks, sources, alone)
        return RenderTask(self.num_tasks, tuple(item for item in work if isinstance(item, Piece)), alone)

    def start_again(self) -> ProbeTask | RenderTask | None:
        """A new task of what is to be done again, if anything."""
        if not self._again:
            return None
        work, alone = self._again.popleft()
        return self.start(work, alone=alone)

    def add(self, piece: Piece) -> None:
        """This is to be done again, and nobody is to blame."""
        self._again.append(((piece,), False))

    def tell(self, task: ProbeTask | RenderTask) -> None:
        """One more item of a task was told of."""
        self._num_told[task.number] += 1

    def end(self, task: ProbeTask | RenderTask) -> Source | Piece | None:
        """A task has ended: what it left is done again, but for what must be the cause of its death, which is given."""
        items: Work = task.items()
        left = items[self._num_told.pop(task.number) :]
        if not left:
            return None
        if not task.alone:
            self._again.append((left, True))
        elif len(items) > 1:
            self._again.extend((part, True) for part in (left[:1], left[1:]) if part)
        elif self._is_the_cause(left[0].key):
            return left[0]
        else:
            self._again.append((left, True))
        return None

    def _is_the_cause(self, key: tuple[str, int]) -> bool:
        self._crashes_alone[key] += 1
        return self._crashes_alone[key] >= MAX_CRASHES_ALONE
