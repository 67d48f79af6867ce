"""What the rows say of each document, kept in a few hundred bytes each, and the laws that span rows. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pipeline.audit.fault import Fault, FaultCode, page_of
from pipeline.audit.laws import PageRow
from pipeline.document import same_content
from pipeline.errors import ErrorCode
from pipeline.result import Status

_NOT_SEEN = frozenset({str(ErrorCode.NOT_FOUND), str(ErrorCode.UNREADABLE), str(ErrorCode.NOT_A_FILE)})
"""Codes of rows without `document_id` that say nothing of a file which can be read now."""


Counts = tuple[tuple[str, int], ...]
"""Statuses, sorted, and how many pages have each."""


@dataclass(frozen=True, slots=True)
class RunInOrder:
    """A run by its place in the order of parts; `may_repeat` if it may read again what was read before."""

    number: int
    may_repeat: bool


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """A row of `documents`; `counts` has the columns `pages_*` that are not zero, sorted by status."""

    uri: str
    document_id: str | None
    config_fingerprint: str
    page_count: int | None
    size_bytes: int | None
    etag: str | None
    counts: Counts


@dataclass(slots=True)
class _State:
    """One document under one configuration: the newest status of each page as bits of integers.

    In `seen`, what the newest run has told: bit 0 stands for the document itself, bit 1 for its first page.
    `row_counts` and what follows are from its newest row in `documents`, if it has one.
    """

    page_count: int | None = None
    statuses: dict[str, int] = field(default_factory=dict)
    unopened: str | None = None
    code: str | None = None
    run: int = -1
    seen: int = 0
    row_counts: Counts | None = None
    row_pages: int | None = None
    row_run: int = -1
    size_bytes: int | None = None
    etag: str | None = None

    @property
    def num_pages(self) -> int:
        """Pages with a row."""
        return sum(bits.bit_count() for bits in self.statuses.values())

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to be read."""
        return self.unopened is not None or (self.page_count is not None and self.num_pages == self.page_count)

    @property
    def is_empty(self) -> bool:
        """Whether there is no row in `pages`, only one in `documents`."""
        return self.run < 0

    def status_of(self, index: int | None) -> str | None:
        """The newest status of a page, or of the document itself."""
        if index is None:
            return self.unopened
        return next((status for status, bits in self.statuses.items() if bits >> index & 1), None)

    def put(self, row: PageRow) -> None:
        """Let a row be the newest of its page."""
        status = row.status or ""
        if row.page_index is None:
            self.unopened, self.code = status, row.error_code
            return
        self.unopened = self.code = None
        bit = 1 << row.page_index
        for other, bits in self.statuses.items():
            if bits & bit:
                self.statuses[other] ^= bit
        self.statuses[status] = self.statuses.get(status, 0) | bit
        self.page_count = self.page_count if self.page_count is not None else row.page_count

    def counts(self) -> Counts:
        """Pages by status, or the one row of a document that could not be opened."""
        if self.unopened is not None:
            return ((self.unopened, 1),)
        return tuple(sorted((status, bits.bit_count()) for status, bits in self.statuses.items() if bits))

    def faults(self, uri: str) -> Iterator[Fault]:
        """Where the newest row in `documents` does not agree with the newest rows of the pages."""
        counts, wanted = self.counts(), self.row_pages or 1
        found = sum(count for _, count in counts)
        if self.row_counts is None:
            if self.is_complete:
                yield Fault(FaultCode.NO_DOCUMENT_ROW, uri, "it is complete in pages and not in documents")
        elif found < wanted:
            message = f"finished by its row in documents, and {found} of {wanted} rows are in pages"
            yield Fault(FaultCode.LOST_PAGES, uri, message)
        elif counts != self.row_counts or found != wanted:
            message = f"its row in documents counts {_listed(self.row_counts)}; in pages there are {_listed(counts)}"
            yield Fault(FaultCode.DOCUMENT_COUNTS, uri, message)


@dataclass(slots=True)
class DocumentBook:
    """All documents by URI, and under it by content and configuration. Runs are to be told in order, pages first."""

    newest_fingerprint: str = ""
    _vanished: set[str] = field(default_factory=set)
    _documents: dict[str, dict[tuple[str | None, str], _State]] = field(default_factory=dict)
    _words: dict[str, str] = field(default_factory=dict)
    _shared: dict[Counts, Counts] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._documents)

    def __iter__(self) -> Iterator[str]:
        return iter(self._documents)

    def __contains__(self, uri: str) -> bool:
        return uri in self._documents

    def num_pages(self) -> int:
        """Pages with a row, under any configuration; rows of documents that could not be opened are none."""
        return sum(state.num_pages for states in self._documents.values() for state in states.values())

    def is_complete(self, uri: str) -> bool:
        """Whether some content of this document was read to the end under some configuration."""
        return any(state.is_complete for state in self._documents[uri].values())

    def add_page(self, row: PageRow, run: RunInOrder) -> Iterator[Fault]:
        """Note a row of `pages` that says which page it is, and tell if it is one too many."""
        uri, index, fingerprint = row.uri or "", row.page_index, row.config_fingerprint or ""
        self._vanished.discard(uri)
        states = self._documents.setdefault(uri, {})
        state = states.setdefault((row.document_id, self._shared_word(fingerprint)), _State())
        if state.run != run.number:
            state.run, state.seen = run.number, 0
        bit = 1 if index is None else 2 << index
        older = state.status_of(index)
        both = state.seen if index is None else state.seen & 1
        if state.seen & bit:
            yield Fault(FaultCode.DUPLICATE_ROW, page_of(uri, index), f"two rows in run {row.run_id}")
        elif both:
            message = f"run {row.run_id} could and could not open it"
            yield Fault(FaultCode.DUPLICATE_ROW, page_of(uri, index), message)
        elif row.document_id and older not in (None, Status.FAILED) and not run.may_repeat:
            message = f"run {row.run_id} has read it again, though it was {older} and --overwrite was not given"
            yield Fault(FaultCode.DUPLICATE_ROW, page_of(uri, index), message)
        if row.page_count is not None and state.page_count not in (None, row.page_count):
            message = f"{state.page_count} pages by its first rows, {row.page_count} by this one"
            yield Fault(FaultCode.PAGE_COUNT, page_of(uri, index), message)
        state.seen |= bit
        state.put(row)

    def add_document(self, row: DocumentRow, run: RunInOrder, run_id: str) -> Iterator[Fault]:
        """Note a row of `documents`, and tell if it is one too many; only the newest is held against the pages."""
        self._vanished.discard(row.uri)
        states = self._documents.setdefault(row.uri, {})
        state = states.setdefault((row.document_id, self._shared_word(row.config_fingerprint)), _State())
        if state.row_run == run.number:
            yield Fault(FaultCode.DUPLICATE_ROW, row.uri, f"two rows in documents by run {run_id}", "documents")
        state.row_counts, state.row_run = self._shared.setdefault(row.counts, row.counts), run.number
        state.row_pages, state.size_bytes, state.etag = row.page_count, row.size_bytes, row.etag

    def add_vanished(self, uri: str) -> None:
        """Note a row of `documents` that says that a document is no longer there."""
        self._vanished.add(uri)

    def faults(self, run_under_way: int | None) -> Iterator[Fault]:
        """Documents whose newest row in `documents` is not what `pages` says, or that have none though complete.

        What the run under way was the last to touch is left out: it has more to write.
        """
        for uri, states in self._documents.items():
            for state in states.values():
                if run_under_way is None or state.run != run_under_way:
                    yield from state.faults(uri)

    def compare(self, uri: str, document_id: str | None) -> Fault | None:
        """What is missing of an input, under the newest configuration; `document_id` is None if it cannot be read."""
        known = self._documents.get(uri)
        if known is None or all(state.is_empty for state in known.values()):
            return Fault(FaultCode.UNREAD, uri, "it has no row")
        if uri in self._vanished:
            return Fault(FaultCode.UNREAD, uri, "its newest row says that it has vanished, and it is there")
        if document_id is None:
            return None
        state = known.get((document_id, self.newest_fingerprint))
        if state is None or state.is_empty:
            return self._unmatched(uri, document_id)
        if state.is_complete:
            return None
        return Fault(FaultCode.INCOMPLETE, uri, f"{state.num_pages} of {state.page_count} pages have a row")

    def _unmatched(self, uri: str, document_id: str) -> Fault | None:
        """What it means that a document has rows, and none for this content and the newest configuration."""
        known = self._documents[uri]
        unseen = known.get((None, self.newest_fingerprint))
        if unseen is not None and unseen.code not in _NOT_SEEN:
            return None  # it crashed the process that was to look at it: that is its row
        contents = {other for (other, _), state in known.items() if other is not None and not state.is_empty}
        if document_id in contents:
            return Fault(FaultCode.UNREAD, uri, "it was read with other options than the newest run's")
        if contents:
            return Fault(FaultCode.CHANGED, uri, "its content is none of those that were read")
        codes = sorted({str(state.code) for state in known.values()})
        return Fault(FaultCode.UNREAD, uri, f"it could not be read before ({', '.join(codes)})")

    def compare_unhashed(self, uri: str, size_bytes: int | None, etag: str | None) -> Fault | None:
        """The same by size and etag alone, as far as `documents` has them."""
        known = self._documents.get(uri, {})
        recorded = {document_id: state for (document_id, _), state in known.items() if document_id and state.row_counts}
        if not recorded:
            return self.compare(uri, next((document_id for document_id, _ in known if document_id), None))
        for document_id, state in recorded.items():
            if state.size_bytes == size_bytes and (state.etag == etag or same_content(state.etag, etag)):
                return self.compare(uri, document_id)
        sizes = {state.size_bytes for state in recorded.values()}
        what = "its time of change is another" if size_bytes in sizes else f"its size is another, {size_bytes} bytes"
        return Fault(FaultCode.CHANGED, uri, f"{what} than when it was read")

    def _shared_word(self, word: str) -> str:
        return self._words.setdefault(word, word)


def _listed(counts: Counts) -> str:
    return ", ".join(f"{count} {status}" for status, count in counts) or "none"
