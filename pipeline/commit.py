"""Commit: what has been settled becomes parts of the tables, each put whole; pages first, then what follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pipeline.errors import StorageError
from pipeline.ledger import Ledger, union, verdict
from pipeline.parquet import encode, part_key, rows_of_documents
from pipeline.result import PageResult
from pipeline.store import Store
from pipeline.table import Row, RunKeys, batch_row, copied_row, document_row, page_row
from pipeline.task import Copy, Ready

_COPIED_AT_ONCE = 2000
"""Pages of which the rows are held in memory while they are copied."""


@dataclass(frozen=True, slots=True)
class CommitLimits:
    """A part is put as soon as one of these is reached."""

    max_pages: int
    max_seconds: float
    max_bytes: int


@dataclass(slots=True)
class Committer:
    """Gathers rows in memory and puts them as parts. `clock` gives seconds, `now` UTC time.

    `may_commit` is called before each commit and raises if this run may not write any more. The ledger is told
    which part holds which document, and asked for it when rows are to be copied.
    """

    store: Store
    keys: RunKeys
    limits: CommitLimits
    clock: Callable[[], float]
    now: Callable[[], datetime]
    may_commit: Callable[[], None] = lambda: None
    ledger: Ledger = field(default_factory=Ledger)
    num_committed: int = 0
    _rows: dict[str, list[Row]] = field(default_factory=lambda: {"pages": [], "documents": [], "batches": []})
    _copies: list[Copy] = field(default_factory=list)
    _num_copied: int = 0
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
        self._copies += ready.copies
        self._num_copied += sum(_num_pages(copy) for copy in ready.copies)
        if self._since is None and (self._rows["pages"] or self._rows["documents"] or self._copies):
            self._since = self.clock()
        if self._is_due():
            self.flush()

    def flush(self) -> None:
        """Commit all that has come in.

        Raises:
            StorageError: a part could not be put.
        """
        self.may_commit()
        try:
            self._put_pages(self._num_bytes)
            self._put_copies()
            self._put("documents")
            self._put("batches")
        except StorageError:
            self.may_commit()  # an output that was taken over or moved away meanwhile is the better reason
            raise
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
        num_pages = max(len(self._rows["pages"]) + self._num_copied, len(self._rows["documents"]))
        many = num_pages >= limits.max_pages or self._num_bytes >= limits.max_bytes
        return many or self.clock() - self._since >= limits.max_seconds

    def _put_pages(self, num_bytes: int | None) -> None:
        pages = self._rows["pages"]
        pages.sort(key=lambda row: (row["uri"], -1 if row["page_index"] is None else row["page_index"]))
        document_ids = {row["document_id"] for row in pages if row["page_index"] is not None}
        num_pages = len(pages)
        if key := self._put("pages", num_bytes):
            self.num_committed += num_pages
            self.ledger.parts.append(key)
            for document_id in document_ids:
                self.ledger.place(document_id, len(self.ledger.parts) - 1)

    def _put_copies(self) -> None:
        """Copy what is to be copied, some documents of the same parts at a time: whole rows are held meanwhile."""
        waiting = sorted(self._copies, key=lambda copy: self.ledger.parts_of(copy.document.document_id or ""))
        self._copies, self._num_copied = [], 0
        some: list[Copy] = []
        for number, copy in enumerate(waiting, start=1):
            some.append(copy)
            if sum(map(_num_pages, some)) >= _COPIED_AT_ONCE or number == len(waiting):
                for rows in _bounded(self._copied(some), self.limits):
                    self._rows["pages"] = rows
                    self._put_pages(None)
                some = []

    def _copied(self, copies: Sequence[Copy]) -> list[Row]:
        """The rows of these copies.

        Raises:
            StorageError: a row that was committed is there no more.
        """
        wanted = {copy.document.document_id or "" for copy in copies}
        originals: dict[tuple[str, int, str], Row] = {}
        for part in sorted({part for document_id in wanted for part in self.ledger.parts_of(document_id)}):
            for row in rows_of_documents(self.store, self.ledger.parts[part], wanted, self.keys.config_fingerprint):
                said = verdict(row["status"], row["error_code"])
                originals[row["document_id"], row["page_index"], said] = row
        try:
            return [
                copied_row(
                    self.keys, originals[copy.document.document_id or "", index, said], copy.document.uri, self.now()
                )
                for copy in copies
                for said, bits in copy.bits.items()
                for index in range(bits.bit_length())
                if bits >> index & 1
            ]
        except KeyError as error:
            raise StorageError(f"a row that was committed is gone from the output: {error}") from error

    def _put(self, table: str, num_bytes: int | None = None) -> str | None:
        """Put the rows that have come for a table as its next part, if there are any: its key."""
        rows = self._rows[table]
        if not rows:
            return None
        number = self._parts.get(table, 0)
        key = part_key(table, self.keys, number)
        if not self.store.put_new(key, encode(table, rows, num_bytes)):
            raise StorageError(f"{key} is there already: another run has the same id")
        self._parts[table] = number + 1
        rows.clear()
        return key


def _size(result: PageResult) -> int:
    """About how many bytes a row holds before compression."""
    recognition = result.recognition
    return _row_bytes(recognition.text, recognition.lines) if recognition else _row_bytes(None, None)


def _row_bytes(text: str | None, lines: Sequence[object] | None) -> int:
    return 400 + 2 * len(text or "") + 40 * len(lines or ())


def _bounded(rows: list[Row], limits: CommitLimits) -> Iterator[list[Row]]:
    """The rows in lists, each ended as soon as it reaches a limit."""
    some: list[Row] = []
    num_bytes = 0
    for row in rows:
        some.append(row)
        num_bytes += _row_bytes(row["text"], row["lines"])
        if num_bytes >= limits.max_bytes or len(some) >= limits.max_pages:
            yield some
            some, num_bytes = [], 0
    if some:
        yield some


def _num_pages(copy: Copy) -> int:
    return union(copy.bits).bit_count()
