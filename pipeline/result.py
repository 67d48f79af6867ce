"""What became of a page: text, or a failure with a reason; and what an engine answers. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from pipeline.batch import Batch
from pipeline.document import Document, Source
from pipeline.errors import RETRYABLE_CODES, ErrorCode, PageFault
from pipeline.page import Page, SizedPage


class Status(StrEnum):
    """The `status` column of a page."""

    OK = "ok"
    TEXT_LAYER = "text_layer"
    BLANK = "blank"
    FAILED = "failed"
    TRUNCATED = "truncated"
    REPEATED = "repeated"
    SKIPPED = "skipped"


class Finish(StrEnum):
    """The `finish_reason` column: why a model stopped writing; null for engines that do not write token by token."""

    STOP = "stop"
    LENGTH = "length"
    REPETITION = "repetition"


class Stage(StrEnum):
    """Where on its way a page or a document failed."""

    DISCOVER = "discover"
    RASTERIZE = "rasterize"
    RECOGNIZE = "recognize"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no text; `message` is one line for a person."""

    stage: Stage
    code: ErrorCode
    message: str

    @property
    def retryable(self) -> bool:
        """Whether another run may do better although the document has not changed."""
        return self.code in RETRYABLE_CODES

    @classmethod
    def of(cls, stage: Stage, fault: PageFault) -> Failure:
        """Translate a fault; only its first line is kept."""
        return cls(stage, fault.code, one_line(fault.detail))


def one_line(text: str, limit: int = 500) -> str:
    """The text without line breaks and controls, cut to `limit` characters."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


@dataclass(frozen=True, slots=True)
class Probe:
    """What a look at one source found: the document, and why it cannot be read if it cannot.

    `members` are set for an archive: they are to be looked at instead of it. With a failure beside them they are not
    all that it held.
    """

    document: Document
    failure: Failure | None = None
    members: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class Unrendered:
    """A page that gave no raster, and why."""

    page: Page
    failure: Failure


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text; `bbox` is (x0, y0, x1, y1) in raster pixels, `score` 0 to 1.

    For a line written token by token, `score` is the exponential of the mean log-probability of its tokens, and
    `min_logprob` the lowest of them.
    """

    text: str
    bbox: tuple[float, float, float, float]
    score: float | None
    min_logprob: float | None = None


@dataclass(frozen=True, slots=True)
class Recognition:
    """What an engine read on one page. `confidence` is 0 to 1; None where the engine has none.

    An engine that writes token by token gives the mean and the lowest natural log-probability of its tokens, the
    confidence being the exponential of the mean; `output_tokens` counts what it wrote, also what was cut afterwards.
    `tries` counts how often it read the page until it was content, and `note` is one line on what was not as it
    should be (read again in another precision, say).
    """

    text: str
    format: str = "text"
    lines: tuple[Line, ...] = ()
    confidence: float | None = None
    output_tokens: int | None = None
    finish_reason: Finish | None = None
    mean_logprob: float | None = None
    min_logprob: float | None = None
    tries: int = 1
    note: str | None = None

    @property
    def status(self) -> Status:
        """What the page's row says of it."""
        return _STATUS_OF.get(self.finish_reason, Status.OK)


_STATUS_OF: dict[Finish | None, Status] = {Finish.LENGTH: Status.TRUNCATED, Finish.REPETITION: Status.REPEATED}


@dataclass(frozen=True, slots=True)
class Settled:
    """A page that needs no engine: its text was there already, it is blank, or it is left out.

    Exactly one of `recognition` and `failure` is set.
    """

    sized: SizedPage
    status: Status
    recognition: Recognition | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds an engine spent on a batch, by phase; None for a phase it does not have."""

    preprocess_s: float | None = None
    transfer_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None


@dataclass(frozen=True, slots=True)
class GpuUse:
    """What a batch saw of its GPU: peak bytes in tensors, bytes held by the allocator, busy share from 0 to 1."""

    allocated_bytes: int
    reserved_bytes: int
    utilization: float | None = None


@dataclass(frozen=True, slots=True)
class Effort:
    """What a batch took: time by phase, decode slots that stood idle (0 to 1), and how often memory ran out."""

    timings: Timings = Timings()
    idle_ratio: float | None = None
    gpu: GpuUse | None = None
    oom_splits: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What an engine gives for a batch: one `Recognition` for each page, in the order of the pages."""

    pages: tuple[Recognition, ...]
    effort: Effort = Effort()


@dataclass(frozen=True, slots=True)
class PageRead:
    """What an engine tells of one page, at `position` (zero-based) in its batch: what it read, or why it cannot."""

    position: int
    result: Recognition | Exception


@dataclass(frozen=True, slots=True)
class PageResult:
    """The fate of one page, or of one document that has none (`page` is None then).

    Exactly one of `recognition` and `failure` is set.
    """

    document: Document
    page: Page | None
    status: Status
    recognition: Recognition | None = None
    failure: Failure | None = None
    sized: SizedPage | None = None
    batch_id: str | None = None
    attempts: int = 1
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What `pipeline.step` made of one page of a batch, before it is joined with its document again.

    `started_at` is when the batch was begun, `finished_at` when the engine told of the page.
    """

    sized: SizedPage
    recognition: Recognition | None
    failure: Failure | None
    attempts: int
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What one batch took: times in seconds, memory in bytes, and where it ran.

    Of a batch that was cut short nobody knows where it ran, and `num_told` says of how many of its pages was told.
    """

    batch: Batch
    node: str | None
    device: str | None
    actor: str | None
    started_at: datetime | None
    finished_at: datetime | None
    queue_s: float | None
    total_s: float | None
    timings: Timings
    output_tokens: tuple[int, ...]
    idle_ratio: float | None
    host_memory_bytes: int | None
    gpu: GpuUse | None = None
    oom_splits: int = 0
    num_told: int | None = None

    @property
    def num_pages(self) -> int:
        """Pages that were told of under the name of this batch."""
        return len(self.batch.pages) if self.num_told is None else self.num_told
