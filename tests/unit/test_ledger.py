"""Laws of the ledger: what remains is exactly what has no row."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import ErrorCode
from pipeline.ledger import Ledger
from pipeline.parquet import RunKeys, encode, page_row, part_key
from pipeline.result import PageResult, Status
from pipeline.store import Store

from .samples import KEYS, NOON, a_document, a_failure, a_page, a_result

statuses = st.sampled_from([str(status) for status in Status])
rows = st.lists(st.tuples(st.integers(0, 60), statuses), max_size=80)


def _ledger(noted: list[tuple[int, str]]) -> Ledger:
    ledger = Ledger()
    for index, status in noted:
        ledger.add("file:///a.pdf", "d" * 64, index, status)
    return ledger


@given(rows, st.integers(0, 70), st.integers(1, 20))
def test_what_remains_is_exactly_the_pages_without_a_row(noted: list[tuple[int, str]], page_count: int, chunk: int):
    runs = list(_ledger(noted).remaining(a_document(page_count=page_count), chunk))
    remaining = [index for run in runs for index in run]
    assert remaining == [i for i in range(page_count) if i not in {index for index, _ in noted}]


@given(rows, st.integers(0, 70), st.integers(1, 20))
def test_a_run_of_remaining_pages_is_never_empty_and_never_longer_than_asked(
    noted: list[tuple[int, str]], page_count: int, chunk: int
):
    runs = list(_ledger(noted).remaining(a_document(page_count=page_count), chunk))
    assert all(1 <= len(run) <= chunk for run in runs)
    assert all(one.stop < other.start or len(one) == chunk for one, other in pairwise(runs))


@given(rows, st.integers(0, 70))
def test_every_page_is_counted_once_under_its_latest_status(noted: list[tuple[int, str]], page_count: int):
    counted = _ledger(noted).statuses(a_document(page_count=page_count))
    latest = [status for index, status in dict(noted).items() if index < page_count]
    assert {status: n for status, n in counted.items() if n} == {s: latest.count(s) for s in set(latest)}


@given(st.lists(st.tuples(st.integers(0, 20), statuses, st.booleans()), max_size=60), st.integers(0, 25))
def test_only_the_last_row_of_a_page_says_whether_it_is_done(noted: list[tuple[int, str, bool]], page_count: int):
    ledger, last = Ledger(), dict[int, bool]()
    for index, status, counts in noted:
        last[index] = counts
        if counts:
            ledger.add("file:///a.pdf", "d" * 64, index, status)
        else:
            ledger.forget("file:///a.pdf", "d" * 64, index)
    document = a_document(page_count=page_count)
    remaining = [index for run in ledger.remaining(document, 7) for index in run]
    assert remaining == [index for index in range(page_count) if not last.get(index)]
    assert sum(ledger.statuses(document).values()) == page_count - len(remaining)


def test_rows_of_another_document_or_of_other_bytes_count_for_nothing():
    ledger = _ledger([(0, "ok")])
    assert list(ledger.remaining(a_document(page_count=1), 9)) == []
    assert list(ledger.remaining(a_document(page_count=1, document_id="e" * 64), 9)) == [range(1)]
    assert list(ledger.remaining(a_document("file:///b.pdf"), 9)) == [range(1)]
    assert ledger.statuses(a_document("file:///b.pdf")) == {}


def test_a_document_that_could_not_be_opened_is_known_by_its_bytes():
    ledger = Ledger()
    ledger.add("file:///a.pdf", "d" * 64, None, "failed")
    assert ledger.status_unopened(a_document()) == "failed"
    assert ledger.status_unopened(a_document(document_id="e" * 64)) is None
    assert ledger.status_unopened(a_document(document_id=None)) is None
    assert list(ledger.remaining(a_document(page_count=2), 9)) == [range(2)]


def _put(store: Store, number: int, results: list[PageResult], fingerprint: str = KEYS.config_fingerprint) -> None:
    keys = RunKeys("run", fingerprint, NOON, KEYS.engine)
    store.put_new(part_key("pages", keys, number), encode("pages", [page_row(keys, result) for result in results]))


def test_a_ledger_is_read_from_the_rows_of_the_same_configuration(tmp_path: Path):
    store = Store.open(str(tmp_path))
    failed = PageResult(a_document(page_count=None), None, Status.FAILED, failure=a_failure())
    gone = PageResult(a_document("file:///gone.pdf", None, None), None, Status.FAILED, failure=a_failure())
    _put(store, 0, [a_result(0), a_result(2)])
    _put(store, 1, [failed, gone])
    _put(store, 2, [a_result(1)], fingerprint="another one")
    ledger = Ledger.read(store, KEYS.config_fingerprint)
    assert list(ledger.remaining(a_document(page_count=4), 9)) == [range(1, 2), range(3, 4)]
    assert ledger.statuses(a_document(page_count=4)) == {"ok": 2}
    assert ledger.status_unopened(a_document()) == "failed"
    assert ledger.status_unopened(gone.document) is None


def test_an_empty_output_has_an_empty_ledger(tmp_path: Path):
    ledger = Ledger.read(Store.open(str(tmp_path / "new")), "any")
    assert list(ledger.remaining(a_document(page_count=3), 2)) == [range(2), range(2, 3)]


def test_a_page_that_failed_and_was_read_later_counts_as_read(tmp_path: Path):
    store = Store.open(str(tmp_path))
    _put(store, 0, [PageResult(a_document(), a_page(), Status.FAILED, failure=a_failure())])
    _put(store, 1, [a_result(0)])
    assert Ledger.read(store, KEYS.config_fingerprint).statuses(a_document()) == {"ok": 1}


@pytest.mark.parametrize(
    ("retry", "remaining", "unopened"),
    [
        (frozenset(), [], "failed"),
        (frozenset({"broken_page"}), [1], "failed"),
        (frozenset({"encrypted"}), [], None),
        (frozenset({"broken_page", "encrypted"}), [1], None),
        (None, [1], None),
    ],
)
def test_failed_rows_that_are_to_be_read_again_do_not_count(
    retry: frozenset[str] | None, remaining: list[int], unopened: str | None, tmp_path: Path
):
    store, document = Store.open(str(tmp_path)), a_document(page_count=3)
    failed = [PageResult(document, a_page(index), Status.FAILED, failure=a_failure()) for index in (1, 2)]
    locked = a_document("file:///locked.pdf", None)
    refused = PageResult(locked, None, Status.FAILED, failure=a_failure(ErrorCode.ENCRYPTED))
    _put(store, 0, [a_result(0), *failed, refused])
    _put(store, 1, [a_result(2)])  # read again before, and well
    ledger = Ledger.read(store, KEYS.config_fingerprint, retry)
    assert [index for run in ledger.remaining(document, 9) for index in run] == remaining
    assert ledger.status_unopened(locked) == unopened
