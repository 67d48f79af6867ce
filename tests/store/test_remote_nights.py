"""Nights over a bucket: what is new, changed and gone there, oldest first, and parts put together in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs.run import RunReport, run
from jobs.upkeep import UpkeepOptions, compact
from jobs.verify import verify
from pipeline.config import JobConfig
from pipeline.parquet import part_keys, read_columns
from pipeline.source import Discovery
from pipeline.store import Store
from tests import documents
from tests.store import servers

Put = Callable[[str, bytes], None]


def _job(bucket: str, **options: Any) -> JobConfig:
    fixed: dict[str, Any] = {"engine": "fake", "runner": "local", "progress": "none", **documents.READ_EVERY_PAGE}
    places = {"inputs": (f"s3://{bucket}/in/",), "out": f"s3://{bucket}/out"}
    return JobConfig(**{**places, **fixed, **options})


def _changes(report: RunReport) -> tuple[int, int, int]:
    totals = report.totals
    return totals.documents_new, totals.documents_changed, totals.documents_vanished


@pytest.fixture
def pdf(tmp_path: Path) -> Callable[[int], bytes]:
    return lambda pages: documents.pdf(tmp_path / f"{pages}.pdf", pages).read_bytes()


def test_new_changed_and_vanished_objects_are_told_apart(
    bucket: str, put: Put, pdf: Callable[[int], bytes], s3_environment: str
):
    once = pdf(1)
    put("in/a.pdf", pdf(2))
    put("in/sub/b c.pdf", once)
    put("in/left.pdf", pdf(3))
    assert _changes(run(_job(bucket))) == (3, 0, 0)
    assert _changes(run(_job(bucket, exclude=("left.pdf",)))) == (0, 0, 0), "left out is not gone"
    put("in/a.pdf", pdf(4))
    servers.client(s3_environment).delete_object(Bucket=bucket, Key="in/sub/b c.pdf")
    assert _changes(run(_job(bucket, exclude=("left.pdf",), order="oldest"))) == (0, 1, 1)
    put("in/sub/b c.pdf", once)
    back = run(_job(bucket))
    assert (_changes(back), back.totals.batches) == ((1, 0, 0), 0)
    assert verify(back.out, ()).audit.faults == []


def test_a_pattern_and_an_object_on_its_own_are_looked_through(bucket: str, put: Put, pdf: Callable[[int], bytes]):
    put("in/a.pdf", pdf(1))
    given = (f"s3://{bucket}/in/x/**/*.pdf", f"s3://{bucket}/in/a.pdf", f"s3://{bucket}")
    assert list(Discovery(given).roots()) == [f"s3://{bucket}/in/x/", f"s3://{bucket}/in/a.pdf", f"s3://{bucket}/"]
    assert not Discovery(given).is_gone(f"s3://{bucket}/in/a.pdf")
    assert not Discovery(given).is_gone(f"s3://{bucket}/in/a.pdf!/in an archive")
    assert Discovery(given).is_gone(f"s3://{bucket}/in/b.pdf")
    times = [source.since_ns for source in Discovery(given).sources()]
    assert times
    assert None not in times


def test_parts_in_a_bucket_are_put_together(bucket: str, put: Put, pdf: Callable[[int], bytes]):
    put("in/a.pdf", pdf(9))
    report = run(_job(bucket, commit_pages=1, batch_size=1, window=1))
    store = Store.existing(report.out)
    columns = ("uri", "page_index", "text", "run_id")

    def rows() -> list[tuple[Any, ...]]:
        return sorted(row for part in read_columns(store, "pages", columns) for row in part)

    before = rows()
    assert len(part_keys(store, "pages")) > 3
    told = compact(report.out, UpkeepOptions())
    assert told.parts_after == 4
    assert len(part_keys(store, "pages")) == 1
    assert rows() == before
    assert verify(report.out, ()).audit.faults == []
    assert run(_job(bucket)).totals.pages == 0
