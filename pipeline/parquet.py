"""The four tables: their schemas, how rows are made, written and read; the only pyarrow.parquet import.

Files are Hive-partitioned by ``run_date`` alone: the column is in the path and not in the file, so that
DuckDB, Polars, pandas, Spark and Arrow all agree about it. ``run_id`` is in the rows and in the file names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.document import Document
from pipeline.engines.engine import Identity
from pipeline.errors import StorageError
from pipeline.result import BatchReport, PageResult, Status, one_line
from pipeline.store import Store

ROW_GROUP_BYTES = 32 << 20
"""Aim for row groups of this size before compression: large enough to scan fast, small enough to skip."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_TIME = pa.timestamp("us", tz="UTC")
_LINE = pa.struct([("text", pa.large_string()), ("bbox", pa.list_(pa.float32())), ("score", pa.float32())])

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
        ("length", pa.int32()),
        ("output_tokens", pa.int32()),
        ("finish_reason", pa.string()),
        ("confidence", pa.float32()),
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
        ("started_at", _TIME),
    ]
)

RUNS = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
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
    message = failure.message if failure else (f"renderer: {sized.warning}" if sized and sized.warning else None)
    read = recognition is not None
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
        "length": sized.length if sized else None,
        "output_tokens": recognition.output_tokens if recognition else None,
        "finish_reason": recognition.finish_reason if recognition else None,
        "confidence": recognition.confidence if recognition else None,
        "engine": keys.engine.name if read or result.batch_id else None,
        "model": keys.engine.model if read else None,
        "model_revision": keys.engine.model_revision if read else None,
        "task": keys.engine.task if read else None,
        "batch_id": result.batch_id,
        "attempts": result.attempts,
        "started_at": result.started_at,
        "finished_at": result.finished_at,
    }


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
    return {
        "run_id": keys.run_id,
        "batch_id": batch.batch_id,
        "bucket": batch.bucket,
        "node": report.node,
        "device": report.device,
        "actor": report.actor,
        "batch_size": len(lengths),
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
        "pages_per_s": len(lengths) / max(report.total_s, 1e-9),
        "tokens_per_s": sum(tokens) / max(report.total_s, 1e-9),
        "gpu_memory_allocated_bytes": report.gpu_memory_allocated_bytes,
        "gpu_memory_reserved_bytes": report.gpu_memory_reserved_bytes,
        "host_memory_bytes": report.host_memory_bytes,
        "gpu_utilization": report.gpu_utilization,
        "oom_splits": report.oom_splits,
        "started_at": report.started_at,
    }


def encode(table: str, rows: Sequence[Row], num_bytes: int | None = None) -> bytes:
    """Rows as one Parquet file in memory, zstd, with row groups of about `ROW_GROUP_BYTES`.

    Args:
        table: A key of `SCHEMAS`.
        rows: At least one.
        num_bytes: What the rows hold, if known; otherwise Arrow is asked.
    """
    data = pa.Table.from_pylist(list(rows), schema=SCHEMAS[table])
    per_row = max(1, (num_bytes or data.nbytes) // len(rows))
    sink = pa.BufferOutputStream()
    pq.write_table(
        data,
        sink,
        compression="zstd",
        row_group_size=max(1, ROW_GROUP_BYTES // per_row),
        use_dictionary=True,
        write_page_index=True,
    )
    return bytes(sink.getvalue())


def part_key(table: str, keys: RunKeys, number: int) -> str:
    """Where the part of this number goes (zero-based): the same for the same run and number, always."""
    return f"{table}/run_date={keys.started_at:%Y-%m-%d}/{keys.run_id}-{number:05d}.parquet"


def read_columns(store: Store, table: str, columns: Sequence[str]) -> Iterator[Iterable[tuple[Any, ...]]]:
    """The named columns of a whole table, part by part, as tuples; nothing else of the parts is decoded.

    Raises:
        StorageError: a part cannot be read, or is none of ours.
    """
    for key in store.keys(table):
        if key.endswith(".parquet"):
            part = _read(store, key, columns)
            yield zip(*(part.column(name).to_pylist() for name in columns), strict=True)


def first_rows(store: Store, key: str, columns: Sequence[str]) -> list[Row]:
    """The rows of the first row group of one part, with the named columns; raises as `read_columns` does."""
    return list(_read(store, key, columns, max_groups=1).to_pylist())


def _read(store: Store, key: str, columns: Sequence[str], max_groups: int | None = None) -> Any:
    """Columns of one part, read in this thread alone.

    Arrow's pools let go of a file's bytes late; one that does so while the interpreter ends aborts the process.
    """
    data = store.get(key)
    try:
        file = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)
        groups = list(range(file.num_row_groups))[:max_groups]
        return file.read_row_groups(groups, columns=list(columns), use_threads=False).select(list(columns))
    except (pa.ArrowException, OSError, KeyError) as error:
        raise StorageError(f"{key} is damaged, or no part of this table: {one_line(str(error))}") from error


def _line_row(line: Any) -> Row:
    return {"text": clean(line.text), "bbox": line.bbox, "score": line.score}
