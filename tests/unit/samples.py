"""Small values that the unit tests are made of: pages, documents, results, and strategies over them."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import strategies as st

from pipeline.batch import Batch
from pipeline.document import Document
from pipeline.engines.engine import Identity
from pipeline.errors import ErrorCode
from pipeline.page import Page, SizedPage
from pipeline.result import BatchReport, Failure, PageResult, Recognition, Stage, Status, Timings
from pipeline.table import RunKeys

NOON = datetime(2024, 2, 29, 12, tzinfo=UTC)
KEYS = RunKeys("20240229T120000Z-abc123", "0123456789abcdef", NOON, Identity("fake", "1", "m", "r", "name"))


def a_document(uri: str = "file:///a.pdf", page_count: int | None = 1, document_id: str | None = "d" * 64) -> Document:
    return Document(uri, document_id, 1234, NOON, "etag", "application/pdf", page_count)


def a_page(
    index: int = 0, *, uri: str = "file:///a.pdf", count: int | None = None, document_id: str = "d" * 64
) -> Page:
    return Page(uri, document_id, index, index + 1 if count is None else count)


def a_sized_page(index: int = 0, *, length: int = 100, uri: str = "file:///a.pdf", channels: int = 1) -> SizedPage:
    return SizedPage(a_page(index, uri=uri), 320, 32 * length // 10, channels, 72.0, 0, length)


def a_failure(code: ErrorCode = ErrorCode.BROKEN_PAGE, stage: Stage = Stage.RASTERIZE) -> Failure:
    return Failure(stage, code, f"made to fail: {code}")


def a_result(index: int = 0, text: str = "hello", uri: str = "file:///a.pdf") -> PageResult:
    sized = a_sized_page(index, uri=uri)
    return PageResult(a_document(uri), sized.page, Status.OK, Recognition(text), None, sized, "b" * 16)


def a_report(pages: tuple[SizedPage, ...] | None = None, total_s: float = 0.5) -> BatchReport:
    return BatchReport(
        batch=Batch(125, pages or (a_sized_page(),)),
        node="node",
        device="cpu",
        actor="pid-1",
        started_at=NOON,
        finished_at=NOON,
        queue_s=0.25,
        total_s=total_s,
        timings=Timings(decode_s=0.125),
        output_tokens=(3,),
        idle_ratio=None,
        host_memory_bytes=1 << 20,
    )


lengths = st.one_of(
    st.integers(0, 70),
    st.integers(0, 5000),
    st.sampled_from([63, 64, 65, 80, 81, 100, 101, 2016, 3871]),
    st.integers(0, 10**9),
)
"""Lengths of pages: near the edges of the small buckets, of real sizes, and absurd ones."""
