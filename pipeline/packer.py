"""Packer: takes pages as they come and gives batches of one bucket, within limits, whose answers are alike. Pure."""

from __future__ import annotations

import math
from bisect import insort
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from pipeline.batch import Batch, BatchLimits, Closed, Cut
from pipeline.bucket import Edges, Lengths
from pipeline.budget import Budget
from pipeline.page import SizedPage

FIRST_LOOK, LOOK_AGAIN = 256, 8
"""Edges are chosen after so many pages, and again whenever so many times as many have been seen."""

LIKE_LENGTH = 1.02
"""Where edges are not chosen yet, pages whose lengths are within this ratio count as equally long."""

MOST_WINDOWS = 8
"""Windows of later pages that may pass before a page goes next."""

_Key = tuple[str, int]
_Entry = tuple[int, float, int, _Key, SizedPage]
"""Sorted by these: class of like lengths (one in a chosen bucket), expected answer, length, and the page's key."""

_MOST_PLACES = 1 << 16
"""Lengths whose class and bucket are remembered, at most."""


def _nothing_known(_: SizedPage) -> float:
    return 0.0


@dataclass(slots=True)
class Packer:
    """Takes pages as they come and gives length-sorted batches, looking ahead over a bounded window.

    A bucket gives a batch once it holds as many pages as a batch of it may: those whose expected answers are most
    alike, since a batch waits for its longest. `expect` says how long a page's answer will be, in any unit. Which
    bucket gives first is decided by how many pages wait in it, and a page that has seen eight windows of later pages
    pass, or has waited for `max_wait_s`, goes next whatever its bucket holds. The same pages in the same order, taken
    at the same moments, give the same batches.
    """

    limits: BatchLimits
    budget: Budget
    expect: Callable[[SizedPage], float] = _nothing_known
    _buckets: dict[int, list[_Entry]] = field(default_factory=dict)
    _full: dict[int, None] = field(default_factory=dict)
    _sizes: dict[int, int] = field(default_factory=dict)
    _version: int = -1
    _arrivals: deque[tuple[int, float, _Key, int]] = field(default_factory=deque)
    _waiting: dict[_Key, int] = field(default_factory=dict)
    _places: dict[int, tuple[int, int]] = field(default_factory=dict)
    _num_added: int = 0
    _lengths: Lengths = field(default_factory=Lengths)
    _edges: Edges = field(default_factory=Edges)
    _look_at: int = FIRST_LOOK

    @classmethod
    def of(cls, limits: BatchLimits, expect: Callable[[SizedPage], float] = _nothing_known) -> Packer:
        """A packer with a budget of its own."""
        return cls(limits, Budget(limits.start), expect)

    @property
    def num_waiting(self) -> int:
        """Pages in the window."""
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether the window holds as many pages as it may."""
        return len(self._waiting) >= self.limits.window_pages

    def add(self, sized: SizedPage, at_s: float = 0.0) -> None:
        """Let a page wait for company, from the moment `at_s` on (of any clock).

        Raises:
            ValueError: the same page waits already.
        """
        key, length = sized.page.key, sized.length
        if key in self._waiting:
            raise ValueError(f"page waits already: {key}")
        self._waiting[key] = self._num_added
        self._arrivals.append((self._num_added, at_s, key, length))
        self._num_added += 1
        self._lengths.add(length)
        self._put(self.expect(sized), sized)
        if self._num_added == self._look_at:
            self._look_at *= LOOK_AGAIN
            self._choose_edges()

    def take(
        self, *, force: bool = False, is_crowded: bool = False, spread_over: int = 1, at_s: float = 0.0
    ) -> Batch | None:
        """The next batch, or None if it is better to wait.

        Args:
            force: Give what there is although no bucket is full: nothing more is coming.
            is_crowded: Behave as if the window was full: there is no room for more pages.
            spread_over: With `force`, how many engines will share what is left; a batch then takes no more
                than its share, so that the last pages do not queue behind one engine while others idle.
            at_s: The moment, of the clock of `add`.
        """
        while self._arrivals and self._waiting.get(self._arrivals[0][2]) != self._arrivals[0][0]:
            self._arrivals.popleft()
        if not self._arrivals:
            return None
        if self._version != self.budget.version:
            self._heed_budget()
        number, since_s, oldest, length = self._arrivals[0]
        if self._is_overdue(number, at_s - since_s):
            return self._cut(self._place_of(length)[1], Closed.WAIT, oldest)
        if self._full:
            return self._cut(self._fullest(self._full), Closed.SIZE)
        if self.is_full or is_crowded:
            return self._cut(self._fullest(self._buckets), Closed.WINDOW)
        if not force:
            return None
        share = -(-self.num_waiting // max(1, spread_over))
        return self._cut(max(self._buckets), Closed.REST, most=share)

    # which bucket

    def _is_overdue(self, number: int, waited_s: float) -> bool:
        most_s = self.limits.max_wait_s
        passed = self._num_added - number
        return passed > MOST_WINDOWS * self.limits.window_pages or (most_s is not None and waited_s >= most_s)

    def _fullest(self, buckets: Collection[int]) -> int:
        return max(buckets, key=lambda name: (len(self._buckets[name]), name))

    def _choose_edges(self) -> None:
        self._edges = self._lengths.edges(self.limits.num_buckets)
        entries = [entry for bucket in self._buckets.values() for entry in bucket]
        self._buckets.clear()
        self._full.clear()
        self._places.clear()
        for _, expected, _, _, sized in entries:
            self._put(expected, sized)

    def _place_of(self, length: int) -> tuple[int, int]:
        """The class of like lengths, and the bucket."""
        place = self._places.get(length)
        if place is None:
            if len(self._places) >= _MOST_PLACES:
                self._places.clear()
            name = self._edges.bucket_of(length)
            like = 0 if name in self._edges.rising else math.ceil(math.log(max(1, length), LIKE_LENGTH))
            place = self._places[length] = (like, name)
        return place

    def _put(self, expected: float, sized: SizedPage) -> None:
        like, name = self._place_of(sized.length)
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = []
        insort(bucket, (like, expected, sized.length, sized.page.key, sized))
        if len(bucket) >= self._size_of(name):
            self._full[name] = None

    # how much of it

    def _size_of(self, name: int) -> int:
        """Pages of a batch that is full, by number or by tokens."""
        size = self._sizes.get(name)
        if size is None:
            size = self._sizes[name] = self._within(self.budget.allowance(name).size, name)
        return size

    def _within(self, size: int, longest: int) -> int:
        """Of so many pages, each counted as long as the longest, what the limit of tokens allows; at least one."""
        most = self.limits.max_tokens
        return size if most is None else max(1, min(size, most // max(1, longest)))

    def _heed_budget(self) -> None:
        """What the budget has learned alters which buckets are full."""
        self._version = self.budget.version
        self._sizes.clear()
        full = (name for name, bucket in self._buckets.items() if len(bucket) >= self._size_of(name))
        self._full = dict.fromkeys(full)

    def _cut(self, name: int, why: Closed, oldest: _Key | None = None, *, most: int | None = None) -> Batch:
        """Take a run of a bucket in its order: the longest answers of what is left, else those most alike."""
        entries, allowed = self._buckets[name], self.budget.allowance(name)
        full = self._within(allowed.size, max(entry[2] for entry in entries))
        size = min(full, len(entries), most or full)
        first, last = 0, len(entries) - size
        if oldest is not None:
            position = next(n for n, entry in enumerate(entries) if entry[3] == oldest)
            first, last = max(0, position + 1 - size), min(position, last)
        start = last if why is Closed.REST else _most_alike(entries, first, last, size)
        chosen = entries[start : start + size]
        del entries[start : start + size]
        if len(entries) < self._size_of(name):
            self._full.pop(name, None)
        if not entries:
            del self._buckets[name]
        for entry in chosen:
            del self._waiting[entry[3]]
        closed = Closed.SIZE if size == allowed.size else Closed.TOKENS if size == full or why is Closed.SIZE else why
        cut = Cut(allowed.size, allowed.reason, closed)
        return Batch(name, tuple(sorted((entry[4] for entry in reversed(chosen)), key=_shortness)), cut=cut)


def _shortness(sized: SizedPage) -> int:
    return -sized.length


def _most_alike(entries: Sequence[_Entry], first: int, last: int, size: int) -> int:
    """Where, from `first` to `last`, a run of so many begins whose answers lose the least share of slots.

    That is the run with the smallest ratio of its longest answer to its mean; of equal ones the last.
    """
    total = sum(entry[1] for entry in entries[first : first + size])
    least, best = math.inf, last
    for start in range(first, last + 1):
        longest = entries[start + size - 1][1]
        waste = longest / total if total > 0 else 0.0
        if waste <= least:
            least, best = waste, start
        if start < last:
            total += entries[start + size][1] - entries[start][1]
    return best
