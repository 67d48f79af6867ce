"""An output of an earlier version, without the columns that came later, is taken for what it is and gone on with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.run import RunReport, run
from jobs.summary import summary
from jobs.verify import verify
from pipeline.config import JobConfig
from pipeline.ledger import Ledger
from pipeline.store import Store
from pipeline.table import EARLIER, PAGES
from tests import documents


def _job(folder: Path, output: Path, **options: Any) -> JobConfig:
    fixed: dict[str, Any] = {"engine": "fake", "runner": "local", "progress": "none", **documents.READ_EVERY_PAGE}
    return JobConfig(inputs=(str(folder),), out=str(output), **fixed, **options)


def _made_earlier(path: Path) -> None:
    """Write a part as the version before would have."""
    data = pq.ParquetFile(path).read()
    rows = data.to_pylist()
    for row in rows:
        for line in row["lines"] or ():
            del line["min_logprob"]
    fields = [pa.field(f.name, EARLIER["pages"].get(f.name, f.type) or pa.null(), f.nullable) for f in PAGES]
    schema = pa.schema([field for field in fields if field.type != pa.null()])
    path.unlink()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, write_page_checksum=True)


@pytest.fixture
def earlier(tmp_path: Path) -> RunReport:
    """A finished run of the version before, with a failed page."""
    (tmp_path / "in").mkdir()
    documents.pdf(tmp_path / "in" / "a.pdf", 3)
    report = run(_job(tmp_path / "in", tmp_path / "out"))
    for path in (tmp_path / "out" / "pages").glob("*/*.parquet"):
        _made_earlier(path)
    return report


def _rows(out: Path) -> list[dict[str, Any]]:
    return [row for path in sorted(out.glob("pages/*/*.parquet")) for row in pq.ParquetFile(path).read().to_pylist()]


def test_the_columns_that_came_later_are_not_there(earlier: RunReport, tmp_path: Path):
    first = _rows(tmp_path / "out")[0]
    assert not {"mean_logprob", "min_logprob"} & set(first)
    assert set(first["lines"][0]) == {"text", "bbox", "score"}


def test_an_earlier_output_counts_as_done_and_is_shown(earlier: RunReport, tmp_path: Path):
    again = run(_job(tmp_path / "in", tmp_path / "out"))
    assert (again.totals.pages, again.totals.pages_already_done) == (0, 3)
    assert "page 1 of 3" in summary(earlier)
    assert len(Ledger.read(Store.open(str(tmp_path / "out")), earlier.keys.config_fingerprint).parts) == 1


def test_an_earlier_output_is_sound(earlier: RunReport, tmp_path: Path):
    assert verify(str(tmp_path / "out"), ()).faults == []


def test_rows_of_an_earlier_output_are_copied_for_another_name_and_null_in_what_they_lack(
    earlier: RunReport, tmp_path: Path
):
    (tmp_path / "in" / "b.pdf").write_bytes((tmp_path / "in" / "a.pdf").read_bytes())
    again = run(_job(tmp_path / "in", tmp_path / "out"))
    assert (again.totals.pages, again.totals.pages_copied) == (3, 3)
    copies = [row for row in _rows(tmp_path / "out") if row["run_id"] == again.run_id]
    originals = [row for row in _rows(tmp_path / "out") if row["run_id"] == earlier.run_id]
    assert [row["text"] for row in copies] == [row["text"] for row in originals]
    assert {(row["mean_logprob"], row["min_logprob"], row["lines"][0]["min_logprob"]) for row in copies} == {
        (None, None, None)
    }
    assert verify(str(tmp_path / "out"), ()).faults == []


def test_a_column_that_was_always_there_and_is_not_is_a_fault(earlier: RunReport, tmp_path: Path):
    (path,) = (tmp_path / "out" / "pages").glob("*/*.parquet")
    data = pq.ParquetFile(path).read().drop_columns(["confidence"])
    path.unlink()
    pq.write_table(data, path, write_page_checksum=True)
    (fault,) = verify(str(tmp_path / "out"), ()).faults
    assert (str(fault.code), fault.message) == ("wrong_schema", "lacks confidence")
