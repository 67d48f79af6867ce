"""When a run must stop, and how many pages may fail."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from datetime import time as clock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import ConfigurationError
from pipeline.schedule import FailureBudget, clock_time, next_time

moments = st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC))


@given(moments, st.integers(0, 23), st.integers(0, 59))
def test_the_next_time_of_day_is_within_a_day_and_never_now(now: datetime, hour: int, minute: int):
    until = next_time(clock(hour, minute), now)
    local = until.astimezone()
    assert timedelta(0) < until - now <= timedelta(days=1, hours=1)
    assert (local.hour, local.minute) == (hour, minute)


def test_the_time_is_that_of_the_clocks_here_also_in_the_night_when_they_change(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "Europe/Vienna")
    time.tzset()
    try:
        evening = datetime(2026, 10, 24, 21, 0, tzinfo=UTC)  # 23:00; at 3:00 of the night it is 2:00 again
        assert next_time(clock(6, 0), evening) == datetime(2026, 10, 25, 5, 0, tzinfo=UTC)
        assert next_time(clock(23, 0), evening) == datetime(2026, 10, 25, 22, 0, tzinfo=UTC)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_time_of_day_is_read_as_it_is_written():
    assert clock_time("--stop-at", "") is None
    assert clock_time("--stop-at", " 6:05") == clock(6, 5)
    assert clock_time("--stop-at", "23:59") == clock(23, 59)
    for wrong in ("24:00", "6", "06:60", "6am", "06:00:00"):
        with pytest.raises(ConfigurationError, match="--stop-at is a time of day such as 06:00"):
            clock_time("--stop-at", wrong)


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 100))
def test_a_budget_is_a_number_or_a_share(failed: int, pages: int, limit: int):
    number, share = (FailureBudget.parse("--max-failed-pages", text) for text in (f"{limit}", f"{limit}%"))
    assert number is not None
    assert share is not None
    assert number.allows(failed, pages) == (failed <= limit)
    assert share.allows(failed, pages) == (failed * 100 <= limit * pages)


def test_a_budget_that_makes_no_sense_is_refused():
    assert FailureBudget.parse("--max-failed-pages", " ") is None
    assert FailureBudget.parse("--max-failed-pages", "0.5 %") == FailureBudget(share=0.005)
    for wrong in ("-1", "1.5", "101%", "few", "1e3", "²"):
        with pytest.raises(ConfigurationError, match="--max-failed-pages is a number of pages or a share such as 1%"):
            FailureBudget.parse("--max-failed-pages", wrong)
