"""The flow as a state machine: what to do next, given what has happened. Pure: no Ray, no clock, no files.

A runner (`pipeline.local`, `pipeline.cluster`) carries out the tasks that `Flow` hands out and tells it what
came of them; `Flow` sees to it that every page of every source ends in exactly one result, whatever crashes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from pipeline.batch import Batch, BatchLimits
from pipeline.census import Change
from pipeline.document import Document, Source
from pipeline.errors import SKIPPED_CODES, ErrorCode
from pipeline.expectation import Expectation
from pipeline.intake import Intake, OpenDocument
from pipeline.ledger import Ledger
from pipeline.packer import Packer
from pipeline.page import Page, SizedPage
from pipeline.rasterizing import Rasterizing
from pipeline.reading import Reading
from pipeline.result import BatchReport, Failure, Outcome, PageResult, Probe, Settled, Stage, Status
from pipeline.stats import Totals, of_batch, of_result
from pipeline.task import (
    BatchCrashed,
    BatchEnded,
    BatchReturned,
    Event,
    FinishedDocument,
    PageEnded,
    PageFailed,
    PageRendered,
    PageSettled,
    Piece,
    PixelsLost,
    ProbeEnded,
    ProbeTask,
    Ready,
    RenderTask,
    TaskEnded,
)


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


@dataclass(slots=True)
class Flow:
    """See the module. `totals` counts what was settled, `pages_known` the pages of all documents probed so far.

    Whoever drives it keeps `now_s` at the time of a clock that does not go back: no page waits too long for company.
    """

    sources: Iterator[Source]
    ledger: Ledger
    limits: FlowLimits
    within: Callable[[Sequence[Source]], Sequence[Source]] = tuple
    totals: Totals = field(default_factory=Totals)
    pages_known: int = 0
    now_s: float = 0.0
    _packer: Packer = field(init=False)
    _expectation: Expectation = field(default_factory=Expectation)
    _too_large: set[str] = field(default_factory=set)
    _intake: Intake = field(init=False)
    _open: dict[str, OpenDocument] = field(default_factory=dict)
    _to_render: deque[OpenDocument] = field(default_factory=deque)
    _rasterizing: Rasterizing = field(default_factory=Rasterizing)
    _reading: Reading = field(default_factory=Reading)
    _bytes_waiting: int = 0
    _stopped: bool = False
    _ready: Ready = field(default_factory=Ready)

    def __post_init__(self) -> None:
        self._packer = Packer.of(self.limits.batch, self._expectation.of)
        self._intake = Intake(self.sources, self.ledger, self.limits.pages_per_task)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do, or after `stop` nothing is left to wait for."""
        if self._stopped:
            return not self._reading.num_batches
        return self._reading.is_idle and not self._packer.num_waiting and self._rasterizing_is_over

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
        """Pages that an engine has and has not told of."""
        return self._reading.num_pages

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
        self._reading.stop()

    def next_task(self) -> ProbeTask | RenderTask | None:
        """What a free rasterizing process should do, if anything."""
        if self._stopped:
            return None
        if (again := self._rasterizing.start_again()) is not None:
            return again
        few = len(self._to_render) < max(1, self.limits.open_documents // 4)
        few = few and self._intake.num_waiting < self.limits.waiting_documents
        if few and (sources := self._next_sources()):
            return self._rasterizing.start(sources)
        if self.wants_pages and (pieces := self._next_pieces()):
            return self._rasterizing.start(pieces)
        return None

    def next_batch(self, num_engines: int) -> Batch | None:
        """What a free engine should read, if anything; `num_engines` share what is left at the end."""
        if self._stopped:
            return None
        batch = self._reading.retry()
        if batch is None:
            force, is_crowded = self._rasterizing_is_over, not self.wants_pages
            batch = self._packer.take(force=force, is_crowded=is_crowded, spread_over=num_engines, at_s=self.now_s)
        if batch is not None:
            self._reading.give(batch)
        return batch

    def take_ready(self) -> Ready:
        """All that was settled since the last call."""
        ready, self._ready = self._ready, Ready()
        return ready

    def on(self, event: Event) -> None:
        """Take note of what happened."""
        match event:
            case ProbeEnded(task, probe):
                self._rasterizing.tell(task)
                self._on_probe(probe)
            case PageRendered(task, sized):
                self._rasterizing.tell(task)
                self._on_rendered(sized)
            case PageSettled(task, settled):
                self._rasterizing.tell(task)
                self._on_settled(settled)
            case PageFailed(task, page, failure):
                self._rasterizing.tell(task)
                self._settle_page(page, Status.FAILED, failure)
            case TaskEnded(task, crash):
                self._on_task_ended(task, crash)
            case _:
                self._on_read(event)

    # rasterizing

    @property
    def _rasterizing_is_over(self) -> bool:
        return self._intake.exhausted and not self._to_render and self._rasterizing.is_idle

    def _pass_over(self) -> int:
        passed = self._intake.pass_over()
        self.totals += passed
        self.pages_known += passed.pages_already_done
        return passed.documents_already_done

    def _next_sources(self) -> tuple[Source, ...]:
        """Few at first, so that the first pages come soon; then as many as a task takes."""
        wanted = min(self.limits.sources_per_task, 1 << min(self._rasterizing.num_tasks // 2, 30))
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
        if probe.members:
            self.ledger.census.look_into(document.uri, (member.uri for member in probe.members))
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
            self._finish(opened.finished)
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
        self._packer.add(sized, self.now_s)

    def _on_settled(self, settled: Settled) -> None:
        page = settled.sized.page
        document = self._open[page.uri].document
        self._settle(PageResult(document, page, settled.status, settled.recognition, settled.failure, settled.sized))

    def _on_task_ended(self, task: ProbeTask | RenderTask, crash: str | None) -> None:
        cause = self._rasterizing.end(task)
        if cause is not None:
            self._give_up(cause, crash or "the task ended before all was told")

    def _give_up(self, item: Source | Piece, reason: str) -> None:
        stage = Stage.DISCOVER if isinstance(item, Source) else Stage.RASTERIZE
        message = f"the rasterizing process died each time on this: {reason}"
        failure = Failure(stage, ErrorCode.RASTERIZER_CRASHED, message)
        if isinstance(item, Source):
            self._settle_document(Document(item.uri), failure)
        else:
            self._settle_page(item.pages()[0], Status.FAILED, failure)

    # recognizing

    def _on_read(self, event: PageEnded | BatchEnded | BatchCrashed | BatchReturned | PixelsLost) -> None:
        report: BatchReport | None = None
        cause: SizedPage | None = None
        match event:
            case PageEnded(batch, outcome):
                if self._reading.tell(batch, outcome):
                    self._on_page(batch, outcome)
            case BatchEnded(batch, whole):
                report, cause = self._reading.end(batch, whole)
            case BatchCrashed(batch, _, alone):
                report, cause = self._reading.crash(batch, alone=alone)
            case BatchReturned(batch):
                report = self._reading.give_back(batch)
            case _:
                report, lost = self._reading.lose(event.batch)
                self._on_pixels_lost(lost)
        if cause is not None:
            self._on_cause(event.batch, cause, event.crash if isinstance(event, BatchCrashed) else "no word of it came")
        if report is not None:
            self._ready.reports.append(report)
            self.totals += of_batch(report)
            self._learn(report)

    def learn_room(self, room: Sequence[tuple[int, int]]) -> None:
        """What an engine has said of its memory, see `pipeline.budget.Budget.learn_room`."""
        self._packer.budget.learn_room(room)

    def _learn(self, report: BatchReport) -> None:
        """What a batch read for the first time, and whole, says of sizes, unless a page of it was too large alone."""
        batch, splits = report.batch, report.oom_splits
        is_blamed = batch.batch_id in self._too_large
        self._too_large.discard(batch.batch_id)
        if batch.cut is not None and report.num_told is None and not is_blamed:
            length = max(batch.lengths) if splits else batch.bucket
            self._packer.budget.tell(length, len(batch.pages), seconds=report.total_s, oom_splits=splits)

    def _on_page(self, batch: Batch, outcome: Outcome) -> None:
        sized, recognition = outcome.sized, outcome.recognition
        self._bytes_waiting -= sized.num_bytes
        if outcome.failure is not None and outcome.failure.code is ErrorCode.OUT_OF_MEMORY:
            self._too_large.add(batch.batch_id)
        if recognition is not None and recognition.output_tokens is not None:
            self._expectation.tell(sized, recognition.output_tokens)
        result = PageResult(
            self._open[sized.page.uri].document,
            sized.page,
            recognition.status if recognition else Status.FAILED,
            recognition,
            outcome.failure,
            sized,
            batch.batch_id,
            outcome.attempts,
            outcome.started_at,
            outcome.finished_at,
        )
        self._settle(result)

    def _on_cause(self, batch: Batch, sized: SizedPage, crash: str) -> None:
        self._bytes_waiting -= sized.num_bytes
        message = f"the engine's process died each time it read this page: {crash}"
        failure = Failure(Stage.RECOGNIZE, ErrorCode.ENGINE_CRASHED, message)
        self._settle_page(sized.page, Status.FAILED, failure, sized, batch.batch_id, batch.attempt)

    def _on_pixels_lost(self, pages: Sequence[SizedPage]) -> None:
        for sized in pages:
            self._bytes_waiting -= sized.num_bytes
            index = sized.page.page_index
            self._rasterizing.add(Piece(self._open[sized.page.uri].document, index, index + 1))

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
            self._finish(opened.finished)
            for document in self._intake.close(opened):
                self._open_document(document)

    def _settle_document(self, document: Document, failure: Failure) -> None:
        """One row for a document without pages to tell of."""
        self.pages_known += 1
        self.ledger.census.doubt(document.uri)
        status = Status.SKIPPED if failure.code in SKIPPED_CODES else Status.FAILED
        statuses, code = {str(status): 1}, str(failure.code)
        known = self.ledger.unopened(document)
        if known is not None and (document.document_id or known == (status, code)):
            failed = int(known[0] == Status.FAILED)
            self.totals += Totals(documents_already_done=1, pages_already_done=1, pages_failed_before=failed)
            if not self.ledger.is_told(document):
                self._finish(FinishedDocument(document, {known[0]: 1}, known[1]))
            return
        result = PageResult(document, None, status, failure=failure)
        self._ready.results.append(result)
        self.totals += of_result(result) + Totals(documents=1)
        self._finish(FinishedDocument(document, statuses, code))

    def _finish(self, finished: FinishedDocument) -> None:
        """Have a document's row written, and count it if it is new or has changed."""
        self._ready.documents.append(finished)
        change = self.ledger.census.tell(finished.document.uri, finished.document.document_id)
        self.totals += Totals(documents_new=int(change is Change.NEW), documents_changed=int(change is Change.CHANGED))
