"""What is already committed, and so what remains of a document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pipeline.document import Document
from pipeline.parquet import read_columns
from pipeline.store import Store

_COLUMNS = ("uri", "document_id", "page_index", "config_fingerprint")


@dataclass(slots=True)
class Ledger:
    """Pages that have a row for this configuration. Pages of a document are the bits of one integer."""

    _pages: dict[tuple[str, str], int] = field(default_factory=dict)
    _unopened: set[tuple[str, str]] = field(default_factory=set)

    @classmethod
    def read(cls, store: Store, config_fingerprint: str) -> Ledger:
        """Look through the committed parts; only the key columns are decoded.

        Raises:
            StorageError: the output cannot be listed or read.
        """
        ledger = cls()
        for part in read_columns(store, "pages", _COLUMNS):
            for uri, document_id, page_index, fingerprint in part:
                if fingerprint == config_fingerprint and document_id is not None:
                    ledger.add(uri, document_id, page_index)
        return ledger

    def add(self, uri: str, document_id: str, page_index: int | None) -> None:
        """Note one row; `page_index` is None for a document that could not be opened."""
        if page_index is None:
            self._unopened.add((uri, document_id))
        else:
            self._pages[uri, document_id] = self._pages.get((uri, document_id), 0) | 1 << page_index

    def num_done(self, document: Document) -> int:
        """How many pages of a document have a row; for one that could not be opened 1 or 0."""
        key = (document.uri, document.document_id or "")
        if document.page_count is None:
            return int(key in self._unopened)
        return (self._pages.get(key, 0) & (1 << document.page_count) - 1).bit_count()

    def remaining(self, document: Document, chunk: int) -> Iterator[range]:
        """Runs of pages without a row, zero-based, in order, none longer than `chunk`."""
        done = self._pages.get((document.uri, document.document_id or ""), 0)
        start = None
        for index in range((document.page_count or 0) + 1):
            missing = index < (document.page_count or 0) and not done >> index & 1
            if start is not None and (not missing or index - start == chunk):
                yield range(start, index)
                start = None
            if missing and start is None:
                start = index
