"""Which rows may go: never one that a reader of the newest rows would miss, and everything that is old and replaced."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import ConfigurationError
from pipeline.upkeep.retention import Keeper, Retention, RowKey

TODAY = 1000
A, B = "a" * 64, "b" * 64


def _run(day: int) -> str:
    return f"{day:04d}"


def _page(day: int, content: str | None = A, fingerprint: str = "f", index: int | None = 0, code: str | None = None):
    return RowKey("file:///x", content, fingerprint, _run(day), day, code, index)


def _document(day: int, content: str | None = A, fingerprint: str = "f", code: str | None = None) -> RowKey:
    return RowKey("file:///x", content, fingerprint, _run(day), day, code, is_document=True)


def _left(rows: list[RowKey], retention: Retention, in_use: Callable[[], set[str]] = set) -> list[RowKey]:
    keeper = Keeper(retention, TODAY, in_use())
    for row in rows:
        keeper.note(row)
    newest_first = sorted(rows, key=lambda row: row.run_id, reverse=True)
    kept = [row for row in newest_first if not keeper.is_needless(row)]
    return [row for row in rows if row in kept]


OLD = Retention(superseded_days=10)


def test_rows_of_an_older_content_go_once_the_newer_one_is_finished_and_they_are_old():
    old = [_page(900), _document(900)]
    new = [_page(950, B), _document(950, B)]
    assert _left([*old, *new], OLD) == new
    assert _left([*old, *new], Retention(superseded_days=100)) == [*old, *new]
    assert _left([*old, *new], Retention()) == [*old, *new]
    assert _left([*old, new[0]], OLD) == [*old, new[0]], "the newer one is not finished"


def test_a_page_that_was_read_again_keeps_its_newest_row_alone():
    rows = [_page(900, code="engine_error"), _page(901, index=1), _document(901), _page(950), _document(950)]
    assert _left(rows, OLD) == [rows[1], rows[3], rows[4]]
    young = [_page(995, code="engine_error"), _page(999)]
    assert _left(young, OLD) == young


def test_that_a_page_was_not_asked_for_hides_no_row():
    rows = [_page(900), _page(950, code="not_selected")]
    assert _left(rows, OLD) == rows
    assert _left([_page(900, code="not_selected"), _page(950)], OLD) == [_page(950)]


def test_another_configuration_goes_only_once_it_runs_no_more():
    rows = [_page(900, fingerprint="f"), _document(900, fingerprint="f"), _page(950, fingerprint="g")]
    rows.append(_document(950, fingerprint="g"))
    assert _left(rows, OLD) == rows[2:]
    assert _left(rows, OLD, lambda: {"f"}) == rows
    partial = [*rows, _page(950, fingerprint="g", index=1, code="not_selected")]
    assert _left(partial, OLD) == partial, "some page has a row of the other one only"
    elsewhere = RowKey("file:///y", A, "f", _run(999), 999, None, 0)
    assert _left([*rows, elsewhere], OLD) == [*rows, elsewhere], "it has read something else of late"


def test_a_file_that_cannot_be_read_of_late_keeps_what_was_read_of_it():
    rows = [_page(900), _document(900), _page(950, None, index=None, code="unreadable"), _document(950, None)]
    assert _left(rows, OLD) == rows
    readable = [*rows, _page(960, B), _document(960, B)]
    assert _left(readable, OLD) == readable[4:]


def test_what_has_vanished_is_forgotten_after_its_days_and_not_if_it_came_back():
    rows = [_page(900), _document(900), _document(950, None, code="vanished")]
    assert _left(rows, Retention(vanished_days=60)) == rows
    assert _left(rows, Retention(vanished_days=49)) == []
    assert _left(rows, OLD) == rows
    back = [*rows, _document(960)]
    assert _left(back, Retention(vanished_days=1)) == back
    assert _left(back, OLD) == [_page(900), _document(960)]


_rows = st.lists(
    st.builds(
        lambda day, content, fingerprint, index, code, is_document: RowKey(
            "file:///x", content, fingerprint, _run(day), day, code, None if is_document else index, is_document
        ),
        st.integers(900, 999),
        st.sampled_from([A, B]),
        st.sampled_from(["f", "g"]),
        st.integers(0, 2),
        st.sampled_from([None, None, "not_selected"]),
        st.booleans(),
    ),
    max_size=14,
    unique_by=lambda row: (row.run_id, row.page_index),
)


@given(_rows, st.integers(1, 90))
def test_the_newest_row_of_each_page_of_the_newest_content_always_stays(rows: list[RowKey], days: int):
    left = _left(rows, Retention(superseded_days=days, vanished_days=days))
    documents = [row for row in rows if row.is_document]
    if documents:
        newest = max(documents, key=lambda row: row.run_id)
        assert newest in left
        pages = [row for row in rows if not row.is_document and row.document_id == newest.document_id]
        asked = [row for row in pages if row.error_code != "not_selected"]
        for index in range(3):
            of_page = [r for r in asked if (r.page_index, r.config_fingerprint) == (index, newest.config_fingerprint)]
            assert not of_page or max(of_page, key=lambda row: row.run_id) in left
    assert all(TODAY - row.day > days for row in rows if row not in left), "nothing young goes"


@given(_rows, st.integers(1, 90))
def test_of_a_content_and_configuration_all_pages_stay_or_none(rows: list[RowKey], days: int):
    left = _left(rows, Retention(superseded_days=days))

    def pages(of: list[RowKey]) -> dict[tuple[str | None, str], set[int | None]]:
        found: dict[tuple[str | None, str], set[int | None]] = {}
        for row in of:
            if not row.is_document:
                found.setdefault((row.document_id, row.config_fingerprint), set()).add(row.page_index)
        return found

    assert all(indices == pages(rows)[state] for state, indices in pages(left).items())


@pytest.mark.parametrize("days", [0, -1, 1.5, True])
def test_days_are_whole_and_more_than_none(days: int):
    with pytest.raises(ConfigurationError, match="vanished days to keep must be a whole number from 1"):
        Retention(vanished_days=days)


def test_telemetry_tells_which_configurations_are_in_use_and_stays_as_long():
    with pytest.raises(ConfigurationError, match="telemetry must be kept for the 30 days"):
        Retention(telemetry_days=10, superseded_days=30)
    assert not Retention().is_anything
    assert Retention(telemetry_days=30, superseded_days=30).drops_documents
    assert not Retention(telemetry_days=30).drops_documents
