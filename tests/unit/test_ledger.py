"""Laws of the ledger: what remains is exactly what has no row."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.document import Document, Source
from pipeline.errors import ErrorCode
from pipeline.ledger import Done, Ledger, count, count_codes, missing, union, verdict
from pipeline.parquet import encode, part_key
from pipeline.result import PageResult, Status
from pipeline.selection import Selection
from pipeline.store import ObjectReader, Store
from pipeline.table import RunKeys, document_row, page_row

from .samples import KEYS, NOON, a_document, a_failure, a_page, a_result

statuses = st.sampled_from([str(status) for status in Status])
noted_rows = st.lists(st.tuples(st.integers(0, 80), st.one_of(st.none(), statuses)), max_size=80)
ID, OTHER_ID = "d" * 64, "e" * 64


def _ledger(*noted: tuple[int, str | None], uri: str = "file:///a.pdf") -> Ledger:
    ledger = Ledger()
    ledger.note(uri, ID, noted)
    return ledger


def _pages(bits: dict[str, int]) -> dict[int, str]:
    """Bits by verdict as verdicts by page index."""
    return {n: said for said, each in bits.items() for n in range(each.bit_length()) if each >> n & 1}


@given(noted_rows, st.lists(st.integers(0, 80)), st.integers(0, 90))
def test_only_the_last_row_of_a_page_counts_however_the_rows_came_in_parts(
    noted: list[tuple[int, str | None]], cuts: list[int], page_count: int
):
    ledger, edges = Ledger(), [0, *sorted(cuts), len(noted)]
    for start, stop in pairwise(edges):
        ledger.note("file:///a.pdf", ID, noted[start:stop])
    last = {index: status for index, status in dict(noted).items() if status and index < page_count}
    document = a_document(page_count=page_count)
    assert _pages(ledger.pages(document)) == last
    assert sum(count(ledger.pages(document)).values()) == len(last)
    assert union(ledger.pages(document)) == sum(1 << index for index in last)
    assert _pages(ledger.elsewhere(a_document("file:///b.pdf", page_count))) == last
    assert ledger.elsewhere(document) == {}


@given(st.sets(st.integers(0, 69)), st.integers(0, 70), st.integers(1, 20))
def test_what_is_missing_is_exactly_the_pages_that_are_not_done(done: set[int], page_count: int, chunk: int):
    runs = list(missing(sum(1 << index for index in done), page_count, chunk))
    assert [index for run in runs for index in run] == [i for i in range(page_count) if i not in done]
    assert all(1 <= len(run) <= chunk for run in runs)
    assert all(one.stop < other.start or len(one) == chunk for one, other in pairwise(runs))


def _remaining(ledger: Ledger, document: Document) -> list[int]:
    runs = missing(union(ledger.pages(document)), document.page_count or 0, 9)
    return [index for run in runs for index in run]


def test_rows_of_another_document_or_of_other_bytes_count_for_nothing():
    ledger = _ledger((0, "ok"))
    assert _remaining(ledger, a_document(page_count=1)) == []
    assert _remaining(ledger, a_document(page_count=1, document_id=OTHER_ID)) == [0]
    assert _remaining(ledger, a_document("file:///b.pdf")) == [0]
    assert ledger.pages(a_document("file:///b.pdf")) == {}
    assert ledger.elsewhere(a_document("file:///b.pdf", document_id=OTHER_ID)) == {}


def test_pages_of_the_same_bytes_at_another_uri_are_told_apart_from_the_own_ones():
    ledger = _ledger((0, "ok"), (1, "failed"), (2, "ok"))
    ledger.note("file:///b.pdf", ID, [(2, "ok")])
    b = a_document("file:///b.pdf", 4)
    assert _pages(ledger.pages(b)) == {2: "ok"}
    assert _pages(ledger.elsewhere(b)) == {0: "ok", 1: "failed"}
    assert ledger.elsewhere(a_document(page_count=4)) == {}


def test_parts_that_hold_rows_of_some_bytes_are_known_once_each_and_in_order():
    ledger = _ledger((0, "ok"))
    for part in (0, 2, 0, 5):
        ledger.place(ID, part)
    assert ledger.parts_of(ID) == (0, 2, 5)
    assert ledger.parts_of(OTHER_ID) == ()


def test_a_document_finished_in_this_run_can_be_copied_like_one_of_an_earlier_run():
    ledger = Ledger()
    ledger.place(ID, 3)
    ledger.finish(a_document(page_count=100), {"ok": (1 << 99) - 1, "failed": 1 << 99, "blank": 0})
    found = _pages(ledger.elsewhere(a_document("file:///b.pdf", 100)))
    assert found == {**dict.fromkeys(range(99), "ok"), 99: "failed"}
    assert ledger.parts_of(ID) == (3,)


def test_a_document_that_could_not_be_opened_is_known_by_its_bytes():
    ledger = Ledger()
    ledger.note_unopened("file:///a.pdf", ID, "failed", "encrypted")
    assert ledger.unopened(a_document()) == ("failed", "encrypted")
    assert ledger.unopened(a_document(document_id=OTHER_ID)) is None
    assert ledger.unopened(a_document(document_id=None)) is None
    assert _remaining(ledger, a_document(page_count=2)) == [0, 1]
    ledger.note_unopened("file:///a.pdf", ID, None)
    assert ledger.unopened(a_document()) is None


def test_a_source_is_done_if_its_file_is_as_it_was_and_all_its_rows_are_there():
    ledger, source = _ledger((0, "ok"), (1, "failed")), Source("file:///a.pdf", etag="etag")
    assert ledger.done(source) is None, "nothing was told of it"
    ledger.tell(a_document(page_count=3))
    assert ledger.done(source) is None, "one page is missing"
    ledger.tell(a_document(page_count=2))
    assert ledger.done(source) == Done(pages=2, failed=1)
    assert ledger.is_told(a_document(page_count=2))
    assert ledger.done(Source("file:///a.pdf", etag="another")) is None
    assert ledger.done(Source("file:///a.pdf")) is None, "not without a look at the file"
    ledger.tell(a_document(page_count=3))
    assert ledger.done(source) is None, "the latest row counts"


def test_a_source_that_could_not_be_opened_is_done_if_its_file_is_as_it_was():
    ledger, source = Ledger(), Source("file:///a.pdf", etag="etag")
    ledger.tell(a_document(page_count=None))
    assert ledger.done(source) is None
    for status, failed in (("failed", 1), ("skipped", 0)):
        ledger.note_unopened("file:///a.pdf", ID, status, "encrypted")
        ledger.tell(a_document(page_count=None))
        assert ledger.done(source) == Done(pages=1, failed=failed)


def _put(store: Store, number: int, results: list[PageResult], fingerprint: str = KEYS.config_fingerprint) -> None:
    keys = RunKeys("run", fingerprint, NOON, KEYS.engine)
    store.put_new(part_key("pages", keys, number), encode("pages", [page_row(keys, result) for result in results]))


def test_a_document_refused_for_something_that_may_have_changed_is_looked_at_again_and_still_known():
    ledger = Ledger(look_again=frozenset({"encrypted"}))
    for uri, code in (("file:///a", "encrypted"), ("file:///b", "no_pages")):
        ledger.note_unopened(uri, ID, str(Status.FAILED), code)
        ledger.tell(a_document(uri, None, ID))
    assert ledger.done(Source("file:///a", etag="etag")) is None
    assert ledger.done(Source("file:///b", etag="etag")) == Done(1, 1)
    assert ledger.unopened(a_document("file:///a", None, ID)) == ("failed", "encrypted")


def test_pages_that_were_left_out_count_only_while_they_are_not_asked_for():
    rows = [(0, "ok"), (1, "skipped:not_selected"), (2, "skipped:not_selected"), (3, "skipped:no_text_layer")]
    ledger = Ledger(Selection(((1, 2),)))
    ledger.note("file:///a.pdf", ID, rows)
    document, other = a_document(page_count=4), a_document("file:///b.pdf", page_count=4)
    counted = {0: "ok", 2: "skipped:not_selected", 3: "skipped:no_text_layer"}
    assert _pages(ledger.pages(document)) == counted
    assert _pages(ledger.elsewhere(other)) == counted
    ledger.tell(document)
    assert ledger.done(Source("file:///a.pdf", etag="etag")) is None
    ledger.selection = Selection(((1, 1),))
    ledger.tell(document)
    assert ledger.done(Source("file:///a.pdf", etag="etag")) == Done(4, 0)


def test_a_ledger_is_read_from_the_rows_of_the_same_configuration(tmp_path: Path):
    store = Store.open(str(tmp_path))
    failed = PageResult(a_document(page_count=None), None, Status.FAILED, failure=a_failure())
    gone = PageResult(
        a_document("file:///gone.pdf", None, None), None, Status.FAILED, failure=a_failure(ErrorCode.NOT_FOUND)
    )
    _put(store, 0, [a_result(0), a_result(2), a_result(2, uri="file:///b.pdf")])
    _put(store, 1, [failed, gone])
    _put(store, 2, [a_result(1)], fingerprint="another one")
    rows = [document_row(KEYS, a_document("file:///b.pdf", count), {}, None) for count in (3, 1)]
    store.put_new(part_key("documents", KEYS, 0), encode("documents", rows))
    ledger = Ledger.read(store, KEYS.config_fingerprint)
    assert _remaining(ledger, a_document(page_count=4)) == [1, 3]
    assert count(ledger.pages(a_document(page_count=4))) == {"ok": 2}
    assert ledger.unopened(a_document()) == ("failed", "broken_page")
    assert ledger.unopened(gone.document) == ("failed", "not_found")
    assert ledger.parts == [part_key("pages", RunKeys("run", "", NOON, KEYS.engine), n) for n in range(3)]
    assert ledger.parts_of(ID) == (0,)
    assert not ledger.is_told(a_document("file:///b.pdf"))


def test_pages_are_counted_by_status_and_by_code():
    bits = {"ok": 0b1, "failed:broken_page": 0b110, "failed:engine_error": 0b1000, "skipped": 0, "failed": 0b10000}
    assert count(bits) == {"ok": 1, "failed": 4}
    assert count_codes(bits) == {"broken_page": 2, "engine_error": 1}
    assert verdict("failed", "broken_page") == "failed:broken_page"
    assert verdict("ok", None) == "ok"


def test_an_empty_output_has_an_empty_ledger(tmp_path: Path):
    ledger = Ledger.read(Store.open(str(tmp_path / "new")), "any")
    assert _remaining(ledger, a_document(page_count=3)) == [0, 1, 2]


def test_a_page_that_failed_and_was_read_later_counts_as_read(tmp_path: Path):
    store = Store.open(str(tmp_path))
    _put(store, 0, [PageResult(a_document(), a_page(), Status.FAILED, failure=a_failure())])
    _put(store, 1, [a_result(0)])
    assert count(Ledger.read(store, KEYS.config_fingerprint).pages(a_document())) == {"ok": 1}


@pytest.mark.parametrize("code", ["not_found", "unreadable", "document_changed"])
def test_what_is_no_fault_of_the_page_is_tried_again_by_itself(code: str, tmp_path: Path):
    store, gone = Store.open(str(tmp_path)), a_document("file:///gone.pdf", None, None)
    failure = a_failure(ErrorCode(code))
    _put(store, 0, [PageResult(a_document(), a_page(), Status.FAILED, failure=failure)])
    _put(store, 1, [PageResult(gone, None, Status.FAILED, failure=failure)])
    ledger = Ledger.read(store, KEYS.config_fingerprint)
    assert _remaining(ledger, a_document(page_count=1)) == [0]
    assert ledger.unopened(gone) == ("failed", code), "looked at again anyway, but not told again"


def test_what_is_kept_of_a_document_does_not_grow_with_its_text(tmp_path: Path):
    """Only the key columns of a part are fetched: the rest of the file is not even read."""
    store, text = Store.open(str(tmp_path)), random.Random(1).randbytes(4_000_000).hex()
    _put(store, 0, [a_result(index, text[index * 80_000 :][:80_000]) for index in range(100)])
    size = (tmp_path / part_key("pages", RunKeys("run", "", NOON, KEYS.engine), 0)).stat().st_size
    assert size > 2_000_000
    fetched: list[int] = []

    class Counted(ObjectReader):
        def read(self, size: int = -1) -> bytes:
            data = super().read(size)
            fetched.append(len(data))
            return data

    counting = Mock(wraps=store, open_object=lambda key: Counted(*_made_of(store.open_object(key))))
    assert count(Ledger.read(counting, KEYS.config_fingerprint).pages(a_document(page_count=100))) == {"ok": 100}
    assert sum(fetched) < size / 10


def _made_of(reader: ObjectReader) -> tuple[Any, str, int]:
    return reader._objects, reader._key, reader._size


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
    assert _remaining(ledger, document) == remaining
    assert ledger.unopened(locked) == ((unopened, "encrypted") if unopened else None)
