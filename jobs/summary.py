"""The end of a run in words: what was read, what was not, where it lies, and how to look at it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from itertools import accumulate
from unicodedata import east_asian_width
from urllib.parse import unquote

from jobs.run import RunReport
from pipeline.document import member_of_uri, path_of_uri
from pipeline.errors import StorageError
from pipeline.location import is_remote
from pipeline.parquet import first_rows, part_key
from pipeline.result import one_line
from pipeline.stats import Buckets, BucketTotals, Totals
from pipeline.store import Store
from pipeline.table import Row

_MAX_DOCUMENTS = 12
_TEXT_WIDTH = 60


def summary(report: RunReport) -> str:
    """The lines that end `pagemill run`."""
    return "\n".join(_lines(report))


def _lines(report: RunReport) -> Iterator[str]:
    totals = report.totals
    if totals.pages:
        yield from _what_was_read(report)
        yield ""
    yield f"documents  {totals.documents}{_of_before(totals.documents_already_done)}{_changes(totals)}"
    yield f"pages      {totals.pages}{_of_before(totals.pages_already_done)}{_counts(totals.pages_by_status)}"
    if report.num_committed < totals.pages:
        yield f"committed  {report.num_committed} of these rows; the same command reads the others again"
    if totals.pages_copied:
        yield f"           {totals.pages_copied} copied, since the same bytes were read under another name"
    if totals.failures_by_code:
        yield f"reasons    {_counts(totals.failures_by_code).strip(' :')}"
    if totals.pages_failed_before:
        yield f"           {totals.pages_failed_before} pages had failed in an earlier run"
    if report.num_ignored:
        yield f"left out   {report.num_ignored} files and folders (hidden, unfinished, or by an ignore pattern)"
    start = f", of which {report.startup_s:.1f} s to start; then {report.pages_per_s:.2f} pages/s"
    yield f"time       {report.seconds:.1f} s{start if totals.pages > totals.pages_copied else ''}"
    if totals.batches:
        mean = totals.batched_pages / totals.batches
        yield f"batches    {totals.batches}, {mean:.1f} pages each, {totals.padding_ratio:.1%} padding"
        yield from bucket_table(totals.buckets)
    yield f"output     {report.out}"
    if not (totals.pages or totals.pages_already_done):
        yield f"           {'no documents were found' if report.outcome == 'done' else 'nothing was read'}"
        return
    yield f"look at it {_query(report.out)}"


def bucket_table(buckets: Buckets) -> Iterator[str]:
    """A line for each bucket: what its batches held, padded and left idle, and how fast one engine read them."""
    heads = f"{'bucket':>9}{'pages':>8}{'batches':>9}{'padded tokens':>15}{'idle slots':>12}{'pages/s/engine':>16}"
    yield f"{'':>11}{heads}"
    yield from (_bucket_line(f"<= {name}", bucket) for name, bucket in sorted(buckets.items()))
    if len(buckets) > 1:
        yield _bucket_line("all", buckets.whole())


def _bucket_line(name: str, bucket: BucketTotals) -> str:
    padded = f"{bucket.padded_tokens} {bucket.padding_ratio:6.1%}"
    idle = "-" if bucket.idle_ratio is None else f"{bucket.idle_ratio:.1%}"
    rate = "-" if bucket.pages_per_s is None else f"{bucket.pages_per_s:.2f}"
    return f"{'':>11}{name:>9}{bucket.pages:>8}{bucket.batches:>9}{padded:>15}{idle:>12}{rate:>16}"


def _what_was_read(report: RunReport) -> Iterator[str]:
    """The first line of the first pages of a few documents, read back from what was committed."""
    columns = ("uri", "page_index", "page_count", "status", "error_code", "text")
    try:
        rows = first_rows(Store.open(report.out), part_key("pages", report.keys, 0), columns)
    except StorageError:
        return
    seen: dict[str, Row] = {}
    for row in rows:
        seen.setdefault(row["uri"], row)
    names = [_name(uri) for uri in list(seen)[:_MAX_DOCUMENTS]]
    width = max((len(name) for name in names), default=0)
    for name, row in zip(names, seen.values(), strict=False):
        pages = f"{row['page_count']} p." if row["page_count"] else ""
        yield f"{name:{width}}  {pages:>6}  {row['status']:<10}  {_said(row)}"
    if len(seen) > _MAX_DOCUMENTS:
        yield "..."


def _said(row: Row) -> str:
    if row["error_code"]:
        return str(row["error_code"])
    text = " ".join((row["text"] or "").split())
    ends = accumulate(2 if east_asian_width(character) in "WF" else 1 for character in text)
    fitting = sum(end <= _TEXT_WIDTH - 3 for end in ends)
    return text if fitting >= len(text) - 3 else text[:fitting] + "..."


def _name(uri: str) -> str:
    member = unquote(member_of_uri(uri))
    path = os.path.basename(path_of_uri(uri)) + (f"!/{member}" if member else "")
    name = one_line(path.encode(errors="replace").decode())
    return name if len(name) <= 40 else name[:18] + "..." + name[-19:]


def _of_before(count: int) -> str:
    return f" ({count} more were done before)" if count else ""


def _changes(totals: Totals) -> str:
    counts = {
        "new": totals.documents_new, "changed": totals.documents_changed, "vanished": totals.documents_vanished
    }  # fmt: skip
    return _counts({name: count for name, count in counts.items() if count})


def _counts(counter: Mapping[str, int]) -> str:
    if not counter:
        return ""
    return ": " + ", ".join(f"{count} {name}" for name, count in sorted(counter.items(), key=lambda c: -c[1]))


def _query(out: str) -> str:
    if is_remote(out):
        return f"pagemill query {shlex.quote(out)} failures"
    pattern = os.path.join(out, "pages", "*", "*.parquet").replace("'", "''")
    columns = "uri, page_index + 1 AS page, status, left(text, 60) AS text"
    sql = f"SELECT {columns} FROM '{pattern}' ORDER BY uri, page_index"  # noqa: S608 (shown, never run)
    return f"duckdb -c {shlex.quote(sql)}" if "'" in out else f'duckdb -c "{sql}"'
