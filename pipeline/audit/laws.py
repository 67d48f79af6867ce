"""The laws of single rows and of single runs. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.audit.fault import Fault, FaultCode
from pipeline.errors import ErrorCode
from pipeline.result import Status

MAX_PAGE_COUNT = 10_000_000
"""No document has more pages: a PDF of 32 bits cannot hold as many objects. More would cost memory to count."""

_SHA256 = re.compile("[0-9a-f]{64}")
_STATUSES = frozenset(str(status) for status in Status)
_CODES = frozenset(str(code) for code in ErrorCode)
_COMPLETE = ("done", "pages_failed")
_NUMBERS = ("pages", "pages_copied", "batches", "batched_pages")
_READ = (Status.OK, Status.TRUNCATED, Status.REPEATED)
_OUTCOMES = (*_COMPLETE, "interrupted", "unfinished", "out_of_time")


@dataclass(frozen=True, slots=True)
class PageRow:
    """What a row of `pages` says, but for its texts; the other fields are columns."""

    has_text: bool
    run_id: str | None
    config_fingerprint: str | None
    document_id: str | None
    uri: str | None
    page_index: int | None
    page_count: int | None
    status: str | None
    error_code: str | None
    batch_id: str | None
    attempts: int | None

    @property
    def is_placed(self) -> bool:
        """Whether the row says enough, and nothing absurd, about which page it is, so that it can be counted."""
        named = None not in (self.run_id, self.config_fingerprint, self.uri, self.status)
        return named and next(_faults_of_place(self), None) is None


def row_faults(row: PageRow) -> Iterator[str]:
    """What is wrong with one row of `pages`, taken alone."""
    for name in ("run_id", "config_fingerprint", "uri", "status"):
        if getattr(row, name) is None:
            yield f"{name} is null"
    if row.status is not None and row.status not in _STATUSES:
        yield f"status '{row.status}' is unknown"
    if row.status in (Status.FAILED, Status.SKIPPED):
        if row.error_code is None:
            yield f"status is {row.status} and there is no error_code"
        elif row.error_code not in _CODES:
            yield f"error_code '{row.error_code}' is unknown"
    if row.status in _READ and not row.has_text:
        yield f"status is {row.status} and there is no text"
    if row.status in _READ and row.error_code is not None:
        yield f"status is {row.status} and error_code is {row.error_code}"
    if row.document_id is not None and not _SHA256.fullmatch(row.document_id):
        yield f"document_id '{row.document_id}' is no SHA-256 in hex"
    yield from _faults_of_place(row)


def _faults_of_place(row: PageRow) -> Iterator[str]:
    index, count = row.page_index, row.page_count
    if (index is None) != (count is None):
        yield f"page_index is {_said(index)} and page_count is {_said(count)}"
    elif index is not None and count is not None and not 0 <= index < count:
        yield f"page_index {index} is none of {count} pages"
    elif count is not None and count > MAX_PAGE_COUNT:
        yield f"page_count {count} is more than any document has"
    if row.document_id is None and index is not None:
        yield "a page without document_id"


def _said(value: int | None) -> str:
    return "null" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class RunTotals:
    """Those of a run's totals that can be counted again; None for what an older version did not write."""

    pages: int | None = None
    pages_copied: int | None = None
    pages_by_status: Mapping[str, int] | None = None
    batches: int | None = None
    batched_pages: int | None = None


@dataclass(frozen=True, slots=True)
class RunRow:
    """What a row of `runs` says: of which configuration it was, and how it ended."""

    run_id: str
    config_fingerprint: str | None
    outcome: str | None
    totals: RunTotals
    overwrite: bool
    inputs: tuple[str, ...]
    exclude: tuple[str, ...]

    @property
    def ended_well(self) -> bool:
        """Whether the run came to its end, with or without failed pages."""
        return self.outcome in _COMPLETE

    @classmethod
    def of(cls, run_id: str, fingerprint: str | None, outcome: str | None, config: str, totals: str) -> RunRow:
        """Read the JSON of a row.

        Raises:
            ValueError: it is none, or not what a run writes; the message says which.
        """
        asked, counted = _object("config", config), _object("totals", totals)
        if outcome not in _OUTCOMES:
            raise ValueError(f"outcome '{outcome}' is unknown")
        numbers = {name: _number(name, counted.get(name)) for name in _NUMBERS}
        by_status = counted.get("pages_by_status")
        if by_status is not None and not isinstance(by_status, dict):
            raise ValueError("pages_by_status in totals is no object")
        return cls(
            run_id=run_id,
            config_fingerprint=fingerprint,
            outcome=outcome,
            totals=RunTotals(**numbers, pages_by_status=by_status),
            overwrite=bool(asked.get("overwrite", False)),
            inputs=_texts(asked.get("inputs")),
            exclude=_texts(asked.get("exclude")),
        )


def _object(name: str, text: Any) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{name} is no JSON object")
    return value


def _number(name: str, value: Any) -> int | None:
    if value is not None and type(value) is not int:
        raise ValueError(f"{name} in totals is no whole number")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


@dataclass(slots=True)
class RunCount:
    """What the rows of one run come to. `is_whole` turns false when some of them could not be read."""

    is_whole: bool = True
    pages: int = 0
    pages_copied: int = 0
    pages_by_status: Counter[str] = field(default_factory=Counter)
    batches: Counter[str] = field(default_factory=Counter)
    num_batches: int = 0
    pages_by_batch: Counter[str] = field(default_factory=Counter)
    unreported: Counter[str] = field(default_factory=Counter)

    def add_page(self, row: PageRow) -> None:
        """Count one row of `pages`."""
        self.pages += 1
        self.pages_copied += row.attempts == 0  # read under another name of the same bytes
        self.pages_by_status[row.status or ""] += 1
        if row.batch_id is not None:
            crashed = row.error_code == ErrorCode.ENGINE_CRASHED  # such a batch has never reported
            (self.unreported if crashed else self.pages_by_batch)[row.batch_id] += 1

    def add_batch(self, batch_id: str, batch_size: int) -> None:
        """Count one row of `batches`."""
        self.num_batches += 1
        self.batches[batch_id] += batch_size

    def faults(self, run: RunRow) -> Iterator[Fault]:
        """Where the rows do not come to what the run says of itself."""
        if not self.is_whole:
            return
        yield from self._faults_of_totals(run)
        # A run that could not write its last batches may have written their pages.
        without = sorted(self.pages_by_batch.keys() - self.batches.keys()) if run.outcome != "unfinished" else ()
        for batch_id in without:
            message = f"batch {batch_id} is not in batches; rows in pages that name it: {self.pages_by_batch[batch_id]}"
            yield Fault(FaultCode.ORPHAN_BATCH, f"run {run.run_id}", message)
        for batch_id, size in self.batches.items() if run.ended_well else ():
            found = self.pages_by_batch[batch_id] + self.unreported[batch_id]
            if found != size:
                message = f"batch {batch_id} is said to have {size} pages and has {found}"
                yield Fault(FaultCode.BATCH_SIZE, f"run {run.run_id}", message)

    def _faults_of_totals(self, run: RunRow) -> Iterator[Fault]:
        said, where = run.totals, f"run {run.run_id}"
        pairs = [
            ("rows in pages", said.pages, self.pages),
            ("copied rows in pages", said.pages_copied, self.pages_copied),
            ("rows in batches", said.batches, self.num_batches),
            ("pages in batches", said.batched_pages, self.batches.total()),
        ]
        if said.pages_by_status is not None:
            statuses = sorted({*said.pages_by_status, *self.pages_by_status})
            pairs += [
                (f"rows with status {status}", said.pages_by_status.get(status, 0), self.pages_by_status[status])
                for status in statuses
            ]
        for what, wanted, found in pairs:
            # A run whose last commit failed has counted pages that it could not write.
            too_few_is_told = run.outcome == "unfinished" and wanted is not None and found < wanted
            if wanted is not None and found != wanted and not too_few_is_told:
                yield Fault(FaultCode.RUN_TOTALS, where, f"{found} {what}; its totals say {wanted}")
