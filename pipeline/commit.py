"""Commit: what has been settled becomes parts of the tables, each put whole; pages first, then what follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from pipeline.errors import StorageError
from pipeline.parquet import Row, RunKeys, batch_row, document_row, encode, page_row, part_key
from pipeline.result import PageResult
from pipeline.store import Store
from pipeline.task import Ready


@dataclass(frozen=True, slots=True)
class CommitLimits:
    """A part is put as soon as one of these is reached."""

    max_pages: int
    max_seconds: float
    max_bytes: int


@dataclass(slots=True)
class Committer:
    """Gathers rows in memory and puts them as parts. `clock` gives seconds, `now` UTC time.

    `may_commit` is called before each commit and raises if this run may not write any more.
    """

    store: Store
    keys: RunKeys
    limits: CommitLimits
    clock: Callable[[], float]
    now: Callable[[], datetime]
    may_commit: Callable[[], None] = lambda: None
    num_committed: int = 0
    _rows: dict[str, list[Row]] = field(default_factory=lambda: {"pages": [], "documents": [], "batches": []})
    _num_bytes: int = 0
    _since: float | None = None
    _parts: dict[str, int] = field(default_factory=dict)

    def take(self, ready: Ready) -> None:
        """Add what was settled, and commit if it is time.

        Raises:
            StorageError: a part could not be put; its pages are not done.
        """
        for result in ready.results:
            row = page_row(self.keys, result)
            row["finished_at"] = row["finished_at"] or self.now()
            self._rows["pages"].append(row)
            self._num_bytes += _size(result)
        self._rows["batches"] += [batch_row(self.keys, report) for report in ready.reports]
        self._rows["documents"] += [
            document_row(self.keys, done.document, done.statuses, done.error_code) for done in ready.documents
        ]
        if self._since is None and self._rows["pages"]:
            self._since = self.clock()
        if self._is_due():
            self.flush()

    def flush(self) -> None:
        """Commit all that has come in.

        Raises:
            StorageError: a part could not be put.
        """
        self.may_commit()
        pages = self._rows["pages"]
        pages.sort(key=lambda row: (row["uri"], -1 if row["page_index"] is None else row["page_index"]))
        self._put("pages", self._num_bytes)
        self.num_committed += len(pages)
        self._put("documents")
        self._put("batches")
        for rows in self._rows.values():
            rows.clear()
        self._num_bytes, self._since = 0, None

    def put_run(self, row: Row) -> None:
        """Commit the row of the run itself.

        Raises:
            StorageError: it could not be put.
        """
        self._rows["runs"] = [row]
        self._put("runs")

    def _is_due(self) -> bool:
        if self._since is None:
            return False
        limits = self.limits
        many = len(self._rows["pages"]) >= limits.max_pages or self._num_bytes >= limits.max_bytes
        return many or self.clock() - self._since >= limits.max_seconds

    def _put(self, table: str, num_bytes: int | None = None) -> None:
        rows = self._rows[table]
        if not rows:
            return
        number = self._parts.get(table, 0)
        key = part_key(table, self.keys, number)
        if not self.store.put_new(key, encode(table, rows, num_bytes)):
            raise StorageError(f"{key} is there already: another run has the same id")
        self._parts[table] = number + 1


def _size(result: PageResult) -> int:
    """About how many bytes a row holds before compression."""
    recognition = result.recognition
    if recognition is None:
        return 400
    return 400 + 2 * len(recognition.text) + 40 * len(recognition.lines)
