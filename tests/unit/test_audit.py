"""The laws of an output: rows that keep them give no fault, and each breach gives its own."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.audit.documents import DocumentBook, DocumentRow, RunInOrder
from pipeline.audit.fault import REMEDIES, Fault, FaultCode, page_of
from pipeline.audit.laws import PageRow, RunCount, RunRow, row_faults
from pipeline.config import JobConfig
from pipeline.errors import ErrorCode
from pipeline.result import Status
from pipeline.stats import Totals

URI, ID, FP = "file:///a.pdf", "d" * 64, "0123456789abcdef"
FIRST, SECOND, OVERWRITING = RunInOrder(0, False), RunInOrder(1, False), RunInOrder(1, True)

statuses = st.sampled_from([str(status) for status in Status])


def a_row(index: int | None = 0, count: int | None = 3, status: str = "ok", **other: object) -> PageRow:
    row = PageRow(status in ("ok", "truncated", "repeated"), "run", FP, ID, URI, index, count, status, None, "b1", 1)
    if status in ("failed", "skipped"):
        row = replace(row, error_code="broken_page")
    return replace(row, **other)  # type: ignore[arg-type]


def a_document(counts: dict[str, int], page_count: int | None = 3, document_id: str | None = ID) -> DocumentRow:
    return DocumentRow(URI, document_id, FP, page_count, 10, "etag", tuple(sorted(counts.items())))


def book(*rows: PageRow, run: RunInOrder = FIRST) -> DocumentBook:
    made = DocumentBook(FP)
    assert not told(made, *rows, run=run)
    return made


def told(into: DocumentBook, *rows: PageRow, run: RunInOrder = FIRST) -> list[Fault]:
    return [fault for row in rows for fault in into.add_page(row, run)]


def codes(faults: list[Fault]) -> list[str]:
    return [str(fault.code) for fault in faults]


# rows


@given(st.integers(1, 50).flatmap(lambda n: st.tuples(st.integers(0, n - 1), st.just(n))), statuses)
def test_a_row_as_a_run_writes_it_has_no_fault(page: tuple[int, int], status: str):
    row = a_row(page[0], page[1], status)
    assert list(row_faults(row)) == []
    assert row.is_placed


@given(st.one_of(st.none(), st.integers(-5, 5)), st.one_of(st.none(), st.integers(-5, 5)))
def test_only_an_index_below_the_count_or_neither_is_a_place(index: int | None, count: int | None):
    right = (index is None and count is None) or (index is not None and count is not None and 0 <= index < count)
    assert (list(row_faults(a_row(index, count))) == []) == right
    assert a_row(index, count).is_placed == right


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (a_row(run_id=None), "run_id is null"),
        (a_row(uri=None), "uri is null"),
        (a_row(config_fingerprint=None), "config_fingerprint is null"),
        (a_row(status=None), "status is null"),
        (a_row(status="fine"), "status 'fine' is unknown"),
        (a_row(status="failed", error_code=None), "status is failed and there is no error_code"),
        (a_row(status="skipped", error_code="oops"), "error_code 'oops' is unknown"),
        (a_row(has_text=False), "status is ok and there is no text"),
        (a_row(error_code="encrypted"), "status is ok and error_code is encrypted"),
        (a_row(status="truncated", has_text=False), "status is truncated and there is no text"),
        (a_row(status="repeated", error_code="encrypted"), "status is repeated and error_code is encrypted"),
        (a_row(document_id="D" * 64), f"document_id '{'D' * 64}' is no SHA-256 in hex"),
        (a_row(document_id=None), "a page without document_id"),
        (a_row(3, 3), "page_index 3 is none of 3 pages"),
        (a_row(0, 2**31 - 1), "page_count 2147483647 is more than any document has"),
        (a_row(None, 3), "page_index is null and page_count is 3"),
    ],
)
def test_a_row_that_contradicts_itself_is_told_once_and_with_what(row: PageRow, said: str):
    assert list(row_faults(row)) == [said]


# documents


@given(st.permutations(list(range(6))), st.lists(statuses, min_size=6, max_size=6))
def test_pages_in_any_order_are_one_complete_document(order: list[int], given_statuses: list[str]):
    made = book(*(a_row(index, 6, given_statuses[index]) for index in order))
    assert made.compare(URI, ID) is None
    assert list(made.add_document(a_document(dict(Counter(given_statuses)), 6), FIRST, "run")) == []
    assert list(made.faults(None)) == []
    assert made.num_pages() == 6


@given(st.sets(st.integers(0, 8), min_size=1, max_size=8))
def test_whatever_page_is_missing_the_document_is_incomplete(present: set[int]):
    made = book(*(a_row(index, 9) for index in present))
    fault = made.compare(URI, ID)
    assert fault is not None
    assert (fault.code, fault.message) == (FaultCode.INCOMPLETE, f"{len(present)} of 9 pages have a row")
    assert list(made.faults(None)) == []
    assert list(made.add_document(a_document({"ok": 9}, 9), FIRST, "run")) == []
    assert codes(list(made.faults(None))) == ["lost_pages"]


@given(st.lists(st.integers(0, 6), max_size=20))
def test_in_one_run_every_row_beyond_the_first_of_a_page_is_a_fault(indexes: list[int]):
    faults = told(DocumentBook(FP), *(a_row(index, 7, "failed") for index in indexes), run=OVERWRITING)
    assert codes(faults) == ["duplicate_row"] * (len(indexes) - len(set(indexes)))


@given(statuses, st.booleans())
def test_a_later_run_may_repeat_what_had_failed_or_all_if_it_overwrites(older: str, may_repeat: bool):
    made = book(a_row(status=older))
    faults = told(made, a_row(run_id="later"), run=RunInOrder(1, may_repeat))
    assert codes(faults) == ([] if may_repeat or older == "failed" else ["duplicate_row"])


def test_the_same_page_of_other_bytes_other_options_or_another_name_is_another_page():
    made = book(a_row())
    others = (a_row(document_id="e" * 64), a_row(config_fingerprint="f" * 16), a_row(uri="file:///b.pdf"))
    assert told(made, *others) == []
    assert told(made, *others, run=SECOND) != []


def test_a_source_that_cannot_be_seen_is_told_again_by_each_run_and_once_in_each():
    gone = a_row(None, None, "failed", document_id=None, error_code="not_found")
    made = book(gone)
    assert told(made, gone, run=SECOND) == []
    assert codes(told(made, gone, run=SECOND)) == ["duplicate_row"]


def test_a_document_is_not_opened_and_not_openable_in_one_run():
    made = book(a_row())
    assert codes(told(made, a_row(None, None, "failed"))) == ["duplicate_row"]
    assert told(book(a_row(None, None, "failed")), a_row(), run=SECOND) == []


def test_rows_that_disagree_on_the_number_of_pages_are_a_fault():
    assert codes(told(book(a_row(0, 3)), a_row(1, 4))) == ["page_count"]


@pytest.mark.parametrize("counts", [{"ok": 3}, {"ok": 1, "failed": 2}, {}])
def test_a_row_in_documents_counts_what_is_in_pages(counts: dict[str, int]):
    made = book(a_row(0), a_row(1), a_row(2, status="failed"))
    assert list(made.add_document(a_document(counts), FIRST, "run")) == []
    (fault,) = made.faults(None)
    assert fault.code == FaultCode.DOCUMENT_COUNTS
    assert "1 failed, 2 ok" in fault.message


def test_a_row_in_documents_without_a_page_is_a_fault():
    made = DocumentBook(FP)
    assert list(made.add_document(a_document({"ok": 3}), FIRST, "run")) == []
    assert codes(list(made.faults(None))) == ["lost_pages"]
    for document_id in (ID, "e" * 64, None):
        fault = made.compare(URI, document_id)
        assert fault is not None
        assert fault.code == FaultCode.UNREAD


def test_only_the_newest_row_in_documents_counts():
    made = book(a_row(0))
    assert list(made.add_document(a_document({"ok": 3}), FIRST, "run")) == []
    assert told(made, a_row(1), a_row(2), run=SECOND) == []
    assert list(made.faults(None)) == []  # the lost pages were read again
    assert list(made.add_document(a_document({"ok": 2, "failed": 1}), SECOND, "later")) == []
    assert codes(list(made.faults(None))) == ["document_counts"]


def test_two_rows_in_documents_by_one_run_are_a_fault_and_by_two_runs_are_none():
    made = book(a_row(0, 1))
    row = a_document({"ok": 1}, 1)
    assert list(made.add_document(row, FIRST, "run")) == []
    assert list(made.add_document(row, SECOND, "later")) == []
    assert codes(list(made.add_document(row, SECOND, "later"))) == ["duplicate_row"]


def test_a_complete_document_needs_a_row_unless_its_run_is_under_way():
    made = book(a_row(0, 1))
    assert codes(list(made.faults(None))) == ["no_document_row"]
    assert list(made.faults(FIRST.number)) == []
    assert list(book(a_row(0, 2)).faults(None)) == []


def test_a_row_in_documents_that_later_pages_have_made_untrue_is_a_fault():
    made = book(a_row(0, 1, "failed"))
    assert list(made.add_document(a_document({"failed": 1}, 1), FIRST, "run")) == []
    assert list(made.faults(None)) == []
    assert told(made, a_row(0, 1), run=SECOND) == []
    assert codes(list(made.faults(None))) == ["document_counts"]


def test_an_input_is_held_against_the_rows_of_its_content_under_the_newest_options():
    made = book(a_row(0, 1))
    assert made.compare(URI, ID) is None
    assert made.compare(URI, None) is None
    said = [made.compare("file:///b.pdf", ID), made.compare(URI, "e" * 64)]
    made.newest_fingerprint = "other"
    said.append(made.compare(URI, ID))
    assert [fault and str(fault.code) for fault in said] == ["unread", "changed", "unread"]


@pytest.mark.parametrize(
    ("code", "expected"), [("not_found", "unread"), ("unreadable", "unread"), ("rasterizer_crashed", None)]
)
def test_a_source_without_id_is_read_only_if_looking_at_it_was_what_failed(code: str, expected: str | None):
    made = book(a_row(None, None, "failed", document_id=None, error_code=code))
    fault = made.compare(URI, ID)
    assert (fault and str(fault.code)) == expected


def test_without_hashes_size_and_time_of_change_decide():
    made = book(a_row(0, 1))
    assert list(made.add_document(a_document({"ok": 1}, 1), FIRST, "run")) == []
    assert made.compare_unhashed(URI, 10, "etag") is None
    for size_bytes, etag in ((11, "etag"), (10, "other")):
        fault = made.compare_unhashed(URI, size_bytes, etag)
        assert fault is not None
        assert fault.code == FaultCode.CHANGED
    unread = made.compare_unhashed("file:///b.pdf", 10, "etag")
    assert unread is not None
    assert unread.code == FaultCode.UNREAD


# runs


def a_run(outcome: str = "done", **totals: object) -> RunRow:
    counted = json.dumps({**Totals().as_dict(), **totals})
    return RunRow.of("run", FP, outcome, JobConfig(inputs=("/in",), overwrite=True).as_json(), counted)


def a_count(*rows: PageRow, **batches: int) -> RunCount:
    count = RunCount()
    for row in rows:
        count.add_page(row)
    for batch_id, size in batches.items():
        count.add_batch(batch_id, size)
    return count


@given(st.lists(st.tuples(statuses, st.sampled_from(["b1", "b2", "b3", None])), max_size=30))
def test_totals_of_the_same_rows_have_no_fault_and_any_other_number_has_one(rows: list[tuple[str, str | None]]):
    made = [a_row(status=status, batch_id=batch_id) for status, batch_id in rows]
    sizes = Counter(batch_id for _, batch_id in rows if batch_id)
    counts = {
        "pages": len(rows),
        "pages_by_status": dict(Counter(status for status, _ in rows)),
        "pages_copied": 0,
        "batches": len(sizes),
        "batched_pages": sizes.total(),
    }
    assert list(a_count(*made, **sizes).faults(a_run(**counts))) == []
    for name in ("pages", "pages_copied", "batches", "batched_pages"):
        wrong = a_run(**{**counts, name: int(str(counts[name])) + 1})
        assert codes(list(a_count(*made, **sizes).faults(wrong))) == ["run_totals"]


def test_a_run_that_could_not_write_its_last_rows_may_have_fewer_and_never_more():
    totals = {"pages": 2, "pages_by_status": {"ok": 2}}
    row = a_row()
    assert list(a_count(row).faults(a_run("unfinished", **totals))) == []
    assert set(codes(list(a_count(row, row, row).faults(a_run("unfinished", **totals))))) == {"run_totals"}


def test_rows_that_were_copied_are_counted_as_such_and_belong_to_no_batch():
    rows = [a_row(), a_row(1, batch_id=None, attempts=0)]
    totals = {"pages": 2, "pages_by_status": {"ok": 2}, "batches": 1, "batched_pages": 1}
    assert list(a_count(*rows, b1=1).faults(a_run(**totals, pages_copied=1))) == []
    assert codes(list(a_count(*rows, b1=1).faults(a_run(**totals, pages_copied=2)))) == ["run_totals"]


def test_a_batch_has_the_pages_it_says_and_every_page_a_batch_that_is_there():
    totals = {"pages": 2, "pages_by_status": {"ok": 2}, "batches": 1, "batched_pages": 2}
    assert codes(list(a_count(a_row(), a_row(batch_id="b9"), b1=2).faults(a_run(**totals)))) == [
        "orphan_batch",
        "batch_size",
    ]
    stopped = a_count(a_row(), a_row(batch_id=None), b1=2).faults(a_run("interrupted", **totals))
    assert list(stopped) == []


def test_a_page_that_crashed_its_engine_names_a_batch_that_has_never_reported():
    row = a_row(status="failed", error_code=str(ErrorCode.ENGINE_CRASHED), batch_id="b9")
    assert list(a_count(row).faults(a_run(pages=1, pages_by_status={"failed": 1}))) == []


def test_a_run_of_which_a_part_cannot_be_read_is_not_held_to_its_totals():
    count = a_count(a_row())
    count.is_whole = False
    assert list(count.faults(a_run(pages=7))) == []


def test_a_run_is_read_from_its_json_and_what_is_none_is_refused():
    run = a_run()
    assert (run.overwrite, run.inputs, run.ended_well) == (True, ("/in",), True)
    for config, totals in (("", "{}"), ("[]", "{}"), ("{}", '{"pages": "3"}'), ("{}", '{"pages_by_status": 3}')):
        with pytest.raises(ValueError, match=r"config|totals"):
            RunRow.of("run", FP, "done", config, totals)
    with pytest.raises(ValueError, match="outcome 'lost' is unknown"):
        RunRow.of("run", FP, "lost", "{}", "{}")
    older = RunRow.of("run", None, "done", "{}", "{}")
    assert list(a_count(a_row(), b1=1).faults(older)) == []


def test_a_page_is_named_as_a_viewer_counts():
    assert (page_of(URI, 0), page_of(URI, None)) == (URI + "#page=1", URI)
    assert Fault(FaultCode.UNREAD, URI, "it has no row").remedy == REMEDIES[FaultCode.UNREAD]
    assert Fault(FaultCode.BOX_OUTSIDE, URI, "outside").remedy is None
