"""Batch: pages of one bucket, sorted by length, within limits; how they are packed, and their ids. Pure."""

from __future__ import annotations

import hashlib
from bisect import insort
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline.bucket import bucket_of
from pipeline.page import SizedPage


@dataclass(frozen=True, slots=True)
class Batch:
    """One engine call: `pages` of one `bucket`, longest first. `attempt` counts from one.

    `alone` asks for a process that reads nothing else meanwhile, so that what kills it is found.
    """

    bucket: int
    pages: tuple[SizedPage, ...]
    attempt: int = 1
    alone: bool = False

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
    """How large a batch and the look-ahead may become; a page over `max_tokens` goes alone."""

    batch_size: int
    window_pages: int
    max_tokens: int | None = None


_Entry = tuple[int, str, int, SizedPage]


@dataclass(slots=True)
class Packer:
    """Takes pages as they come and gives length-sorted batches, looking ahead over a bounded window.

    A bucket gives a batch once it holds `batch_size` pages. Which one gives first is decided by how many
    pages wait in it, and a page that has seen two windows of later pages pass goes next whatever its bucket
    holds. The same pages in the same order, taken at the same moments, give the same batches.
    """

    limits: BatchLimits
    _buckets: dict[int, list[_Entry]] = field(default_factory=dict)
    _arrivals: deque[tuple[int, tuple[str, int], int]] = field(default_factory=deque)
    _waiting_keys: set[tuple[str, int]] = field(default_factory=set)
    _num_added: int = 0

    @property
    def num_waiting(self) -> int:
        """Pages in the window."""
        return len(self._waiting_keys)

    @property
    def is_full(self) -> bool:
        """Whether the window holds as many pages as it may."""
        return self.num_waiting >= self.limits.window_pages

    def add(self, sized: SizedPage) -> None:
        """Let a page wait for company.

        Raises:
            ValueError: the same page waits already.
        """
        if sized.page.key in self._waiting_keys:
            raise ValueError(f"page waits already: {sized.page.key}")
        bucket = bucket_of(sized.length)
        entry = (sized.length, sized.page.uri, sized.page.page_index, sized)
        insort(self._buckets.setdefault(bucket, []), entry)
        self._waiting_keys.add(sized.page.key)
        self._arrivals.append((self._num_added, sized.page.key, bucket))
        self._num_added += 1

    def take(self, *, force: bool = False, spread_over: int = 1) -> Batch | None:
        """The next batch, or None if it is better to wait.

        Args:
            force: Give what there is although no bucket is full: nothing more is coming, or memory is short.
            spread_over: With `force`, how many engines will share what is left; a batch then takes no more
                than its share, so that the last pages do not queue behind one engine while others idle.
        """
        overdue = self._overdue_bucket()
        if overdue is not None:
            return self._cut(overdue, self.limits.batch_size)
        fullest = max(self._buckets, key=lambda b: (len(self._buckets[b]), b), default=None)
        if fullest is None:
            return None
        if len(self._buckets[fullest]) >= self.limits.batch_size or self.is_full:
            return self._cut(fullest, self.limits.batch_size)
        if not force:
            return None
        share = -(-self.num_waiting // max(1, spread_over))
        return self._cut(max(self._buckets), max(1, min(self.limits.batch_size, share)))

    def _overdue_bucket(self) -> int | None:
        while self._arrivals and self._arrivals[0][1] not in self._waiting_keys:
            self._arrivals.popleft()
        if not self._arrivals:
            return None
        number, _, bucket = self._arrivals[0]
        return bucket if self._num_added - number > 2 * self.limits.window_pages else None

    def _cut(self, bucket: int, size: int) -> Batch:
        """Take the longest pages of a bucket, or the run that holds the longest-waiting one if it is overdue."""
        entries = self._buckets[bucket]
        stop = len(entries)
        if self._overdue_bucket() == bucket:
            stop = self._stop_after_oldest(entries, size)
        start = stop - _num_within(entries[:stop], size, self.limits.max_tokens)
        chosen = entries[start:stop]
        del entries[start:stop]
        if not entries:
            del self._buckets[bucket]
        self._waiting_keys.difference_update(entry[3].page.key for entry in chosen)
        return Batch(bucket, tuple(entry[3] for entry in reversed(chosen)))

    def _stop_after_oldest(self, entries: Sequence[_Entry], size: int) -> int:
        """Where a cut must end to hold the longest-waiting page and, within the limits, as many longer as can be."""
        oldest = self._arrivals[0][1]
        position = next(i for i, entry in enumerate(entries) if entry[3].page.key == oldest)
        stop = min(len(entries), max(position + 1, size))
        while stop - _num_within(entries[:stop], size, self.limits.max_tokens) > position:
            stop -= 1
        return stop


def _num_within(entries: Sequence[_Entry], size: int, max_tokens: int | None) -> int:
    """How many of the last entries fit: at most `size`, and padded to the longest no more than `max_tokens`."""
    longest = max(1, entries[-1][0])
    fitting = size if max_tokens is None else max(1, min(size, max_tokens // longest))
    return min(fitting, len(entries))
