"""Intake: which sources have to be looked at, and which pages of a document have to be read. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pipeline.document import Document, Source
from pipeline.errors import RETRYABLE_CODES
from pipeline.ledger import Ledger, count, count_codes, missing, union, verdict
from pipeline.result import PageResult, Status
from pipeline.stats import Totals
from pipeline.task import Copy, FinishedDocument


@dataclass(slots=True)
class OpenDocument:
    """A document of which pages are under way: `bits` are its pages that have a result, by verdict."""

    document: Document
    bits: dict[str, int]
    runs: Iterator[range]

    @property
    def num_left(self) -> int:
        """Pages without a result."""
        return (self.document.page_count or 0) - union(self.bits).bit_count()

    def settle(self, result: PageResult) -> None:
        """Note the result of one page."""
        said = verdict(result.status, result.failure.code if result.failure else None)
        bit = 1 << result.page.page_index if result.page else 0
        self.bits[said] = self.bits.get(said, 0) | bit

    @property
    def finished(self) -> FinishedDocument:
        """What to tell of it once nothing is left."""
        return FinishedDocument(self.document, count(self.bits))


@dataclass(slots=True)
class Opened:
    """What came of a document's opening: what can be told at once, and what is left to be read, if anything.

    `left_out` are those pages of `left`, as bits, that nobody asked for.
    """

    totals: Totals
    left_out: int = 0
    left: OpenDocument | None = None
    copy: Copy | None = None
    finished: FinishedDocument | None = None


@dataclass(slots=True)
class Intake:
    """Takes sources in, once each, and says what remains to be done for them.

    A source that is done and has not changed since is passed over without being opened. Bytes that are under
    way at another URI wait until they are through there, and are copied then.
    """

    sources: Iterator[Source]
    ledger: Ledger
    chunk: int
    num_waiting: int = 0
    _ended: bool = False
    _added: deque[Source] = field(default_factory=deque)
    _next: Source | None = None
    _under_way: dict[str, list[Document]] = field(default_factory=dict)

    @property
    def exhausted(self) -> bool:
        """Whether every source was taken; more may be added."""
        return self._ended and self._next is None and not self._added

    def add(self, members: Sequence[Source]) -> None:
        """Take these sources in next: they were found within one that was looked at."""
        self._added.extend(members)

    def pass_over(self, most: int = 4096) -> Totals:
        """Pass over up to `most` sources that are done, and count them; stop at the first that is not."""
        passed = pages = failed = 0
        while self._next is None and not self.exhausted and passed < most:
            source = self._added.popleft() if self._added else next(self.sources, None)
            if source is None:
                self._ended = True
                continue
            self.ledger.census.meet(source.uri)
            if done := self.ledger.done(source):
                passed, pages, failed = passed + 1, pages + done.pages, failed + done.failed
            else:
                self._next = source
        return Totals(documents_already_done=passed, pages_already_done=pages, pages_failed_before=failed)

    def take(self) -> Source | None:
        """The source at which `pass_over` has stopped, if there is one."""
        source, self._next = self._next, None
        return source

    def open(self, document: Document) -> Opened | None:
        """What is to be done for a document with pages; None if its bytes are under way at another URI."""
        document_id = document.document_id or ""
        if document_id in self._under_way:
            self._under_way[document_id].append(document)
            self.num_waiting += 1
            return None
        own, elsewhere = self.ledger.pages(document), self.ledger.elsewhere(document)
        opened = Opened(_of_before(own))
        if elsewhere:
            opened.copy = Copy(document, elsewhere)
            opened.totals += _of_copy(elsewhere)
        bits = {said: own.get(said, 0) | elsewhere.get(said, 0) for said in {*own, *elsewhere}}
        page_count, done = document.page_count or 0, union(bits)
        not_asked_for = ((1 << page_count) - 1) & ~self.ledger.selection.mask(page_count)
        taken = OpenDocument(document, bits, missing(done | not_asked_for, page_count, self.chunk))
        if taken.num_left:
            opened.left, opened.left_out = taken, not_asked_for & ~done
            self._under_way[document_id] = []
        elif elsewhere:
            opened.totals += Totals(documents=1)
            opened.finished = taken.finished
        else:
            opened.totals += Totals(documents_already_done=1)
            opened.finished = None if self.ledger.is_told(document) else taken.finished
        return opened

    def close(self, closed: OpenDocument) -> list[Document]:
        """Note that nothing is left of a document; the documents of the same bytes that have waited for it."""
        lasting = {said: bits for said, bits in closed.bits.items() if said.partition(":")[2] not in RETRYABLE_CODES}
        self.ledger.finish(closed.document, lasting)  # that a file is gone says nothing of its other names
        waited = self._under_way.pop(closed.document.document_id or "")
        self.num_waiting -= len(waited)
        return waited


def _of_before(bits: dict[str, int]) -> Totals:
    counts = count(bits)
    return Totals(pages_already_done=counts.total(), pages_failed_before=counts[Status.FAILED])


def _of_copy(bits: dict[str, int]) -> Totals:
    counts = count(bits)
    pages = counts.total()
    return Totals(pages=pages, pages_copied=pages, pages_by_status=counts, failures_by_code=count_codes(bits))
