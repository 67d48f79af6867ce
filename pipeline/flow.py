"""The flow as a state machine: what to do next, given what has happened. Pure: no Ray, no clock, no files.

A runner (`pipeline.local`, `pipeline.cluster`) carries out the tasks that `Flow` hands out and tells it what
came of them; `Flow` sees to it that every page of every source ends in exactly one result, whatever crashes.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from pipeline.batch import Batch, BatchLimits, Packer
from pipeline.document import Document, Source
from pipeline.errors import SKIPPED_CODES, ErrorCode
from pipeline.intake import Intake, OpenDocument
from pipeline.ledger import Ledger
from pipeline.page import Page, SizedPage
from pipeline.result import BatchOutcome, Failure, PageResult, Probe, Settled, Stage, Status
from pipeline.stats import Totals, of_batch, of_result
from pipeline.task import (
    BatchCrashed,
    BatchEnded,
    BatchReturned,
    Event,
    FinishedDocument,
    PageFailed,
    PageRendered,
    PageSettled,
    Piece,
    ProbeEnded,
    ProbeTask,
    Ready,
    RenderTask,
    TaskEnded,
)

MAX_CRASHES_ALONE = 2
"""How often a page may bring its process down when nothing else was in it, before it is called the cause."""


@dataclass(frozen=True, slots=True)
class FlowLimits:
    """Bounds of what is under way at a time: the reason that memory is flat.

    `raster_bytes` are pixels that wait for an engine, `open_documents` documents probed and not all rendered,
    `waiting_documents` documents that wait until the same bytes are read at another URI.
    """

    batch: BatchLimits
    raster_bytes: int
    pages_per_task: int = 16
    open_documents: int = 64
    sources_per_task: int = 16
    waiting_documents: int = 4096


_Work = tuple[Source, ...] | tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class _Retry:
    """Work to be done again; `alone` if its process died, so that what kills it is found."""

    work: _Work
    alone: bool


@dataclass(slots=True)
class Flow:
    """See the module. `totals` counts what was settled, `pages_known` the pages of all documents probed so far."""

    sources: Iterator[Source]
    ledger: Ledger
    limits: FlowLimits
    within: Callable[[Sequence[Source]], Sequence[Source]] = tuple
    totals: Totals = field(default_factory=Totals)
    pages_known: int = 0
    _packer: Packer = field(init=False)
    _intake: Intake = field(init=False)
    _open: dict[str, OpenDocument] = field(default_factory=dict)
    _to_render: deque[OpenDocument] = field(default_factory=deque)
    _retries: deque[_Retry] = field(default_factory=deque)
    _running: dict[int, int] = field(default_factory=dict)
    _batch_retries: deque[Batch] = field(default_factory=deque)
    _in_flight: dict[str, Batch] = field(default_factory=dict)
    _crashes_alone: Counter[tuple[Stage, str, int]] = field(default_factory=Counter)
    _bytes_waiting: int = 0
    _num_tasks: int = 0
    _stopped: bool = False
    _ready: Ready = field(default_factory=Ready)

    def __post_init__(self) -> None:
        self._packer = Packer(self.limits.batch)
        self._intake = Intake(self.sources, self.ledger, self.limits.pages_per_task)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do, or after `stop` nothing is left to wait for."""
        if self._stopped:
            return not self._in_flight
        idle = not (self._in_flight or self._batch_retries or self._packer.num_waiting)
        return idle and self._rasterizing_is_over

    @property
    def complete(self) -> bool:
        """Whether every page of every source has its row: also after `stop`, if there was nothing left to stop."""
        return self._rasterizing_is_over and not self._open

    @property
    def num_waiting(self) -> int:
        """Pages rendered and not given to an engine."""
        return self._packer.num_waiting

    @property
    def num_in_flight(self) -> int:
        """Pages that an engine has and has not answered for."""
        return sum(len(batch.pages) for batch in self._in_flight.values())

    @property
    def wants_pages(self) -> bool:
        """Whether there is room for more pixels; when not, the runner leaves them with the rasterizers."""
        room = self._bytes_waiting < self.limits.raster_bytes and not self._packer.is_full
        return room and not self._stopped

    def pass_over(self) -> bool:
        """Pass over a few thousand sources that are done; False if none is left of those that come first.

        To be called before the first task, so that no process is started for a job that is done.
        """
        passed = self._pass_over()
        return passed > 0 and not self._stopped

    def stop(self) -> None:
        """Start nothing more; batches in flight end and count, all else is left to be done another time."""
        self._stopped = True
        self._batch_retries.clear()

    def next_task(self) -> ProbeTask | RenderTask | None:
        """What a free rasterizing process should do, if anything."""
        if self._stopped:
            return None
        if self._retries:
            retry = self._retries.popleft()
            return self._start(retry.work, alone=retry.alone)
        few = len(self._to_render) < max(1, self.limits.open_documents // 4)
        few = few and self._intake.num_waiting < self.limits.waiting_documents
        if few and (sources := self._next_sources()):
            return self._start(sources)
        if self.wants_pages and (pieces := self._next_pieces()):
            return self._start(pieces)
        return None

    def next_batch(self, num_engines: int) -> Batch | None:
        """What a free engine should read, if anything; `num_engines` share what is left at the end."""
        if self._stopped:
            return None
        if self._batch_retries:
            batch: Batch | None = self._batch_retries.popleft()
        else:
            force = self._rasterizing_is_over or not self.wants_pages
            batch = self._packer.take(force=force, spread_over=num_engines)
        if batch is not None:
            self._in_flight[batch.batch_id] = batch
        return batch

    def take_ready(self) -> Ready:
        """All that was settled since the last call."""
        ready, self._ready = self._ready, Ready()
        return ready

    def on(self, event: Event) -> None:
        """Take note of what happened."""
        match event:
            case ProbeEnded(task, probe):
                self._running[task.number] += 1
                self._on_probe(probe)
            case PageRendered(task, sized):
                self._running[task.number] += 1
                self._on_rendered(sized)
            case PageSettled(task, settled):
                self._running[task.number] += 1
                self._on_settled(settled)
            case PageFailed(task, page, failure):
                self._running[task.number] += 1
                self._settle_page(page, Status.FAILED, failure)
            case TaskEnded(task, crash):
                self._on_task_ended(task, crash)
            case BatchEnded(batch, outcome):
                self._on_batch(batch, outcome)
            case BatchCrashed(batch, crash):
                self._on_batch_crash(batch, crash)
            case BatchReturned(batch):
                self._batch_retries.append(self._in_flight.pop(batch.batch_id))
            case _:
                self._on_pixels_lost(event.batch)

    # rasterizing

    @property
    def _rasterizing_is_over(self) -> bool:
        return self._intake.exhausted and not (self._to_render or self._running or self._retries)

    def _start(self, work: _Work, *, alone: bool = False) -> ProbeTask | RenderTask:
        self._num_tasks += 1
        self._running[self._num_tasks] = 0
        sources = tuple(item for item in work if isinstance(item, Source))
        if sources:
            return ProbeTask(self._num_tasks, sources, alone)
        return RenderTask(self._num_tasks, tuple(item for item in work if isinstance(item, Piece)), alone)

    def _pass_over(self) -> int:
        passed = self._intake.pass_over()
        self.totals += passed
        self.pages_known += passed.pages_already_done
        return passed.documents_already_done

    def _next_sources(self) -> tuple[Source, ...]:
        """Few at first, so that the first pages come soon; then as many as a task takes."""
        wanted = min(self.limits.sources_per_task, 1 << min(self._num_tasks // 2, 30))
        found: list[Source] = []
        while len(found) < wanted:
            self._pass_over()
            source = self._intake.take()
            if source is None:  # the end, or enough for now: there may be millions of them
                break
            found.append(source)
        return tuple(found)

    def _next_pieces(self) -> tuple[Piece, ...]:
        """Pages for one task: a run of one document, or several small documents together."""
        pieces: list[Piece] = []
        num_pages = 0
        while self._to_render and num_pages < self.limits.pages_per_task:
            run = next(self._to_render[0].runs, None)
            if run is None:
                self._to_render.popleft()
                continue
            pieces.append(Piece(self._to_render[0].document, run.start, run.stop))
            num_pages += len(run)
        return tuple(pieces)

    def _on_probe(self, probe: Probe) -> None:
        document = probe.document
        self._intake.add(self.within(probe.members))
        if probe.failure is not None:
            self._settle_document(document, probe.failure)
        if probe.failure is not None or probe.members:
            return
        self.pages_known += document.page_count or 0
        self._open_document(document)

    def _open_document(self, document: Document) -> None:
        opened = self._intake.open(document)
        if opened is None:
            return
        self.totals += opened.totals
        if opened.copy is not None:
            self._ready.copies.append(opened.copy)
        if opened.finished is not None:
            self._ready.documents.append(opened.finished)
        if opened.left is not None:
            self._open[document.uri] = opened.left
            self._to_render.append(opened.left)
            failure = Failure(Stage.DISCOVER, ErrorCode.NOT_SELECTED, self.ledger.selection.says())
            for index in (n for n in range(opened.left_out.bit_length()) if opened.left_out >> n & 1):
                page = Page(document.uri, document.document_id or "", index, document.page_count or 0)
                self._settle_page(page, Status.SKIPPED, failure)

    def _on_rendered(self, sized: SizedPage) -> None:
        if self._stopped:
            return
        self._bytes_waiting += sized.num_bytes
        self._packer.add(sized)

    def _on_settled(self, settled: Settled) -> None:
        page = settled.sized.page
        document = self._open[page.uri].document
        self._settle(PageResult(document, page, settled.status, settled.recognition, settled.failure, settled.sized))

    def _on_task_ended(self, task: ProbeTask | RenderTask, crash: str | None) -> None:
        num_received = self._running.pop(task.number)
        items: _Work = task.items()
        left = items[num_received:]
        if not left:
            return
        reason = crash or "the task ended before all was told"
        if not task.alone:
            self._retries.append(_Retry(left, alone=True))
        elif len(items) > 1:
            parts = [part for part in (left[:1], left[1:]) if part]
            self._retries.extend(_Retry(part, alone=True) for part in parts)
        elif self._is_the_cause(Stage.RASTERIZE, left[0].key):
            self._give_up(left[0], reason)
        else:
            self._retries.append(_Retry(left, alone=True))

    def _is_the_cause(self, stage: Stage, key: tuple[str, int]) -> bool:
        self._crashes_alone[stage, *key] += 1
        return self._crashes_alone[stage, *key] >= MAX_CRASHES_ALONE

    def _give_up(self, item: Source | Piece, reason: str) -> None:
        stage = Stage.DISCOVER if isinstance(item, Source) else Stage.RASTERIZE
        message = f"the rasterizing process died each time on this: {reason}"
        failure = Failure(stage, ErrorCode.RASTERIZER_CRASHED, message)
        if isinstance(item, Source):
            self._settle_document(Document(item.uri), failure)
        else:
            self._settle_page(item.pages()[0], Status.FAILED, failure)

    # recognizing

    def _on_batch(self, batch: Batch, outcome: BatchOutcome) -> None:
        del self._in_flight[batch.batch_id]
        self._ready.reports.append(outcome.report)
        self.totals += of_batch(outcome.report)
        for page in outcome.pages:
            self._bytes_waiting -= page.sized.num_bytes
            status = page.recognition.status if page.recognition else Status.FAILED
            result = PageResult(
                self._open[page.sized.page.uri].document,
                page.sized.page,
                status,
                page.recognition,
                page.failure,
                page.sized,
                batch.batch_id,
                page.attempts,
                outcome.report.started_at,
                outcome.report.finished_at,
            )
            self._settle(result)

    def _on_batch_crash(self, batch: Batch, crash: str) -> None:
        del self._in_flight[batch.batch_id]
        if self._stopped:
            return
        if len(batch.pages) > 1:
            self._batch_retries.extend(batch.halves())
            return
        sized = batch.pages[0]
        if not self._is_the_cause(Stage.RECOGNIZE, sized.page.key):
            self._batch_retries.append(replace(batch, attempt=batch.attempt + 1))
            return
        self._bytes_waiting -= sized.num_bytes
        message = f"the engine's process died each time it read this page: {crash}"
        failure = Failure(Stage.RECOGNIZE, ErrorCode.ENGINE_CRASHED, message)
        self._settle_page(sized.page, Status.FAILED, failure, sized, batch.batch_id, batch.attempt)

    def _on_pixels_lost(self, batch: Batch) -> None:
        del self._in_flight[batch.batch_id]
        for sized in batch.pages:
            self._bytes_waiting -= sized.num_bytes
            index = sized.page.page_index
            piece = Piece(self._open[sized.page.uri].document, index, index + 1)
            self._retries.append(_Retry((piece,), alone=False))

    # settling

    def _settle_page(
        self,
        page: Page,
        status: Status,
        failure: Failure,
        sized: SizedPage | None = None,
        batch_id: str | None = None,
        attempts: int = 1,
    ) -> None:
        document = self._open[page.uri].document
        self._settle(PageResult(document, page, status, None, failure, sized, batch_id, attempts))

    def _settle(self, result: PageResult) -> None:
        self._ready.results.append(result)
        self.totals += of_result(result)
        opened = self._open[result.document.uri]
        opened.settle(result)
        if opened.num_left == 0:
            del self._open[result.document.uri]
            self.totals += Totals(documents=1)
            self._ready.documents.append(opened.finished)
            for document in self._intake.close(opened):
                self._open_document(document)

    def _settle_document(self, document: Document, failure: Failure) -> None:
        """One row for a document without pages to tell of."""
        self.pages_known += 1
        status = Status.SKIPPED if failure.code in SKIPPED_CODES else Status.FAILED
        statuses, code = {str(status): 1}, str(failure.code)
        known = self.ledger.unopened(document)
        if known is not None and (document.document_id or known == (status, code)):
            failed = int(known[0] == Status.FAILED)
            self.totals += Totals(documents_already_done=1, pages_already_done=1, pages_failed_before=failed)
            if not self.ledger.is_told(document):
                self._ready.documents.append(FinishedDocument(document, {known[0]: 1}, known[1]))
            return
        result = PageResult(document, None, status, failure=failure)
        self._ready.results.append(result)
        self.totals += of_result(result) + Totals(documents=1)
        self._ready.documents.append(FinishedDocument(document, statuses, code))
