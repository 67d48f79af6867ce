"""A simulated cluster: a `pipeline.runner.Runner` whose tasks and batches end, crash and get lost as dice fall.

What can go wrong is told before the start (`Scenario`), so that a test knows what has to become of every page;
when it goes wrong is left to a seeded generator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from random import Random

from pipeline.batch import Batch
from pipeline.document import Document, Source
from pipeline.engines.engine import Loaded
from pipeline.errors import ErrorCode
from pipeline.flow import Flow, FlowLimits
from pipeline.ledger import Ledger, verdict
from pipeline.page import Page, SizedPage
from pipeline.result import (
    BatchReport,
    Failure,
    Outcome,
    PageResult,
    Probe,
    Recognition,
    Settled,
    Stage,
    Status,
    Timings,
)
from pipeline.selection import Selection
from pipeline.task import (
    BatchCrashed,
    BatchEnded,
    BatchReturned,
    Copy,
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

from .samples import NOON

ALL = Selection()
AHEAD = 1
"""Batches that an engine may have beyond those that it reads."""

MAX_BLOCK = 3
"""Pages that a rasterizing task may tell of at once; if its process dies before, it has told of none of them."""


class Fate(Enum):
    """What is the matter with a page, or with a document that gives none."""

    FINE = auto()
    NEEDS_NO_ENGINE = auto()
    CANNOT_BE_RENDERED = auto()
    KILLS_THE_RASTERIZER = auto()
    CANNOT_BE_READ = auto()
    KILLS_THE_ENGINE = auto()


@dataclass(frozen=True, slots=True)
class SimulatedDocument:
    """A document: its pages' fates, or why it has none; `done` are rows of earlier runs by page index.

    `content` names its bytes, which several documents may share; `told` says that the documents table knows it.
    `archive` is the URI of the archive in which it is found, if it is a member of one.
    """

    uri: str
    pages: tuple[Fate, ...] = ()
    done: Mapping[int, Status] = field(default_factory=dict)
    refusal: ErrorCode | None = None
    refused_before: Status | None = None
    kills_the_probe: bool = False
    length: int = 100
    side_px: int = 10
    content: str = ""
    told: bool = False
    archive: str = ""

    @property
    def document_id(self) -> str:
        return f"id of {self.content or self.uri}"

    @property
    def source(self) -> Source:
        return Source(self.uri, etag="etag" if self.told else None)

    @property
    def document(self) -> Document:
        if self.kills_the_probe:
            return Document(self.uri)
        page_count = None if self.refusal else len(self.pages)
        document_id = None if self.refusal is ErrorCode.NOT_FOUND else self.document_id
        return Document(self.uri, document_id, 1, NOON, "etag", "application/pdf", page_count)

    @property
    def probe(self) -> Probe:
        refusal = Failure(Stage.DISCOVER, self.refusal, "made to fail") if self.refusal else None
        return Probe(self.document, refusal)

    def page(self, index: int) -> Page:
        return Page(self.uri, self.document_id, index, len(self.pages))

    def earlier(self, index: int) -> PageResult:
        """What a run before this one has committed for a page."""
        status, failure = self.done[index], Failure(Stage.RASTERIZE, ErrorCode.BROKEN_PAGE, "made to fail")
        text = None if status is Status.FAILED else Recognition(f"{self.document_id} {index}")
        return PageResult(self.document, self.page(index), status, text, None if text else failure)

    def sized(self, index: int) -> SizedPage:
        """Pages of a document differ a little in length, so that they fall into several buckets."""
        return SizedPage(self.page(index), self.side_px, self.side_px, 1, None, 0, self.length + 13 * (index % 4))


@dataclass(frozen=True, slots=True)
class Chaos:
    """How likely things go wrong that are no page's fault, and how often at most."""

    seed: int = 0
    crash: float = 0.0
    lost: float = 0.0
    most: int = 0


@dataclass(frozen=True, slots=True)
class Scenario:
    documents: tuple[SimulatedDocument, ...]
    limits: FlowLimits
    num_rasterizers: int = 2
    num_engines: int = 1
    batches_at_once: int = 1
    chaos: Chaos = Chaos()
    selection: Selection = ALL

    def ledger(self, results: Iterable[PageResult] = ()) -> Ledger:
        """What is committed when the run starts: rows of earlier runs, and these."""
        ledger = Ledger(self.selection)
        for document in self.documents:
            if document.refused_before is not None:
                found = document.document
                ledger.note_unopened(found.uri, found.document_id, document.refused_before, document.refusal)
            ledger.note(document.uri, document.document_id, [_noted(document.earlier(n)) for n in document.done])
        for result in results:
            found, code = result.document, result.failure.code if result.failure else None
            if result.page is None:
                ledger.note_unopened(found.uri, found.document_id, str(result.status), code)
            else:
                ledger.note(found.uri, found.document_id or "", [_noted(result)])
        for document in self.documents:
            if document.told:
                ledger.tell(document.document)
        return ledger

    def flow(self, results: Iterable[PageResult] = ()) -> Flow:
        sources = dict.fromkeys(Source(d.archive) if d.archive else d.source for d in self.documents)
        return Flow(iter(sources), self.ledger(results), self.limits)

    def members(self, uri: str) -> tuple[Source, ...]:
        """What is found in an archive; nothing for any other URI."""
        return tuple(document.source for document in self.documents if uri and document.archive == uri)

    def gathered(self, results: Iterable[PageResult] = ()) -> Gathered:
        """A committer that has committed this already."""
        earlier = [document.earlier(index) for document in self.documents for index in document.done]
        return Gathered(committed=[*earlier, *results])


@dataclass(slots=True)
class _Stream:
    task: ProbeTask | RenderTask
    items: list[Source | Piece]
    position: int = 0


@dataclass(slots=True, eq=False)
class _Engine:
    """What an engine has: batches, and for each of them what it has not told of."""

    given: list[tuple[Batch, list[SizedPage]]] = field(default_factory=list)

    @property
    def is_closed(self) -> bool:
        return any(batch.alone for batch, _ in self.given)


@dataclass(slots=True)
class SimulatedRunner:
    """Gives at most one source or block of pages a task and wait, as `pipeline.cluster` does.

    Pages of a batch are told in any order, now and then twice or too late; what an engine has told of and nobody has
    heard when it dies is lost. Engines that read several batches at a time start them in any order.

    A crash that is no page's fault hits a page that is alone in its process at most once in a run: a second one
    would rightly be called the page's own.
    """

    scenario: Scenario
    flow: Flow
    num_events: int = 0
    num_accidents: int = 0
    pixels: dict[tuple[str, int], SizedPage] = field(default_factory=dict)
    max_held_bytes: int = 0
    max_open_documents: int = 0
    _pages_to_start: dict[str, int] = field(default_factory=dict)
    _dice: Random = field(init=False)
    _streams: list[_Stream] = field(default_factory=list)
    num_deaths: int = 0
    _engines: list[_Engine] = field(init=False)
    _waiting: Batch | None = None
    _hit_alone: set[tuple[str, str, int]] = field(default_factory=set)
    _by_uri: dict[str, SimulatedDocument] = field(init=False)
    _loading: int = field(init=False)
    _idle_turns: int = 0

    def __post_init__(self) -> None:
        self._dice = Random(self.scenario.chaos.seed)
        self._engines = [_Engine() for _ in range(self.scenario.num_engines)]
        self._by_uri = {document.uri: document for document in self.scenario.documents}
        self._loading = self._dice.choice([0, 0, 3, 20])

    # the protocol

    def num_engines(self) -> int:
        return self.scenario.num_engines

    def has_free_rasterizer(self) -> bool:
        return len(self._streams) < self.scenario.num_rasterizers

    def has_free_engine(self) -> bool:
        return self._loading == 0 and self._waiting is None and bool(self._free_engines())

    def start_task(self, task: ProbeTask | RenderTask) -> None:
        assert self.has_free_rasterizer()
        items: list[Source | Piece] = []
        if isinstance(task, ProbeTask):
            assert 1 <= len(task.sources) <= self.scenario.limits.sources_per_task
            items += task.sources
        else:
            singles = [single for piece in task.pieces for single in piece.singles()]
            assert 1 <= len(singles) < 2 * self.scenario.limits.pages_per_task
            for single in singles:
                self._pages_to_start[single.document.uri] -= 1
            items += singles
        self._streams.append(_Stream(task, items))

    def start_batch(self, batch: Batch) -> None:
        assert self.has_free_engine()
        assert len(batch.pages) <= self.scenario.limits.batch.start.size_for(batch.bucket)
        for sized in batch.pages:
            assert self.pixels[sized.page.key] == sized, "a batch was given without pixels"
        if batch.alone and self.scenario.batches_at_once > 1:
            self._waiting = batch
            self._start_waiting()
        else:
            min(self._free_engines(), key=lambda engine: len(engine.given)).given.append((batch, list(batch.pages)))

    def _free_engines(self) -> list[_Engine]:
        at_once = self.scenario.batches_at_once
        return [e for e in self._engines if len(e.given) < at_once + AHEAD and not (e.is_closed and at_once > 1)]

    def _start_waiting(self) -> None:
        idle = next((engine for engine in self._engines if not engine.given), None)
        if self._waiting is not None and idle is not None:
            idle.given.append((self._waiting, list(self._waiting.pages)))
            self._waiting = None

    def wait(self, *, take_pages: bool) -> list[Event]:
        is_loading, self._loading = self._loading > 0, max(0, self._loading - 1)
        streams = [s for s in self._streams if take_pages or isinstance(s.task, ProbeTask)]
        self._start_waiting()
        engines = [engine for engine in self._engines if engine.given]
        if not streams and not engines:
            self._idle_turns += not (is_loading or self.flow.finished)
            assert self._idle_turns < 2, "nothing is under way, and the flow is not finished"
            return []
        self._idle_turns = 0
        speakers = [s for s in [*streams, *engines] if self._dice.random() < 0.5]
        speakers = speakers or [self._dice.choice([*streams, *engines])]
        self._dice.shuffle(speakers)
        events: list[Event] = []
        for speaker in speakers:
            if isinstance(speaker, _Stream):
                events += self._of_stream(speaker)
            else:
                events += self._of_engine(speaker)
        self.num_events += len(events)
        self.max_held_bytes = max(self.max_held_bytes, sum(s.num_bytes for s in self.pixels.values()))
        return events

    def forget(self, page: Page) -> None:
        self.pixels.pop(page.key, None)

    def loaded(self) -> list[Loaded]:
        return []

    def close(self) -> None:
        self.pixels.clear()

    # what happens

    def _accident(self, likelihood: float, alone: tuple[str, str, int] | None) -> bool:
        chaos = self.scenario.chaos
        if self.num_accidents >= chaos.most or alone in self._hit_alone or self._dice.random() >= likelihood:
            return False
        self.num_accidents += 1
        if alone is not None:
            self._hit_alone.add(alone)
        return True

    def _of_stream(self, stream: _Stream) -> list[Event]:
        task, left = stream.task, stream.items[stream.position :]
        alone = None
        if left and task.alone and len(stream.items) == 1:
            alone = ("task", left[0].uri, -1) if isinstance(left[0], Source) else ("task", *left[0].key)
        if self._accident(self.scenario.chaos.crash, alone):
            self._streams.remove(stream)
            return [TaskEnded(task, self._dice.choice(["the node died", None]))]
        if not left:
            self._streams.remove(stream)
            return [TaskEnded(task)]
        told = left[: 1 if isinstance(task, ProbeTask) else self._dice.randint(1, MAX_BLOCK)]
        survives = task.alone and self._dice.random() < 0.6  # mostly the process of its own dies, not the task's
        if any(self._kills(item) for item in told) and not survives:
            self._streams.remove(stream)
            return [TaskEnded(task, "killed")]
        stream.position += len(told)
        return [self._told(task, item) for item in told]

    def _kills(self, item: Source | Piece) -> bool:
        if isinstance(item, Source):
            return item.uri in self._by_uri and self._by_uri[item.uri].kills_the_probe
        return self._by_uri[item.document.uri].pages[item.first] is Fate.KILLS_THE_RASTERIZER

    def _told(self, task: ProbeTask | RenderTask, item: Source | Piece) -> Event:
        if isinstance(item, Source):
            assert isinstance(task, ProbeTask)
            failure = Failure(Stage.DISCOVER, ErrorCode.RASTERIZER_CRASHED, "died alone")
            kills = self._kills(item)
            return ProbeEnded(task, Probe(Document(item.uri), failure) if kills else self._opened(item))
        assert isinstance(task, RenderTask)
        return self._of_page(task, item)

    def _opened(self, source: Source) -> Probe:
        if members := self.scenario.members(source.uri):
            return Probe(Document(source.uri), members=members)
        document = self._by_uri[source.uri]
        shared = bool(document.content)  # may wait, or be copied
        asked = self.scenario.selection.mask(len(document.pages))
        to_start = [n for n in range(len(document.pages)) if asked >> n & 1 and n not in document.done]
        self._pages_to_start[source.uri] = 0 if shared else len(to_start)
        is_open = [left > 0 for left in self._pages_to_start.values()]
        self.max_open_documents = max(self.max_open_documents, sum(is_open))
        return document.probe

    def _of_page(self, task: RenderTask, piece: Piece) -> Event:
        document = self._by_uri[piece.document.uri]
        assert piece.pages() == [document.page(piece.first)]
        codes = {
            Fate.CANNOT_BE_RENDERED: ErrorCode.BROKEN_PAGE,
            Fate.KILLS_THE_RASTERIZER: ErrorCode.RASTERIZER_CRASHED,
        }
        fate = document.pages[piece.first]
        if fate in codes:
            failure = Failure(Stage.RASTERIZE, codes[fate], "made to fail")
            return PageFailed(task, document.page(piece.first), failure)
        sized = document.sized(piece.first)
        if fate is Fate.NEEDS_NO_ENGINE:
            text = Recognition(f"{document.document_id} {piece.first}")
            return PageSettled(task, Settled(sized, Status.TEXT_LAYER, text))
        assert sized.page.key not in self.pixels, "a page was rendered twice"
        self.pixels[sized.page.key] = sized
        return PageRendered(task, sized)

    def _of_engine(self, engine: _Engine) -> list[Event]:
        """Some pages of a batch that the engine reads, its end, or what becomes of all that it has when it dies."""
        position = self._dice.randrange(len(engine.given)) if self.scenario.batches_at_once > 1 else 0
        batch, untold = engine.given[position]
        alone = ("batch", *batch.pages[0].page.key) if len(batch.pages) == 1 else None
        if self._accident(self.scenario.chaos.crash, alone):
            return self._death(engine)
        if self._accident(self.scenario.chaos.lost, None):
            del engine.given[position]
            for sized in untold:
                self.forget(sized.page)
            return [PixelsLost(batch)]
        self._dice.shuffle(untold)
        events: list[Event] = []
        for _ in range(self._dice.randint(0, len(untold))):
            if self._fate(untold[-1]) is Fate.KILLS_THE_ENGINE:
                heard = events if self._dice.random() < 0.5 else []
                return [*heard, *self._death(engine)]
            events.append(PageEnded(batch, self._outcome(batch, untold.pop())))
        if events and self._dice.random() < 0.1:
            events.append(self._dice.choice(events))
        if not untold:
            del engine.given[position]
            events.append(BatchEnded(batch, _report(batch)))
        return events

    def _death(self, engine: _Engine) -> list[Event]:
        """One at a time, the first is to blame; else all that the engine had are suspects, unless there is but one."""
        self.num_deaths += 1
        given = [batch for batch, _ in engine.given]
        num_suspects = len(given) if self.scenario.batches_at_once > 1 else 1
        engine.given.clear()
        events: list[Event] = [BatchCrashed(b, "killed", alone=num_suspects == 1) for b in given[:num_suspects]]
        events += [BatchReturned(b) for b in given[num_suspects:]]
        if self._dice.random() < 0.1:
            fine = [sized for sized in given[0].pages if self._fate(sized) is Fate.FINE]
            events += [PageEnded(given[0], self._outcome(given[0], sized)) for sized in fine[:1]]
        return events

    def _fate(self, sized: SizedPage) -> Fate:
        return self._by_uri[sized.page.uri].pages[sized.page.page_index]

    def _outcome(self, batch: Batch, sized: SizedPage) -> Outcome:
        failure = Failure(Stage.RECOGNIZE, ErrorCode.ENGINE_ERROR, "made to fail")
        fails = self._fate(sized) is Fate.CANNOT_BE_READ
        text = None if fails else Recognition(f"{sized.page.document_id} {sized.page.page_index}")
        return Outcome(sized, text, failure if fails else None, batch.attempt, NOON, NOON)


def _report(batch: Batch) -> BatchReport:
    return BatchReport(batch, "node", "cpu", "actor", NOON, NOON, 0.0, 1.0, Timings(), (), None, None)


@dataclass(slots=True)
class Gathered:
    """Stands in for a `pipeline.commit.Committer`: keeps what was settled, and makes the copies that are asked for.

    `committed` is what earlier runs have left; `copied` those of the results that were read at another URI.
    """

    committed: list[PageResult] = field(default_factory=list)
    results: list[PageResult] = field(default_factory=list)
    copied: list[PageResult] = field(default_factory=list)
    reports: list[BatchReport] = field(default_factory=list)
    documents: list[FinishedDocument] = field(default_factory=list)
    num_flushes: int = 0

    def take(self, ready: Ready) -> None:
        self.results += ready.results
        for copy in ready.copies:
            made = [self._made(copy, index, said) for index, said in _pages_of(copy)]
            self.results += made
            self.copied += made
        self.reports += ready.reports
        self.documents += ready.documents

    def flush(self) -> None:
        self.num_flushes += 1

    def _made(self, copy: Copy, index: int, said: str) -> PageResult:
        for original in [*self.results, *self.committed]:
            page = original.page
            key = (page.document_id, *_noted(original)) if page else None
            if page and key == (copy.document.document_id, index, said):
                return replace(original, document=copy.document, page=replace(page, uri=copy.document.uri))
        raise AssertionError("a copy of what nobody has read")


def _pages_of(copy: Copy) -> list[tuple[int, str]]:
    return [(n, said) for said, bits in copy.bits.items() for n in range(bits.bit_length()) if bits >> n & 1]


def _noted(result: PageResult) -> tuple[int, str]:
    """A page's row as a ledger notes it."""
    assert result.page is not None
    return result.page.page_index, verdict(result.status, result.failure.code if result.failure else None)
