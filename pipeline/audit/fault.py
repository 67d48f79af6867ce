"""Fault: one thing that is wrong with an output: a code, where, what, and what to do about it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FaultCode(StrEnum):
    """Every kind of fault that `pagemill verify` tells, the graver ones first."""

    DAMAGED_PART = "damaged_part"  #: a part cannot be decoded, or holds invalid values
    MISSING_PART = "missing_part"  #: the numbers of a run's parts have a gap
    WRONG_SCHEMA = "wrong_schema"  #: a part's columns are not those of its table
    ORPHAN_FILE = "orphan_file"  #: a file in a table's folder that is no part
    WRONG_RUN_ID = "wrong_run_id"  #: rows of another run than the file's name says
    BROKEN_ROW = "broken_row"  #: a row contradicts itself
    BOX_OUTSIDE = "box_outside"  #: a line's box is not within the page's raster
    DUPLICATE_ROW = "duplicate_row"  #: a page or a document has a row too many
    PAGE_COUNT = "page_count"  #: the rows of a document do not agree on how many pages it has
    RUN_TOTALS = "run_totals"  #: the rows of a run are not as many as its totals say
    ORPHAN_BATCH = "orphan_batch"  #: pages name a batch that is not in `batches`
    BATCH_SIZE = "batch_size"  #: a batch has another number of pages than it says
    LOST_PAGES = "lost_pages"  #: a row in `documents`, and not all of its pages
    DOCUMENT_COUNTS = "document_counts"  #: a row in `documents` counts other statuses than `pages` has
    NO_DOCUMENT_ROW = "no_document_row"  #: all pages are there, and no row in `documents`
    NO_FINISHED_RUN = "no_finished_run"  #: so what the inputs were is not known
    UNREAD = "unread"  #: an input without rows
    INCOMPLETE = "incomplete"  #: an input of which some pages have no row
    CHANGED = "changed"  #: an input with other content than was read


_AGAIN = "run the same command again"
_REDO = f"delete OUT/*/*/RUN-*.parquet of this run, then {_AGAIN}"
_FORGET = f"{_AGAIN}, then delete OUT/runs/*/RUN-*.parquet of this run: its totals hold no more"

REMEDIES: dict[FaultCode, str] = {
    FaultCode.DAMAGED_PART: _REDO,
    FaultCode.MISSING_PART: _REDO,
    FaultCode.WRONG_SCHEMA: "written by another version, or altered: keep such outputs apart",
    FaultCode.ORPHAN_FILE: "not written by Pagemill, or left by a killed run: delete it",
    FaultCode.WRONG_RUN_ID: _REDO,
    FaultCode.BROKEN_ROW: _REDO,
    FaultCode.DUPLICATE_ROW: _REDO,
    FaultCode.RUN_TOTALS: _FORGET,
    FaultCode.ORPHAN_BATCH: _FORGET,
    FaultCode.BATCH_SIZE: _FORGET,
    FaultCode.LOST_PAGES: _AGAIN,
    FaultCode.DOCUMENT_COUNTS: _AGAIN,
    FaultCode.NO_DOCUMENT_ROW: _AGAIN,
    FaultCode.NO_FINISHED_RUN: "name them after OUT, or let a run finish",
    FaultCode.UNREAD: _AGAIN,
    FaultCode.INCOMPLETE: _AGAIN,
    FaultCode.CHANGED: f"{_AGAIN}, with --rehash if its time of change is the same",
}
"""What to do about a fault, where there is something to be done."""

PART_REMEDIES: dict[str, str] = {
    "documents": f"delete OUT/documents/*/RUN-*.parquet of this run, then {_AGAIN}: no page is read twice",
    "batches": f"delete OUT/batches/*/RUN-*.parquet and OUT/runs/*/RUN-*.parquet of this run, then {_AGAIN}: no page "
    "is read twice, and the figures of this run are lost",
    "runs": f"delete it, then {_AGAIN}: no page is read twice, and the figures of this run are lost",
}
"""What to do about a part of these tables that is damaged or missing: less than where pages are lost."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`where` is a URI (`#page=` counts from one, as viewers do), a key below the output, or a run."""

    code: FaultCode
    where: str
    message: str
    table: str | None = None

    @property
    def remedy(self) -> str | None:
        """What to do, if anything can be done."""
        whole = REMEDIES.get(self.code)
        return PART_REMEDIES.get(self.table or "", whole) if whole == _REDO else whole


def page_of(uri: str, page_index: int | None) -> str:
    """Where a page is: the document's URI, and the page counted from one if there is one."""
    return uri if page_index is None else f"{uri}#page={page_index + 1}"
