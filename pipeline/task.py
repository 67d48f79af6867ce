"""Task: what a runner is asked to do, and the events by which it tells what came of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.batch import Batch
from pipeline.document import Document, Source
from pipeline.page import Page, SizedPage
from pipeline.result import BatchReport, Failure, Outcome, PageResult, Probe, Settled

MAX_CRASHES_ALONE = 2
"""How often a page may bring its process down when nothing else was in it, before it is called the cause."""


@dataclass(frozen=True, slots=True)
class ProbeTask:
    """Look at these sources, in this order, and tell of each (`ProbeEnded`).

    `alone` means each in a process of its own, since the process that had them together has died.
    """

    number: int
    sources: tuple[Source, ...]
    alone: bool = False

    def items(self) -> tuple[Source, ...]:
        """What is told of, one by one."""
        return self.sources


@dataclass(frozen=True, slots=True)
class Piece:
    """Pages `first` to `stop` (excluded, zero-based) of one document."""

    document: Document
    first: int
    stop: int

    @property
    def key(self) -> tuple[str, int]:
        """What tells the first page of the piece from every other page of the run."""
        return self.document.uri, self.first

    def pages(self) -> list[Page]:
        """The pages, in order."""
        count = self.document.page_count or 0
        document_id = self.document.document_id or ""
        return [Page(self.document.uri, document_id, index, count) for index in range(self.first, self.stop)]

    def singles(self) -> list[Piece]:
        """The same pages, each as a piece of its own."""
        return [Piece(self.document, index, index + 1) for index in range(self.first, self.stop)]


@dataclass(frozen=True, slots=True)
class RenderTask:
    """Render these pages, in this order, and tell of each (`PageRendered`, `PageSettled` or `PageFailed`).

    `alone` means each in a process of its own, since the process that had them together has died.
    """

    number: int
    pieces: tuple[Piece, ...]
    alone: bool = False

    def items(self) -> tuple[Piece, ...]:
        """What is told of, one by one: each page as a piece of its own."""
        return tuple(single for piece in self.pieces for single in piece.singles())


@dataclass(frozen=True, slots=True)
class ProbeEnded:
    """One source of a `ProbeTask` was looked at."""

    task: ProbeTask
    probe: Probe


@dataclass(frozen=True, slots=True)
class PageRendered:
    """One page of a `RenderTask` has pixels, which the runner keeps."""

    task: RenderTask
    sized: SizedPage


@dataclass(frozen=True, slots=True)
class PageSettled:
    """One page of a `RenderTask` needs no engine."""

    task: RenderTask
    settled: Settled


@dataclass(frozen=True, slots=True)
class PageFailed:
    """One page of a `RenderTask` cannot be rendered."""

    task: RenderTask
    page: Page
    failure: Failure


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """A task is over: `crash` says how its process died, None if it ended by itself."""

    task: ProbeTask | RenderTask
    crash: str | None = None


@dataclass(frozen=True, slots=True)
class PageEnded:
    """An engine has told of one page of a batch."""

    batch: Batch
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class BatchEnded:
    """A batch was read; each of its pages was told before."""

    batch: Batch
    report: BatchReport


@dataclass(frozen=True, slots=True)
class BatchCrashed:
    """The engine's process died while it read a batch; `alone` means that it read nothing else at the time."""

    batch: Batch
    crash: str
    alone: bool = True


@dataclass(frozen=True, slots=True)
class BatchReturned:
    """What is untold of a batch was given back, its pixels still there, and for no fault of these pages."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class PixelsLost:
    """What is untold of a batch could not be read because pixels vanished with the node that held them."""

    batch: Batch


Event = (
    ProbeEnded
    | PageRendered
    | PageSettled
    | PageFailed
    | TaskEnded
    | PageEnded
    | BatchEnded
    | BatchCrashed
    | BatchReturned
    | PixelsLost
)


@dataclass(frozen=True, slots=True)
class FinishedDocument:
    """A document of which every page has a result."""

    document: Document
    statuses: dict[str, int]
    error_code: str | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """Rows to be written for pages of a document whose bytes were read at another URI: which, as bits by verdict.

    Those rows are committed, or came before the copy to whoever commits.
    """

    document: Document
    bits: Mapping[str, int]


@dataclass(slots=True)
class Ready:
    """What has been settled since the last look, for the committer."""

    results: list[PageResult] = field(default_factory=list)
    reports: list[BatchReport] = field(default_factory=list)
    documents: list[FinishedDocument] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
