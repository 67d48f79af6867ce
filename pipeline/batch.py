"""Batch: pages of one bucket, sorted by length, within limits; how they are packed, and their ids. Pure."""

from __future__ import annotations

import hashlib
import math
from bisect import insort
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pipeline.bucket import Edges, Lengths
from pipeline.budget import Budget, SizeReason, Start, fixed
from pipeline.page import SizedPage

FIRST_LOOK, LOOK_AGAIN = 256, 8
"""Edges are chosen after so many pages, and again whenever so many times as many have been seen."""

LIKE_LENGTH = 1.02
"""Pages whose lengths are within this ratio count as equally long, and are sorted by their expected answers."""

DEFAULT_BUCKETS = 12


class Closed(StrEnum):
    """Why a batch holds no more pages: the column `closed_by`."""

    SIZE = "size"
    TOKENS = "tokens"
    WAIT = "wait"
    WINDOW = "window"
    REST = "rest"


@dataclass(frozen=True, slots=True)
class Cut:
    """How a batch came to its size: the pages that it might have held, why so many, and why it holds no more.

    `closed` is `rest` where nothing more was to come for now: the input has ended, or memory for rasters is short.
    """

    size_limit: int
    reason: SizeReason
    closed: Closed


@dataclass(frozen=True, slots=True)
class Batch:
    """One engine call: `pages` of one `bucket`, longest first. `attempt` counts from one.

    `alone` asks for a process that reads nothing else meanwhile, so that what kills it is found. `cut` is None for
    what is left of a batch that is read again.
    """

    bucket: int
    pages: tuple[SizedPage, ...]
    attempt: int = 1
    alone: bool = False
    cut: Cut | None = None

    @property
    def batch_id(self) -> str:
        """Name of this set of pages, in this order: 16 hex digits, the same whenever it is packed again."""
        digest = hashlib.blake2b(digest_size=8)
        for sized in self.pages:
            digest.update(f"{sized.page.uri}\0{sized.page.document_id}\0{sized.page.page_index}\0".encode())
        return digest.hexdigest()

    @property
    def lengths(self) -> list[int]:
        """Length of each page, in the order of `pages`."""
        return [sized.length for sized in self.pages]

    @property
    def padded_tokens(self) -> int:
        """Tokens that would be padding if every page were as long as the longest."""
        return max(self.lengths) * len(self.pages) - sum(self.lengths)

    @property
    def padding_ratio(self) -> float:
        """Padding's share of the padded whole, 0 to 1."""
        whole = max(self.lengths) * len(self.pages)
        return self.padded_tokens / whole if whole else 0.0

    def halves(self) -> list[Batch]:
        """The same pages as one or two batches for another attempt: how a fault is narrowed to its page."""
        middle = len(self.pages) // 2
        parts = [self.pages[:middle], self.pages[middle:]]
        return [Batch(self.bucket, part, self.attempt + 1, self.alone) for part in parts if part]


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How large a batch and the look-ahead may become; a page over `max_tokens` goes alone.

    `max_wait_s` bounds how long a page waits for company; with None there is no such bound. At most `num_buckets` are
    chosen from the lengths of the pages.
    """

    start: Start
    window_pages: int
    max_tokens: int | None = None
    max_wait_s: float | None = None
    num_buckets: int = DEFAULT_BUCKETS

    @classmethod
    def of(cls, batch_size: int, window_pages: int, max_tokens: int | None = None) -> BatchLimits:
        """One size for all, as asked for."""
        return cls(fixed(batch_size, SizeReason.ASKED), window_pages, max_tokens)


_Key = tuple[str, int]
_Entry = tuple[int, float, _Key, SizedPage]
"""Sorted by these: the class of like lengths, the expected answer, and the page's key, so that no two are equal."""

_MOST_PLACES = 1 << 16
"""Lengths whose class and bucket are remembered, at most."""


def _nothing_known(_: SizedPage) -> float:
    return 0.0


@dataclass(slots=True)
class Packer:
    """Takes pages as they come and gives length-sorted batches, looking ahead over a bounded window.

    A bucket gives a batch once it holds as many pages as a batch of it may. Which one gives first is decided by how
    many pages wait in it, and a page that has seen two windows of later pages pass, or has waited for `max_wait_s`,
    goes next whatever its bucket holds. `expect` says how long a page's answer will be, in any unit. The same pages in
    the same order, taken at the same moments, give the same batches.
    """

    limits: BatchLimits
    budget: Budget
    expect: Callable[[SizedPage], float] = _nothing_known
    _buckets: dict[int, list[_Entry]] = field(default_factory=dict)
    _full: dict[int, None] = field(default_factory=dict)
    _sizes: dict[int, int] = field(default_factory=dict)
    _version: int = -1
    _arrivals: deque[tuple[int, float, _Entry]] = field(default_factory=deque)
    _waiting: set[_Key] = field(default_factory=set)
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
        like, name = self._place_of(length)
        entry = (like, self.expect(sized), key, sized)
        self._waiting.add(key)
        self._arrivals.append((self._num_added, at_s, entry))
        self._num_added += 1
        self._lengths.add(length)
        self._put(name, entry)
        if self._num_added == self._look_at:
            self._look_at *= LOOK_AGAIN
            self._choose_edges()

    def take(self, *, force: bool = False, spread_over: int = 1, at_s: float = 0.0) -> Batch | None:
        """The next batch, or None if it is better to wait.

        Args:
            force: Give what there is although no bucket is full: nothing more is coming, or memory is short.
            spread_over: With `force`, how many engines will share what is left; a batch then takes no more
                than its share, so that the last pages do not queue behind one engine while others idle.
            at_s: The moment, of the clock of `add`.
        """
        while self._arrivals and self._arrivals[0][2][2] not in self._waiting:
            self._arrivals.popleft()
        if not self._arrivals:
            return None
        if self._version != self.budget.version:
            self._heed_budget()
        number, since_s, oldest = self._arrivals[0]
        if self._is_overdue(number, at_s - since_s):
            return self._cut(self._place_of(oldest[-1].length)[1], Closed.WAIT, oldest)
        if self._full:
            return self._cut(self._fullest(self._full), Closed.SIZE)
        if self.is_full:
            return self._cut(self._fullest(self._buckets), Closed.WINDOW)
        if not force:
            return None
        share = -(-self.num_waiting // max(1, spread_over))
        return self._cut(max(self._buckets), Closed.REST, most=share)

    # which bucket

    def _is_overdue(self, number: int, waited_s: float) -> bool:
        most_s = self.limits.max_wait_s
        return self._num_added - number > 2 * self.limits.window_pages or (most_s is not None and waited_s >= most_s)

    def _fullest(self, buckets: Collection[int]) -> int:
        return max(buckets, key=lambda name: (len(self._buckets[name]), name))

    def _choose_edges(self) -> None:
        self._edges = self._lengths.edges(self.limits.num_buckets)
        entries = [entry for bucket in self._buckets.values() for entry in bucket]
        self._buckets.clear()
        self._full.clear()
        self._places.clear()
        for entry in entries:
            self._put(self._place_of(entry[-1].length)[1], entry)

    def _place_of(self, length: int) -> tuple[int, int]:
        """The class of like lengths, and the bucket."""
        place = self._places.get(length)
        if place is None:
            if len(self._places) >= _MOST_PLACES:
                self._places.clear()
            like = math.ceil(math.log(max(1, length), LIKE_LENGTH))
            place = self._places[length] = (like, self._edges.bucket_of(length))
        return place

    def _put(self, name: int, entry: _Entry) -> None:
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = []
        insort(bucket, entry)
        if len(bucket) >= self._size_of(name):
            self._full[name] = None

    # how much of it

    def _size_of(self, name: int) -> int:
        """Pages that make a bucket full."""
        size = self._sizes.get(name)
        if size is None:
            most, allowed = self.limits.max_tokens, self.budget.allowance(name).size
            size = self._sizes[name] = allowed if most is None else max(1, min(allowed, most // max(1, name)))
        return size

    def _heed_budget(self) -> None:
        """What the budget has learned alters which buckets are full."""
        self._version = self.budget.version
        self._sizes.clear()
        full = (name for name, bucket in self._buckets.items() if len(bucket) >= self._size_of(name))
        self._full = dict.fromkeys(full)

    def _cut(self, name: int, why: Closed, oldest: _Entry | None = None, *, most: int | None = None) -> Batch:
        """Take the longest pages of a bucket, or the run that holds the one that has waited longest."""
        entries = self._buckets[name]
        allowed = self.budget.allowance(name)
        size = min(allowed.size, most or allowed.size)
        stop = len(entries) if oldest is None else self._stop_after(entries, oldest, size)
        start = self._start_before(entries, stop, size)
        chosen = entries[start:stop]
        del entries[start:stop]
        if len(entries) < self._size_of(name):
            self._full.pop(name, None)
        if not entries:
            del self._buckets[name]
        self._waiting.difference_update([entry[2] for entry in chosen])
        is_by_tokens = len(chosen) < size and (start > 0 or why is Closed.SIZE)
        closed = Closed.SIZE if len(chosen) == allowed.size else Closed.TOKENS if is_by_tokens else why
        pages = sorted((entry[-1] for entry in reversed(chosen)), key=lambda sized: -sized.length)
        return Batch(name, tuple(pages), cut=Cut(allowed.size, allowed.reason, closed))

    def _start_before(self, entries: Sequence[_Entry], stop: int, size: int) -> int:
        """Where a cut begins that ends at `stop` and holds as many as it may, by number and by padded tokens."""
        most = self.limits.max_tokens
        start, longest = stop - 1, max(1, entries[stop - 1][-1].length)
        while start > 0 and stop - start < size:
            longest = max(longest, entries[start - 1][-1].length)
            if most is not None and longest * (stop - start + 1) > most:
                break
            start -= 1
        return start

    def _stop_after(self, entries: Sequence[_Entry], oldest: _Entry, size: int) -> int:
        """Where a cut must end to hold the longest-waiting page and, within the limits, as many longer as can be."""
        position = entries.index(oldest)
        stop = min(len(entries), max(position + 1, size))
        while self._start_before(entries, stop, size) > position:
            stop -= 1
        return stop
