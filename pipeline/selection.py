"""Selection: which pages of a document are asked for. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.errors import ConfigurationError

_RANGE = re.compile(r"\s*(\d*)\s*(-?)\s*(\d*)\s*", re.ASCII)
_MOST = 10**9
"""No document has so many pages."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Pages by number, the first page being 1, and how many of these at the most; everything by default.

    `ranges` are pairs of first and last page, both included; `max_pages` of 0 sets no limit.
    """

    ranges: tuple[tuple[int, int], ...] = ()
    max_pages: int = 0

    @classmethod
    def parse(cls, text: str, max_pages: int = 0) -> Selection:
        """Read `1-3,10-`: numbers and ranges with commas, either end of a range may be left open.

        Raises:
            ConfigurationError: it is written in another way, or a range holds no page.
        """
        return cls(tuple(map(_range, text.split(","))) if text.strip() else (), max_pages)

    def mask(self, page_count: int) -> int:
        """The pages asked for of a document of this many, as bits: bit 0 for the first page."""
        everything = (1 << page_count) - 1
        wanted = everything
        if self.ranges:
            wanted = 0
            for first, last in self.ranges:
                wanted |= ((1 << min(last, page_count)) - 1) >> (first - 1) << (first - 1)
        return _first(wanted, self.max_pages) if self.max_pages else wanted

    def says(self) -> str:
        """Why a page is left out, in words that name the options."""
        options = [f"--pages {_written(self.ranges)}"] if self.ranges else []
        options += [f"--max-pages-per-document {self.max_pages}"] if self.max_pages else []
        return f"not asked for: {' '.join(options)}"


def _range(text: str) -> tuple[int, int]:
    match = _RANGE.fullmatch(text)
    first, dash, last = match.groups() if match else ("", "", "")
    if not (first or last) or (last and not dash) or len(first + last) > 18:
        raise ConfigurationError(f"--pages: '{text.strip()}' is no page and no range of pages, such as 1-3,10-")
    start = int(first or 1)
    stop = min(int(last or _MOST) if dash else start, _MOST)
    if not 1 <= start <= stop:
        raise ConfigurationError(f"--pages: '{text.strip()}' holds no page; the first page is 1")
    return start, stop


def _first(bits: int, count: int) -> int:
    """The lowest `count` of these bits."""
    if bits.bit_count() <= count:
        return bits
    low, high = 0, bits.bit_length()
    while low < high:  # the shortest stretch from the first page that holds as many
        middle = (low + high) // 2
        if (bits & ((1 << middle) - 1)).bit_count() < count:
            low = middle + 1
        else:
            high = middle
    return bits & ((1 << low) - 1)


def _written(ranges: Sequence[tuple[int, int]]) -> str:
    return ",".join(
        str(first) if first == last else f"{first}-" if last == _MOST else f"{first}-{last}" for first, last in ranges
    )
