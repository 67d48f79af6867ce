"""What is already committed, and so what remains of a document, and what can be copied from another name of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

from pipeline.census import Census, digest
from pipeline.document import Document, Source
from pipeline.errors import RETRYABLE_CODES, ErrorCode
from pipeline.parquet import part_keys, read_columns, read_part
from pipeline.result import Status
from pipeline.selection import Selection
from pipeline.store import Store

_PAGE_COLUMNS = ("uri", "document_id", "config_fingerprint", "page_index", "status", "error_code")
_DOCUMENT_COLUMNS = ("uri", "etag", "document_id", "page_count", "config_fingerprint", "error_code")

_SHARED_BITS = 64
"""Documents of up to so many pages share what is noted of them: most are in one of few states."""

LEFT_OUT = f"{Status.SKIPPED}:{ErrorCode.NOT_SELECTED}"
"""The verdict on a page that was not asked for."""

_ALL = Selection()

Bits = tuple[tuple[str, int], ...]
"""Pages by verdict: for each verdict the bits of one integer, bit 0 for page index 0. Sorted, none without a bit."""

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Done:
    """What was told of a document that is done: how many rows, and how many of them are failures."""

    pages: int
    failed: int


@dataclass(frozen=True, slots=True)
class _Content:
    """Pages of some bytes that have a row at any URI, and the numbers of the parts that hold such rows."""

    bits: Bits = ()
    parts: tuple[int, ...] = ()


_NOTHING = _Content()


@dataclass(slots=True)
class Ledger:
    """Rows that count for one configuration, and the census: about 2/3 KiB a document, whatever its text.

    Names are kept as 128-bit digests: that any two of ten million are the same has a probability of 1e-25.
    Rows of pages that were left out count only while `selection` leaves them out, too. A document that could not be
    opened for one of the codes of `look_again` is looked at again, and told again only if that ends otherwise.
    """

    selection: Selection = _ALL
    look_again: frozenset[str] = frozenset()
    parts: list[str] = field(default_factory=list)
    census: Census = field(default_factory=Census)
    _pages: dict[bytes, Bits] = field(default_factory=dict)
    _contents: dict[bytes, _Content] = field(default_factory=dict)
    _unopened: dict[bytes, tuple[str, str | None]] = field(default_factory=dict)
    _told: dict[bytes, tuple[bytes, Done]] = field(default_factory=dict)
    _shared: dict[object, object] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        store: Store,
        config_fingerprint: str,
        retry: frozenset[str] | None = frozenset(),
        selection: Selection = _ALL,
        look_again: frozenset[str] = frozenset(),
    ) -> Ledger:
        """Look through the committed parts; only the key columns are fetched and decoded.

        Args:
            store: The output.
            config_fingerprint: Rows of another configuration do not count.
            retry: Codes of failed rows that do not count either; None for all of them. Of a document that could
                be opened once, `RETRYABLE_CODES` never count.
            selection: The pages asked for; see the class.
            look_again: Codes of documents to look at again; see the class.

        Raises:
            StorageError: the output cannot be listed or read.
        """
        ledger = cls(selection, look_again)
        for key in part_keys(store, "pages"):
            ledger.parts.append(key)
            for (uri, document_id, fingerprint), rows in groupby(read_part(store, key, _PAGE_COLUMNS), _DOCUMENT):
                if fingerprint == config_fingerprint:
                    counted = ((row[3], None if _again(row, retry) else row[4], row[5]) for row in rows)
                    ledger._read_rows(uri, document_id, counted)
        ledger.read_documents(store, config_fingerprint)
        return ledger

    def read_documents(self, store: Store, config_fingerprint: str | None) -> None:
        """Look through `documents`: rows of any configuration go into the census, those of this one count as told.

        Raises:
            StorageError: the output cannot be listed or read.
        """
        for part in read_columns(store, "documents", _DOCUMENT_COLUMNS):
            for uri, etag, document_id, page_count, fingerprint, code in part:
                self.census.note(uri, document_id, vanished=code == ErrorCode.VANISHED)
                if code == ErrorCode.VANISHED:
                    self._told.pop(digest(uri), None)  # should it come back, there is to be a row that says so
                elif fingerprint == config_fingerprint:
                    self.tell(Document(uri, document_id, etag=etag, page_count=page_count))

    def _read_rows(self, uri: str, document_id: str | None, rows: Iterable[tuple[int | None, str | None, str]]) -> None:
        noted: list[tuple[int, str | None]] = []
        for page_index, status, code in rows:
            if page_index is None or document_id is None:
                self.note_unopened(uri, document_id, status, code)
            else:
                noted.append((page_index, verdict(status, code) if status else None))
        if noted and document_id is not None:
            self.note(uri, document_id, noted)
            self.place(document_id, len(self.parts) - 1)

    def note(self, uri: str, document_id: str, rows: Iterable[tuple[int, str | None]]) -> None:
        """Note rows of a document's pages, in their order: page index and verdict; a later row of a page counts.

        Without a verdict a page counts as not done, whatever rows it has had so far.
        """
        touched, changed = 0, dict[str, int]()
        for page_index, said in rows:
            bit = 1 << page_index
            if touched & bit:
                changed = {other: bits & ~bit for other, bits in changed.items()}
            touched |= bit
            if said is not None:
                changed[said] = changed.get(said, 0) | bit
        key, content = digest(uri, document_id), digest(document_id)
        self._pages[key] = self._share(_changed(self._pages.get(key, ()), touched, changed))
        known = self._contents.get(content, _NOTHING)
        self._contents[content] = self._share(_Content(_changed(known.bits, touched, changed), known.parts))

    def note_unopened(self, uri: str, document_id: str | None, status: str | None, code: str | None = None) -> None:
        """Note the row of a document that could not be opened; without a status it counts as not there."""
        key = digest(uri, document_id or "")
        if status is None:
            self._unopened.pop(key, None)
        else:
            self._unopened[key] = self._share((status, code))

    def place(self, document_id: str, part: int) -> None:
        """Note that a part, an index into `parts`, holds rows of pages with these bytes."""
        content = digest(document_id)
        known = self._contents.get(content, _NOTHING)
        if part not in known.parts:
            self._contents[content] = self._share(_Content(known.bits, (*known.parts, part)))

    def finish(self, document: Document, bits: Mapping[str, int]) -> None:
        """Note that every page of a document has its row by now, or will have it with the next commit."""
        content = digest(document.document_id or "")
        parts = self._contents.get(content, _NOTHING).parts
        self._contents[content] = self._share(_Content(_changed((), 0, bits), parts))

    def tell(self, document: Document) -> None:
        """Note a row of the documents table; it counts for nothing unless the rows of the pages are all there."""
        done = None
        if document.page_count is None:
            known = self.unopened(document)
            if known and known[1] not in self.look_again:
                done = Done(1, int(known[0] == Status.FAILED))
        else:
            counts = count(self.pages(document))
            if sum(counts.values()) == document.page_count:
                done = Done(document.page_count, counts.get(Status.FAILED, 0))
        key = digest(document.uri)  # the newest alone: of a file that is again what it once was there is to be a row
        if done is None:
            self._told.pop(key, None)
        else:
            self._told[key] = digest(document.etag or ""), self._share(done)

    def done(self, source: Source) -> Done | None:
        """What is known of a source that is done and, as its etag says, has not changed since."""
        told = self._told.get(digest(source.uri))
        return told[1] if told and source.etag and told[0] == digest(source.etag) else None

    def is_told(self, document: Document) -> bool:
        """Whether the documents table says of this document, as it is now, that it is done."""
        told = self._told.get(digest(document.uri))
        return told is not None and told[0] == digest(document.etag or "")

    def unopened(self, document: Document) -> tuple[str, str | None] | None:
        """Status and code of the row that says that this document could not be opened, if there is one."""
        return self._unopened.get(digest(document.uri, document.document_id or ""))

    def pages(self, document: Document) -> dict[str, int]:
        """Pages of this document that have a row at its URI, as bits by verdict."""
        key = digest(document.uri, document.document_id or "")
        return self._within(self._pages.get(key, ()), document)

    def elsewhere(self, document: Document) -> dict[str, int]:
        """Pages of these bytes that have a row at some other URI and none at this one, as bits by verdict."""
        own = union(self.pages(document))
        known = self._contents.get(digest(document.document_id or ""), _NOTHING)
        found = {said: bits & ~own for said, bits in self._within(known.bits, document).items()}
        return {said: bits for said, bits in found.items() if bits}

    def parts_of(self, document_id: str) -> tuple[int, ...]:
        """The parts that hold rows of these bytes, as indices into `parts`, oldest first."""
        return self._contents.get(digest(document_id), _NOTHING).parts

    def _within(self, bits: Bits, document: Document) -> dict[str, int]:
        """Of these pages those that the document has, but not those that were left out and are asked for now."""
        pages = (1 << (document.page_count or 0)) - 1
        found = {said: each & pages for said, each in bits}
        if LEFT_OUT in found:
            found[LEFT_OUT] &= ~self.selection.mask(document.page_count or 0)
        return {said: each for said, each in found.items() if each}

    def _share(self, value: _Value) -> _Value:
        """The one object of this value that is kept: a million documents in like state cost one."""
        bits = value.bits if isinstance(value, _Content) else value if isinstance(value, tuple) else ()
        if any(isinstance(item, tuple) and item[1] >> _SHARED_BITS for item in bits):
            return value
        return self._shared.setdefault(value, value)  # type: ignore[return-value]


def verdict(status: str, code: str | None) -> str:
    """What a row says of its page, in one word: the status, and the error code if there is one."""
    return f"{status}:{code}" if code else status


def union(bits: Mapping[str, int]) -> int:
    """The pages of any verdict, as bits."""
    pages = 0
    for each in bits.values():
        pages |= each
    return pages


def count(bits: Mapping[str, int]) -> Counter[str]:
    """How many pages have each status."""
    return _counted((said.partition(":")[0], pages) for said, pages in bits.items())


def count_codes(bits: Mapping[str, int]) -> Counter[str]:
    """How many pages have each error code."""
    return _counted((said.partition(":")[2], pages) for said, pages in bits.items() if ":" in said)


def _counted(named: Iterable[tuple[str, int]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for name, pages in named:
        if pages:
            counts[name] += pages.bit_count()
    return counts


def missing(done: int, page_count: int, chunk: int) -> Iterator[range]:
    """Runs of the pages of a document that are not among the bits of `done`: in order, none longer than `chunk`."""
    start = None
    for index in range(page_count + 1):
        is_missing = index < page_count and not done >> index & 1
        if start is not None and (not is_missing or index - start == chunk):
            yield range(start, index)
            start = None
        if is_missing and start is None:
            start = index


_DOCUMENT = itemgetter(0, 1, 2)


def _again(row: tuple[str, str | None, str, int | None, str, str | None], retry: frozenset[str] | None) -> bool:
    """Whether a row does not count, since what failed there is to be tried again."""
    _, document_id, _, _, status, code = row
    by_itself = document_id is not None and code in RETRYABLE_CODES
    return status == Status.FAILED and (retry is None or code in retry or by_itself)


def _changed(bits: Bits, touched: int, changed: Mapping[str, int]) -> Bits:
    """The same bits, but the touched ones taken from `changed`."""
    found = {said: pages & ~touched for said, pages in bits}
    for said, pages in changed.items():
        found[said] = found.get(said, 0) | pages
    return tuple(sorted((said, pages) for said, pages in found.items() if pages))
