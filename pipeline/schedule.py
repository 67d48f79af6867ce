"""Schedule: until when a run may work, and how many pages may fail before it says so. Pure: the clock is given."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from pipeline.errors import ConfigurationError

_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_SHARE = re.compile(r"(\d+(?:\.\d+)?) ?%")


def clock_time(flag: str, text: str) -> time | None:
    """A time of day written HH:MM; None for no text.

    Raises:
        ConfigurationError: it is none.
    """
    if not text:
        return None
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ConfigurationError(f"{flag} is a time of day such as 06:00, not '{text}'")
    return time(int(match[1]), int(match[2]))


def next_time(at: time, now: datetime) -> datetime:
    """The moment (UTC) when the clocks here next show this time of day; a day from now if they show it just now."""
    local = now.astimezone().replace(tzinfo=None)
    until = datetime.combine(local.date(), at)
    if until <= local:
        until += timedelta(days=1)
    return until.astimezone(UTC)


@dataclass(frozen=True, slots=True)
class FailureBudget:
    """How many pages of a run may fail: so many, or such a share of them."""

    pages: int = 0
    share: float = 0.0

    @classmethod
    def parse(cls, flag: str, text: str) -> FailureBudget | None:
        """From ``20`` or ``1%``; None for no text.

        Raises:
            ConfigurationError: it is neither.
        """
        text = text.strip()
        if not text:
            return None
        match = _SHARE.fullmatch(text)
        if match is not None and float(match[1]) <= 100:
            return cls(share=float(match[1]) / 100)
        if not (text.isascii() and text.isdigit()):
            raise ConfigurationError(f"{flag} is a number of pages or a share such as 1%, not '{text}'")
        return cls(pages=int(text))

    def allows(self, failed: int, pages: int) -> bool:
        """Whether so many failures among so many pages are within it."""
        return failed <= max(self.pages, round(self.share * pages, 6))
