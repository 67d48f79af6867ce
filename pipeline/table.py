"""Table: the four tables, their schemas and how their rows are made."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from pipeline.document import Document
from pipeline.engines.engine import Identity
from pipeline.result import BatchReport, PageResult, Status

_SURROGATE = re.compile("[\ud800-\udfff]")
_TIME = pa.timestamp("us", tz="UTC")
_LINE_FIELDS = [("text", pa.large_string()), ("bbox", pa.list_(pa.float32())), ("score", pa.float32())]
_LINE = pa.struct([*_LINE_FIELDS, ("min_logprob", pa.float32())])

PAGES = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("config_fingerprint", pa.string(), nullable=False),
        ("document_id", pa.string()),
        pa.field("uri", pa.large_string(), nullable=False),
        ("page_index", pa.int32()),
        ("page_count", pa.int32()),
        pa.field("status", pa.string(), nullable=False),
        ("error_code", pa.string()),
        ("error_message", pa.large_string()),
        ("text", pa.large_string()),
        ("format", pa.string()),
        ("lines", pa.list_(_LINE)),
        ("width_px", pa.int32()),
        ("height_px", pa.int32()),
        ("dpi", pa.float32()),
        ("rotation", pa.int16()),
        ("text_layer", pa.large_string()),
        ("length", pa.int32()),
        ("output_tokens", pa.int32()),
        ("finish_reason", pa.string()),
        ("confidence", pa.float32()),
        ("mean_logprob", pa.float32()),
        ("min_logprob", pa.float32()),
        ("engine", pa.string()),
        ("model", pa.string()),
        ("model_revision", pa.string()),
        ("task", pa.string()),
        ("batch_id", pa.string()),
        ("attempts", pa.int16()),
        ("started_at", _TIME),
        ("finished_at", _TIME),
    ]
)

DOCUMENTS = pa.schema(
    [
        ("document_id", pa.string()),
        pa.field("uri", pa.large_string(), nullable=False),
        ("size_bytes", pa.int64()),
        ("modified_at", _TIME),
        ("etag", pa.string()),
        ("media_type", pa.string()),
        ("page_count", pa.int32()),
        *((f"pages_{status}", pa.int32()) for status in Status),
        ("error_code", pa.string()),
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("config_fingerprint", pa.string(), nullable=False),
    ]
)

BATCHES = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("batch_id", pa.string(), nullable=False),
        ("bucket", pa.int32()),
        ("node", pa.string()),
        ("device", pa.string()),
        ("actor", pa.string()),
        ("batch_size", pa.int32()),
        ("length_min", pa.int32()),
        ("length_max", pa.int32()),
        ("length_sum", pa.int64()),
        ("padded_tokens", pa.int64()),
        ("padding_ratio", pa.float64()),
        ("output_tokens_sum", pa.int64()),
        ("output_tokens_max", pa.int32()),
        ("idle_ratio", pa.float64()),
        ("queue_s", pa.float64()),
        ("preprocess_s", pa.float64()),
        ("transfer_s", pa.float64()),
        ("prefill_s", pa.float64()),
        ("decode_s", pa.float64()),
        ("total_s", pa.float64()),
        ("pages_per_s", pa.float64()),
        ("tokens_per_s", pa.float64()),
        ("gpu_memory_allocated_bytes", pa.int64()),
        ("gpu_memory_reserved_bytes", pa.int64()),
        ("host_memory_bytes", pa.int64()),
        ("gpu_utilization", pa.float32()),
        ("oom_splits", pa.int32()),
        ("size_limit", pa.int32()),
        ("size_reason", pa.string()),
        ("closed_by", pa.string()),
        ("started_at", _TIME),
    ]
)

RUNS = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("config_fingerprint", pa.string(), nullable=False),
        ("started_at", _TIME),
        ("finished_at", _TIME),
        ("outcome", pa.string()),
        ("config", pa.large_string()),
        ("versions", pa.large_string()),
        ("machine", pa.large_string()),
        ("totals", pa.large_string()),
    ]
)

SCHEMAS = {"pages": PAGES, "documents": DOCUMENTS, "batches": BATCHES, "runs": RUNS}

EARLIER: dict[str, dict[str, pa.DataType | None]] = {
    "batches": {"size_limit": None, "size_reason": None, "closed_by": None},
    "pages": {"mean_logprob": None, "min_logprob": None, "lines": pa.list_(pa.struct(_LINE_FIELDS))},
}
"""Columns that parts of earlier versions have with another type, or not at all; what is not there is null."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RunKeys:
    """What every row of a run carries."""

    run_id: str
    config_fingerprint: str
    started_at: datetime
    engine: Identity


def clean(text: str) -> str:
    """Text as a UTF-8 column can hold it and SQL can search it: lone surrogates become U+FFFD, NULs go."""
    text = text.replace("\0", "")
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if _SURROGATE.search(text) else text


def page_row(keys: RunKeys, result: PageResult) -> Row:
    """The row of one page, or of a document that has none."""
    sized, recognition, failure = result.sized, result.recognition, result.failure
    complaint = failure.message if failure else (sized.warning if sized else None)
    message = "; ".join(filter(None, (complaint, recognition.note if recognition else None)))
    read = recognition is not None and result.batch_id is not None
    return {
        "run_id": keys.run_id,
        "config_fingerprint": keys.config_fingerprint,
        "document_id": result.document.document_id,
        "uri": result.document.uri,
        "page_index": result.page.page_index if result.page else None,
        "page_count": result.page.page_count if result.page else None,
        "status": str(result.status),
        "error_code": str(failure.code) if failure else None,
        "error_message": clean(message) if message else None,
        "text": clean(recognition.text) if recognition else None,
        "format": recognition.format if recognition else None,
        "lines": [_line_row(line) for line in recognition.lines] if recognition else None,
        "width_px": sized.width_px if sized else None,
        "height_px": sized.height_px if sized else None,
        "dpi": sized.dpi if sized else None,
        "rotation": sized.rotation if sized else None,
        "text_layer": sized.text_layer if sized else None,
        "length": sized.length if sized else None,
        "output_tokens": recognition.output_tokens if recognition else None,
        "finish_reason": recognition.finish_reason if recognition else None,
        "confidence": recognition.confidence if recognition else None,
        "mean_logprob": recognition.mean_logprob if recognition else None,
        "min_logprob": recognition.min_logprob if recognition else None,
        "engine": keys.engine.name if result.batch_id else None,
        "model": keys.engine.model if read else None,
        "model_revision": keys.engine.model_revision if read else None,
        "task": keys.engine.task if read else None,
        "batch_id": result.batch_id,
        "attempts": result.attempts + (recognition.tries - 1 if recognition else 0),
        "started_at": result.started_at,
        "finished_at": result.finished_at,
    }


def copied_row(keys: RunKeys, row: Row, uri: str, now: datetime) -> Row:
    """The row of a page whose bytes were read under another name: the same, of this run, and read no times."""
    own = {"run_id": keys.run_id, "uri": uri, "batch_id": None, "attempts": 0, "started_at": now, "finished_at": now}
    return {**dict.fromkeys(PAGES.names), **row, **own}


def document_row(keys: RunKeys, document: Document, statuses: dict[str, int], error_code: str | None) -> Row:
    """The row of one document: what it is, and how many of its pages have which status."""
    return {
        "document_id": document.document_id,
        "uri": document.uri,
        "size_bytes": document.size_bytes,
        "modified_at": document.modified_at,
        "etag": document.etag,
        "media_type": document.media_type,
        "page_count": document.page_count,
        **{f"pages_{status}": statuses.get(str(status), 0) for status in Status},
        "error_code": error_code,
        "run_id": keys.run_id,
        "config_fingerprint": keys.config_fingerprint,
    }


def batch_row(keys: RunKeys, report: BatchReport) -> Row:
    """The row of one batch."""
    batch, lengths, tokens = report.batch, report.batch.lengths, report.output_tokens
    seconds = None if report.total_s is None else max(report.total_s, 1e-9)
    return {
        "run_id": keys.run_id,
        "batch_id": batch.batch_id,
        "bucket": batch.bucket,
        "node": report.node,
        "device": report.device,
        "actor": report.actor,
        "batch_size": report.num_pages,
        "length_min": min(lengths),
        "length_max": max(lengths),
        "length_sum": sum(lengths),
        "padded_tokens": batch.padded_tokens,
        "padding_ratio": batch.padding_ratio,
        "output_tokens_sum": sum(tokens),
        "output_tokens_max": max(tokens, default=0),
        "idle_ratio": report.idle_ratio,
        "queue_s": report.queue_s,
        "preprocess_s": report.timings.preprocess_s,
        "transfer_s": report.timings.transfer_s,
        "prefill_s": report.timings.prefill_s,
        "decode_s": report.timings.decode_s,
        "total_s": report.total_s,
        "pages_per_s": report.num_pages / seconds if seconds else None,
        "tokens_per_s": sum(tokens) / seconds if seconds else None,
        "gpu_memory_allocated_bytes": report.gpu.allocated_bytes if report.gpu else None,
        "gpu_memory_reserved_bytes": report.gpu.reserved_bytes if report.gpu else None,
        "host_memory_bytes": report.host_memory_bytes,
        "gpu_utilization": report.gpu.utilization if report.gpu else None,
        "oom_splits": report.oom_splits,
        "size_limit": batch.cut.size_limit if batch.cut else None,
        "size_reason": str(batch.cut.reason) if batch.cut else None,
        "closed_by": str(batch.cut.closed) if batch.cut else None,
        "started_at": report.started_at,
    }


def _line_row(line: Any) -> Row:
    return {"text": clean(line.text), "bbox": line.bbox, "score": line.score, "min_logprob": line.min_logprob}
