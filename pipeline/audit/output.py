"""Read an output run by run and part by part, and gather its faults; one part is in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pipeline.audit.documents import DocumentBook, DocumentRow, RunInOrder
from pipeline.audit.fault import Fault, FaultCode, page_of
from pipeline.audit.laws import PageRow, RunCount, RunRow, row_faults
from pipeline.errors import ErrorCode, StorageError
from pipeline.journal import superseded, trimmed_runs
from pipeline.parquet import read_part
from pipeline.part import Part, PartName
from pipeline.result import Status, one_line
from pipeline.store import Store
from pipeline.table import SCHEMAS

BOX_TOLERANCE_PX = 8.0
"""How far a line's box may reach over the edge of the raster: detectors draw around the ink with some room."""

_PAGE_COLUMNS = (
    *("run_id", "config_fingerprint", "document_id", "uri", "page_index", "page_count"),
    *("status", "error_code", "batch_id", "attempts"),
)
_BOX_COLUMNS = ("lines", "width_px", "height_px")
_STATUSES = tuple(sorted(str(status) for status in Status))
_DOCUMENT_COLUMNS = (
    *("run_id", "uri", "document_id", "config_fingerprint", "page_count", "size_bytes", "etag"),
    "error_code",
    *(f"pages_{status}" for status in _STATUSES),
)
_RUN_COLUMNS = ("run_id", "outcome", "config", "totals")


@dataclass(slots=True)
class Audit:
    """What an output holds, and what is wrong with it; `runs` are the finished ones, oldest first."""

    store: Store
    run_under_way: str | None = None
    faults: list[Fault] = field(default_factory=list)
    documents: DocumentBook = field(default_factory=DocumentBook)
    runs: list[RunRow] = field(default_factory=list)
    num_parts: int = 0
    num_rows: int = 0
    num_unfinished_runs: int = 0
    _parts: dict[str, dict[str, list[PartName]]] = field(default_factory=dict)
    _counts: dict[str, RunCount] = field(default_factory=dict)
    _number_under_way: int | None = None
    _merged: dict[str, tuple[PartName, Part | None]] = field(default_factory=dict)

    @classmethod
    def of(cls, store: Store, run_under_way: str | None) -> Audit:
        """Look through an output. What `run_under_way` has not written yet is no fault.

        Raises:
            StorageError: the output cannot be listed, or a part not be fetched.
        """
        audit = cls(store, run_under_way)
        audit._list()
        finished = audit._read_runs()
        fingerprint = ""
        for number, run_id in enumerate(sorted(audit._parts, key=audit._age)):
            run = finished.get(run_id)
            audit._read_run(RunInOrder(number, run is None or run.overwrite), run_id, run)
            if run is not None:
                fingerprint = run.config_fingerprint or fingerprint
            if run_id == run_under_way:
                audit._number_under_way = number
        audit.num_unfinished_runs = len(audit._parts.keys() - finished.keys())
        audit.documents.newest_fingerprint = fingerprint or audit.documents.newest_fingerprint
        audit.faults += audit.documents.faults(audit._number_under_way)
        return audit

    def _tell(self, code: FaultCode, where: str, message: str, table: str | None = None) -> None:
        self.faults.append(Fault(code, where, message, table))

    def _age(self, run_id: str) -> tuple[str, str]:
        """Where a run stands among all: in the order of the keys of its parts."""
        return min(name.run_date for names in self._parts[run_id].values() for name in names), run_id

    # files

    def _list(self) -> None:
        """Find all parts, tables that are written last first: so a run that goes on leaves nothing half seen."""
        keys = {table: self.store.names(table) for table in reversed(SCHEMAS)}
        passed_over = superseded(self.store, {key for listed in keys.values() for key in listed})
        for table, listed in keys.items():
            for key in listed:
                name = PartName.of_key(key)
                if key in passed_over:
                    continue
                if name is not None:
                    self.num_parts += 1
                    for run_id in self._runs_in(name):
                        self._parts.setdefault(run_id, {}).setdefault(table, []).append(name)
                elif self.run_under_way is None or f"/{self.run_under_way}-" not in key:
                    said = one_line(key.encode("utf-8", "backslashreplace").decode())
                    self._tell(FaultCode.ORPHAN_FILE, said, "no part of this table")
        trimmed = trimmed_runs(self.store)
        for run_id, tables in self._parts.items():
            self._counts[run_id] = RunCount(is_whole=run_id not in trimmed)
            for table, names in tables.items():
                if not any(name.is_merged for name in names):  # a part that took the place of others says no number
                    self._find_gaps(table, run_id, names)

    def _runs_in(self, name: PartName) -> Sequence[str]:
        """The runs that a part has rows of: for most that of its name alone."""
        if not name.is_merged:
            return (name.run_id,)
        try:
            found = {run_id for (run_id,) in read_part(self.store, name.key, ("run_id",)) if run_id is not None}
        except StorageError:
            found = set()  # it will be told when it is read
        return sorted(found | {name.newest_run})

    def _find_gaps(self, table: str, run_id: str, names: Sequence[PartName]) -> None:
        numbers = {name.number for name in names}
        gaps = sorted(set(range(max(numbers))) - numbers)
        doubled = len(names) - len(numbers)
        if gaps and run_id != self.run_under_way:
            self._counts[run_id].is_whole = False
            listed = ", ".join(f"{number:05d}" for number in gaps[:5]) + (", ..." if len(gaps) > 5 else "")
            self._tell(
                FaultCode.MISSING_PART, f"{table} of run {run_id}", f"no part {listed} of {max(numbers) + 1}", table
            )
        if doubled:
            self._tell(FaultCode.ORPHAN_FILE, f"{table} of run {run_id}", f"{doubled} parts under two dates")

    def _open(self, name: PartName, columns: Sequence[str], run_id: str) -> Part | None:
        """The rows of a run in a part; None if the part cannot be used. Of merged ones the last is kept, by table."""
        if not name.is_merged:
            part = self._decoded(name, columns)
        else:
            if self._merged.get(name.table, (None, None))[0] != name:
                self._merged[name.table] = name, self._decoded(name, columns)
            part = self._merged[name.table][1]
            part = part.of_run(run_id) if part is not None else None
        if part is None:
            self._counts[run_id].is_whole = False
        else:
            self.num_rows += part.num_rows
        return part

    def _decoded(self, name: PartName, columns: Sequence[str]) -> Part | None:
        """A part with these columns, its faults as a file told; None if its rows cannot be used."""
        data = self.store.get(name.key)
        try:
            part = Part.decode(name, data)
        except StorageError:
            self._tell(FaultCode.DAMAGED_PART, name.key, f"no Parquet in its {len(data)} bytes", name.table)
            return None
        difference, damage = part.schema_difference(), part.damage()
        if difference is not None:
            self._tell(FaultCode.WRONG_SCHEMA, name.key, difference)
        if damage is not None:
            self._tell(FaultCode.DAMAGED_PART, name.key, damage, name.table)
        if damage is not None or not part.has(columns):
            return None
        self._check_run_id(part)
        return part

    def _check_run_id(self, part: Part) -> None:
        newest, is_merged = part.name.newest_run, part.name.is_merged
        found = (run_id for (run_id,) in part.rows(("run_id",)) if run_id is not None)
        others = [run_id for run_id in found if (run_id > newest if is_merged else run_id != newest)]
        if others:
            message = f"{len(others)} of {part.num_rows} rows are of another run, such as {one_line(others[0])}"
            self._tell(FaultCode.WRONG_RUN_ID, part.name.key, message, part.name.table)

    # rows

    def _read_runs(self) -> dict[str, RunRow]:
        finished: dict[str, RunRow] = {}
        for run_id in sorted(self._parts, key=self._age):
            for name in self._parts[run_id].get("runs", ()):
                for row in self._run_rows(name, run_id):
                    if row.run_id in finished:
                        self._tell(FaultCode.DUPLICATE_ROW, f"run {row.run_id}", "two rows in runs", "runs")
                    finished[row.run_id] = row
        self.runs = list(finished.values())
        return finished

    def _run_rows(self, name: PartName, run_id: str) -> Iterator[RunRow]:
        part = self._open(name, _RUN_COLUMNS, run_id)
        if part is None:
            return
        known = part.has(("config_fingerprint",))
        fingerprints = part.rows(("config_fingerprint",)) if known else iter([(None,)] * part.num_rows)
        for (said, outcome, config, totals), (fingerprint,) in zip(part.rows(_RUN_COLUMNS), fingerprints, strict=True):
            try:
                yield RunRow.of(said or run_id, fingerprint, outcome, config, totals)
            except ValueError as error:
                self._tell(FaultCode.BROKEN_ROW, name.key, one_line(str(error)), "runs")

    def _read_run(self, order: RunInOrder, run_id: str, run: RunRow | None) -> None:
        """The rows of one run."""
        count, tables = self._counts[run_id], self._parts[run_id]
        for name in tables.get("batches", ()):
            self._read_batches(name, count, run_id)
        for name in tables.get("pages", ()):
            self._read_pages(name, count, order, run_id)
        if run is not None:
            self.faults += count.faults(run)
        for name in tables.get("documents", ()):
            self._read_documents(name, order, run_id)
        del self._counts[run_id]

    def _read_batches(self, name: PartName, count: RunCount, run_id: str) -> None:
        columns = ("run_id", "batch_id", "batch_size")
        part = self._open(name, columns, run_id)
        for number, (_, batch_id, batch_size) in enumerate(part.rows(columns) if part else ()):
            if batch_id is None or batch_size is None or batch_size < 1:
                self._tell(
                    FaultCode.BROKEN_ROW, f"{name.key} row {number}", "no batch_id, or no pages in it", "batches"
                )
            else:
                count.add_batch(batch_id, batch_size)

    def _read_pages(self, name: PartName, count: RunCount, order: RunInOrder, run_id: str) -> None:
        part = self._open(name, (*_PAGE_COLUMNS, "text"), run_id)
        if part is None:
            return
        uris: list[str] = []
        for number, (values, has_text) in enumerate(zip(part.rows(_PAGE_COLUMNS), part.has_value("text"), strict=True)):
            row = PageRow(has_text, *values)
            uris.append(page_of(row.uri or f"row {number}", row.page_index))
            for message in row_faults(row):
                self._tell(FaultCode.BROKEN_ROW, uris[-1], f"{one_line(message)} ({name.key} row {number})")
            count.add_page(row)
            if row.is_placed:
                self.faults += self.documents.add_page(row, order)
                self.documents.newest_fingerprint = row.config_fingerprint or ""
        for number in part.rows_with_boxes_outside(BOX_TOLERANCE_PX) if part.has(_BOX_COLUMNS) else ():
            message = f"a line's box is not within the page ({name.key} row {number})"
            self._tell(FaultCode.BOX_OUTSIDE, uris[number], message)

    def _read_documents(self, name: PartName, order: RunInOrder, run: str) -> None:
        part = self._open(name, _DOCUMENT_COLUMNS, run)
        for number, values in enumerate(part.rows(_DOCUMENT_COLUMNS) if part else ()):
            run_id, uri, document_id, fingerprint, page_count, size_bytes, etag, code, *counts = values
            if None in (run_id, uri, fingerprint):
                self._tell(
                    FaultCode.BROKEN_ROW, f"{name.key} row {number}", "run_id, uri or config_fingerprint is null"
                )
                continue
            if code == ErrorCode.VANISHED:
                self.documents.add_vanished(uri)
                continue
            counted = tuple((status, n) for status, n in zip(_STATUSES, counts, strict=True) if n)
            row = DocumentRow(uri, document_id, fingerprint, page_count, size_bytes, etag, counted)
            self.faults += self.documents.add_document(row, order, run_id)
