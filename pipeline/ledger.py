"""What is already committed, and so what remains of a document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pipeline.document import Document
from pipeline.parquet import read_columns
from pipeline.result import Status
from pipeline.store import Store

_COLUMNS = ("uri", "document_id", "page_index", "status", "error_code", "config_fingerprint")


@dataclass(slots=True)
class Ledger:
    """Pages that have a row for this configuration: for each document and status, the bits of one integer."""

    _pages: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    _unopened: dict[tuple[str, str], str] = field(default_factory=dict)

    @classmethod
    def read(cls, store: Store, config_fingerprint: str, retry: frozenset[str] | None = frozenset()) -> Ledger:
        """Look through the committed parts; only the key columns are decoded.

        Args:
            store: The output.
            config_fingerprint: Rows of another configuration do not count.
            retry: Codes of failed rows that do not count either; None for all of them.

        Raises:
            StorageError: the output cannot be listed or read.
        """
        ledger = cls()
        for part in read_columns(store, "pages", _COLUMNS):
            for uri, document_id, page_index, status, code, fingerprint in part:
                if fingerprint != config_fingerprint or document_id is None:
                    continue
                if status == Status.FAILED and (retry is None or code in retry):
                    ledger.forget(uri, document_id, page_index)
                else:
                    ledger.add(uri, document_id, page_index, status)
        return ledger

    def add(self, uri: str, document_id: str, page_index: int | None, status: str) -> None:
        """Note one row; `page_index` is None for a document that could not be opened. A later row of a page counts."""
        if page_index is None:
            self._unopened[uri, document_id] = status
        else:
            by_status, bit = self._pages.setdefault((uri, document_id), {}), 1 << page_index
            for other in [other for other, bits in by_status.items() if bits & bit]:
                by_status[other] ^= bit
            by_status[status] = by_status.get(status, 0) | bit

    def forget(self, uri: str, document_id: str, page_index: int | None) -> None:
        """Let a page count as not done, whatever rows it has had so far."""
        if page_index is None:
            self._unopened.pop((uri, document_id), None)
            return
        by_status = self._pages.get((uri, document_id), {})
        for status in by_status:
            by_status[status] &= ~(1 << page_index)

    def status_unopened(self, document: Document) -> str | None:
        """The status of the row that says that this document, as it is now, could not be opened, if there is one."""
        return self._unopened.get((document.uri, document.document_id or ""))

    def statuses(self, document: Document) -> dict[str, int]:
        """How many pages of this document have a row, by status."""
        pages = (1 << (document.page_count or 0)) - 1
        return {
            status: (bits & pages).bit_count() for status, bits in self._by_status(document).items() if bits & pages
        }

    def remaining(self, document: Document, chunk: int) -> Iterator[range]:
        """Runs of pages without a row, zero-based, in order, none longer than `chunk`."""
        done = 0
        for bits in self._by_status(document).values():
            done |= bits
        page_count = document.page_count or 0
        start = None
        for index in range(page_count + 1):
            missing = index < page_count and not done >> index & 1
            if start is not None and (not missing or index - start == chunk):
                yield range(start, index)
                start = None
            if missing and start is None:
                start = index

    def _by_status(self, document: Document) -> dict[str, int]:
        return self._pages.get((document.uri, document.document_id or ""), {})
