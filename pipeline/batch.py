"""Batch: pages of one bucket, sorted by length, within limits; how they came to be one, and their ids. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from pipeline.budget import SizeReason, Start, fixed
from pipeline.page import SizedPage

DEFAULT_BUCKETS = 16


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

    `closed` is `rest` where nothing more was to come, `window` also where memory for rasters was short.
    """

    size_limit: int
    reason: SizeReason
    closed: Closed


def padding_share(padded_tokens: int, tokens: int) -> float:
    """Padding's share of the padded whole, 0 to 1."""
    whole = padded_tokens + tokens
    return padded_tokens / whole if whole else 0.0


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
        return padding_share(self.padded_tokens, sum(self.lengths))

    def halves(self) -> list[Batch]:
        """The same pages as one or two batches for another attempt: how a fault is narrowed to its page."""
        middle = len(self.pages) // 2
        parts = [self.pages[:middle], self.pages[middle:]]
        return [Batch(self.bucket, part, self.attempt + 1, self.alone) for part in parts if part]


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How large a batch and the look-ahead may become; a page over `max_tokens` goes alone.

    `max_wait_s` bounds how long a page waits for company; with None there is no such bound. At most `num_buckets` are
    chosen from the lengths of the pages: as few as keep padding low, see `pipeline.bucket.Lengths.edges`.
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
