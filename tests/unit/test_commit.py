"""Committing: whole parts, pages before what follows from them, in time, under names that are known before."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.commit import CommitLimits, Committer
from pipeline.errors import StorageError
from pipeline.ledger import Ledger
from pipeline.parquet import part_key, read_columns
from pipeline.result import Line, PageResult, Recognition, Status
from pipeline.store import ObjectReader, Store
from pipeline.task import Copy, FinishedDocument, Ready

from .samples import KEYS, NOON, a_document, a_failure, a_page, a_report, a_result

LARGE = CommitLimits(max_pages=10**9, max_seconds=1e9, max_bytes=1 << 40)


@dataclass(slots=True)
class Clock:
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


@dataclass(slots=True)
class Watched:
    """A store that keeps the order in which parts came, and fails from a given part on."""

    store: Store
    put: list[str] = field(default_factory=list)
    fails_at: str = "never"

    def put_new(self, key: str, data: bytes) -> bool:
        if key.startswith(self.fails_at):
            raise StorageError(f"{key} could not be written: disk full")
        self.put.append(key)
        return self.store.put_new(key, data)

    def open_object(self, key: str) -> ObjectReader:
        return self.store.open_object(key)


def _committer(
    tmp_path: Path, limits: CommitLimits = LARGE, fails_at: str = "never"
) -> tuple[Committer, Watched, Clock]:
    watched, clock = Watched(Store.open(str(tmp_path)), fails_at=fails_at), Clock()
    return Committer(watched, KEYS, limits, clock, lambda: NOON), watched, clock  # type: ignore[arg-type]


def _pages(*indices: int, text: str = "text") -> Ready:
    return Ready([a_result(index, text) for index in indices])


def _everything() -> Ready:
    return Ready([a_result()], [a_report()], [FinishedDocument(a_document(), {"ok": 1})])


def _rows(store: Store, table: str, *columns: str) -> list[tuple[Any, ...]]:
    return [row for part in read_columns(store, table, columns) for row in part]


def test_pages_are_put_before_the_documents_and_batches_that_follow_from_them(tmp_path: Path):
    committer, watched, _ = _committer(tmp_path)
    committer.take(_everything())
    committer.flush()
    assert [key.partition("/")[0] for key in watched.put] == ["pages", "documents", "batches"]


def test_documents_are_not_put_when_their_pages_could_not_be(tmp_path: Path):
    committer, watched, _ = _committer(tmp_path, fails_at="pages")
    committer.take(_everything())
    with pytest.raises(StorageError, match="disk full"):
        committer.flush()
    assert watched.put == []
    assert committer.num_committed == 0


def test_a_part_that_cannot_be_put_since_the_output_is_gone_is_told_as_that(tmp_path: Path):
    asked = []

    def may_commit() -> None:
        asked.append(1)
        if len(asked) > 1:
            raise StorageError("the output was removed")

    committer, _, _ = _committer(tmp_path, fails_at="pages/")
    committer.may_commit = may_commit
    committer.take(_pages(0))
    with pytest.raises(StorageError, match="was removed"):
        committer.flush()


def test_names_of_parts_are_known_before_and_count_up(tmp_path: Path):
    committer, watched, _ = _committer(tmp_path)
    for index in range(3):
        committer.take(_pages(index))
        committer.flush()
    assert watched.put == [part_key("pages", KEYS, number) for number in range(3)]
    assert committer.num_committed == 3


def test_nothing_is_put_without_rows(tmp_path: Path):
    committer, watched, clock = _committer(tmp_path, replace(LARGE, max_seconds=1))
    committer.flush()
    clock.seconds = 100
    committer.take(Ready())
    assert watched.put == []


@pytest.mark.parametrize("limit", ["max_pages", "max_bytes"])
def test_a_part_is_put_as_soon_as_it_is_large(limit: str, tmp_path: Path):
    most = {"max_pages": 3, "max_bytes": 3 * (400 + 2 * len("text"))}[limit]
    committer, watched, _ = _committer(tmp_path, replace(LARGE, **{limit: most}))
    committer.take(_pages(0, 1))
    assert watched.put == []
    committer.take(_pages(2))
    assert len(watched.put) == 1
    committer.take(_pages(3, 4))
    assert len(watched.put) == 1


def test_a_part_is_put_as_soon_as_its_first_page_is_old(tmp_path: Path):
    committer, watched, clock = _committer(tmp_path, replace(LARGE, max_seconds=60))
    clock.seconds = 1000
    committer.take(_pages(0))
    clock.seconds = 1059
    committer.take(_pages(1))
    assert watched.put == []
    clock.seconds = 1060
    committer.take(Ready())
    assert len(watched.put) == 1
    clock.seconds = 1100
    committer.take(_pages(2))
    clock.seconds = 1159
    committer.take(Ready())
    assert len(watched.put) == 1, "the time counts from the first page of each part"


def test_text_and_lines_count_towards_the_size_of_a_part(tmp_path: Path):
    lines = (Line("x", (0, 0, 1, 1), 1.0),) * 100
    result = replace(a_result(), recognition=Recognition("", lines=lines))
    committer, watched, _ = _committer(tmp_path, replace(LARGE, max_bytes=4000))
    committer.take(Ready([result]))
    assert len(watched.put) == 1


def test_failures_are_rows_too(tmp_path: Path):
    failed = PageResult(a_document(page_count=None), None, Status.FAILED, failure=a_failure())
    committer, watched, _ = _committer(tmp_path)
    committer.take(Ready([failed], [], [FinishedDocument(failed.document, {"failed": 1}, "broken_page")]))
    committer.flush()
    assert _rows(watched.store, "pages", "status", "error_code") == [("failed", "broken_page")]
    assert _rows(watched.store, "documents", "pages_failed", "error_code") == [(1, "broken_page")]


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(0, 40), max_size=6), max_size=8), st.integers(1, 7))
def test_every_row_that_came_is_committed_once_and_parts_are_sorted(
    tmp_path_factory: pytest.TempPathFactory, groups: list[list[int]], max_pages: int
):
    committer, watched, _ = _committer(tmp_path_factory.mktemp("out"), replace(LARGE, max_pages=max_pages))
    for group in groups:
        committer.take(_pages(*group))
    committer.flush()
    came = [index for group in groups for index in group]
    parts = [[index for (index,) in part] for part in read_columns(watched.store, "pages", ("page_index",))]
    assert sorted(index for part in parts for index in part) == sorted(came)
    assert all(part == sorted(part) for part in parts)
    assert committer.num_committed == len(came)


def test_a_page_without_a_time_of_its_own_gets_that_of_its_commit(tmp_path: Path):
    committer, watched, _ = _committer(tmp_path)
    committer.take(_pages(0))
    committer.flush()
    assert _rows(watched.store, "pages", "finished_at") == [(NOON,)]


def _copy(uri: str, *indices: int, said: str = "ok", document_id: str = "d" * 64) -> Copy:
    bits = sum(1 << index for index in indices)
    return Copy(a_document(uri, max(indices) + 1, document_id), {said: bits})


def test_rows_are_copied_from_what_this_run_has_just_committed(tmp_path: Path):
    committer, watched, _ = _committer(tmp_path)
    committer.take(Ready([a_result(0, "first"), a_result(1, "second")], copies=[_copy("file:///b.pdf", 0, 1)]))
    committer.flush()
    columns = ("uri", "page_index", "text", "status", "document_id", "run_id", "batch_id", "attempts", "finished_at")
    assert _rows(watched.store, "pages", *columns) == [
        (f"file:///{name}.pdf", index, text, "ok", "d" * 64, KEYS.run_id, batch_id, attempts, NOON)
        for name, batch_id, attempts in (("a", "b" * 16, 1), ("b", None, 0))
        for index, text in enumerate(["first", "second"])
    ]
    assert committer.num_committed == 4
    committer.flush()
    assert len(watched.put) == 2, "a copy is made once"


def test_rows_are_copied_from_parts_of_earlier_runs_and_of_the_latest_that_says_so(tmp_path: Path):
    earlier, watched, _ = _committer(tmp_path)
    for ready in (Ready([a_result(0, "old")]), _pages(1), Ready([a_result(0, "new")])):
        earlier.take(ready)
        earlier.flush()
    failed = PageResult(a_document(page_count=1), a_page(), Status.FAILED, failure=a_failure())
    earlier.take(Ready([failed]))
    earlier.flush()
    ledger = Ledger.read(watched.store, KEYS.config_fingerprint)
    keys = replace(KEYS, run_id="later")
    committer = Committer(watched, keys, LARGE, Clock(), lambda: NOON, ledger=ledger)  # type: ignore[arg-type]
    copies = [
        _copy("file:///b.pdf", 0),
        _copy("file:///c.pdf", 1),
        _copy("file:///d.pdf", 0, said="failed:broken_page"),
    ]
    committer.take(Ready(copies=copies))
    committer.flush()
    rows = [row for row in _rows(watched.store, "pages", "run_id", "uri", "text", "error_code") if row[0] == "later"]
    assert rows == [
        ("later", "file:///b.pdf", "new", None),
        ("later", "file:///c.pdf", "text", None),
        ("later", "file:///d.pdf", None, "broken_page"),
    ]


def test_copies_count_towards_a_commit_like_rows(tmp_path: Path):
    committer, watched, clock = _committer(tmp_path, replace(LARGE, max_pages=4, max_seconds=60))
    committer.take(_pages(0))
    committer.take(Ready(copies=[_copy("file:///b.pdf", 0), _copy("file:///c.pdf", 0)]))
    assert watched.put == []
    committer.take(Ready(copies=[_copy("file:///d.pdf", 0)]))
    assert len(watched.put) == 2
    committer.take(Ready(copies=[_copy("file:///e.pdf", 0)]))
    clock.seconds = 61
    committer.take(Ready())
    assert len(_rows(watched.store, "pages", "uri")) == 5


def test_many_copies_are_made_some_at_a_time_and_all_of_them(tmp_path: Path):
    committer, watched, _ = _committer(tmp_path)
    ids = [f"{number:064x}" for number in range(30)]
    for number, document_id in enumerate(ids):
        document = a_document(f"file:///{number}.pdf", 200, document_id)
        pages = [replace(a_result(n, f"{number} {n}"), document=document, page=a_page(n)) for n in range(200)]
        copy = _copy(f"file:///copy {number}.pdf", *range(200), document_id=document_id)
        committer.take(Ready(pages, copies=[copy]))
    committer.flush()
    parts = [list(part) for part in read_columns(watched.store, "pages", ("uri", "text"))]
    assert len(parts[0]) == 6000
    assert all(len(part) <= 2200 for part in parts[1:])
    texts = sorted(text for part in parts[1:] for _, text in part)
    assert texts == sorted(text for _, text in parts[0])


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [({"max_bytes": 2 * (400 + 2 * 1000)}, [2, 2, 1]), ({"max_pages": 3}, [3, 2]), ({}, [5])],
    ids=["bytes", "pages", "none"],
)
def test_parts_of_copies_are_bounded_like_others(limits: dict[str, int], sizes: list[int], tmp_path: Path):
    first, watched, _ = _committer(tmp_path)
    first.take(_pages(*range(5), text="x" * 1000))
    first.flush()
    ledger = Ledger.read(watched.store, KEYS.config_fingerprint)
    later = replace(KEYS, run_id="later")
    bounds = replace(LARGE, **limits)
    committer = Committer(watched, later, bounds, Clock(), lambda: NOON, ledger=ledger)  # type: ignore[arg-type]
    committer.take(Ready(copies=[_copy("file:///b.pdf", *range(5))]))
    committer.flush()
    parts = [len(list(part)) for part in read_columns(watched.store, "pages", ("page_index",))]
    assert parts == [5, *sizes]


def test_a_row_to_copy_that_somebody_has_removed_ends_the_run_and_not_in_silence(tmp_path: Path):
    committer, watched, _ = _committer(tmp_path)
    committer.take(_pages(0))
    committer.flush()
    (tmp_path / watched.put[0]).unlink()
    committer.take(Ready(copies=[_copy("file:///b.pdf", 0)]))
    with pytest.raises(StorageError, match="could not be read"):
        committer.flush()
    committer.take(Ready(copies=[_copy("file:///b.pdf", 0, document_id="e" * 64)]))
    with pytest.raises(StorageError, match="a row that was committed is gone"):
        committer.flush()


def test_rows_of_documents_alone_are_committed_in_time_too(tmp_path: Path):
    committer, watched, clock = _committer(tmp_path, replace(LARGE, max_seconds=60))
    committer.take(Ready(documents=[FinishedDocument(a_document(), {"ok": 1})]))
    clock.seconds = 61
    committer.take(Ready())
    assert [key.partition("/")[0] for key in watched.put] == ["documents"]


def test_two_runs_of_the_same_id_are_noticed(tmp_path: Path):
    first, second = _committer(tmp_path)[0], _committer(tmp_path)[0]
    first.take(_pages(0))
    first.flush()
    second.take(_pages(1))
    with pytest.raises(StorageError, match="another run has the same id"):
        second.flush()


def test_the_row_of_the_run_is_put_on_its_own(tmp_path: Path):
    committer, watched, _ = _committer(tmp_path)
    columns = ("outcome", "config", "versions", "machine", "totals")
    committer.put_run(
        {
            "run_id": "r",
            "config_fingerprint": "f",
            "started_at": NOON,
            "finished_at": NOON,
            **dict.fromkeys(columns, "x"),
        }
    )
    assert watched.put == [part_key("runs", KEYS, 0)]
    assert _rows(watched.store, "runs", "run_id", "outcome") == [("r", "x")]
