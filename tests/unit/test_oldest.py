"""Oldest first: nothing is lost or doubled in sorting, and what waits longest comes first."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.document import Source
from pipeline.errors import ErrorCode, MachineError
from pipeline.oldest import oldest_first

ages = st.lists(st.tuples(st.one_of(st.none(), st.integers(1, 2**62)), st.booleans()), max_size=60)


@given(ages)
def test_done_ones_come_as_listed_then_the_others_by_age_ties_and_timeless_ones_in_the_order_of_the_list(
    given_ages: list[tuple[int | None, bool]],
):
    sources = [Source(f"file:///{n}", etag=f"e{n}", since_ns=age) for n, (age, _) in enumerate(given_ages)]
    done = {source.uri for source, (_, is_done) in zip(sources, given_ages, strict=True) if is_done}
    found = list(oldest_first(iter(sources), lambda source: source.uri in done))
    waiting = [source for source in sources if source.uri not in done]
    assert found == [s for s in sources if s.uri in done] + sorted(waiting, key=lambda source: source.since_ns or 0)
    assert {(s.uri, s.etag, s.since_ns) for s in found} == {(s.uri, s.etag, s.since_ns) for s in sources}


def test_a_source_that_cannot_be_looked_at_keeps_its_reason():
    lost = Source("file:///sub", ErrorCode.UNREADABLE, "the folder cannot be listed: \udc80")
    (found,) = oldest_first([lost], lambda source: False)
    assert (found.problem, found.since_ns, found.detail[:28]) == (ErrorCode.UNREADABLE, None, lost.detail[:28])


def test_a_disk_without_room_ends_the_run_with_one_line(monkeypatch: pytest.MonkeyPatch):
    class Full:
        def execute(self, *words: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        def close(self) -> None:
            pass

    monkeypatch.setattr("sqlite3.connect", lambda *words, **options: Full())
    with pytest.raises(MachineError, match=r"could not be sorted.*disk is full"):
        next(oldest_first([], lambda source: False))
