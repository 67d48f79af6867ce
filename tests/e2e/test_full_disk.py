"""A full disk is no fault of a page: the run stops, all that is written can be read, and it goes on with room."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from tests import documents

ROOT = Path(__file__).resolve().parents[2]


def _mount(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["mount", *options], capture_output=True, text=True, check=False)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 KiB in memory."""
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        done = _mount("-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder))
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def _run(source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, str(ROOT / "run_batch.py"), str(source), str(out), "--runner", "local", "--engine", "fake"]
    words += ["--progress", "none", "--commit-pages", "4", "--batch-size", "4"]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)


def _rows(out: Path) -> list[tuple[object, ...]]:
    query = f"SELECT uri, page_index, page_count, status, text FROM '{out}/pages/*/*.parquet' ORDER BY ALL"
    return duckdb.sql(query).fetchall()


def test_a_run_into_a_full_disk_says_so_and_the_same_command_finishes_once_there_is_room(
    disk: Path, tmp_path: Path
) -> None:
    source = documents.pdf(tmp_path / "a.pdf", 150)
    assert _run(source, tmp_path / "undisturbed").returncode == 0
    out = disk / "out"

    full = _run(source, out)
    assert full.returncode == 3, full.stderr
    errors = [line for line in full.stderr.splitlines() if line.startswith("pagemill: error: ")]
    assert len(errors) == 1, full.stderr
    assert "No space left on device" in errors[0]
    assert "make room there first" in errors[0]
    assert "the same command goes on from there" in full.stderr
    assert "Traceback" not in full.stderr
    parts = list(out.rglob("*.parquet"))
    assert sum(pq.read_table(part).num_rows for part in parts) > 0, "each part that is there is whole"
    assert 0 < len(_rows(out)) < 150
    assert f"committed  {len(_rows(out))} of these rows" in full.stdout

    assert _mount("-o", "remount,size=8m", str(disk)).returncode == 0
    done = _run(source, out)
    assert done.returncode == 0, done.stderr
    assert _rows(out) == _rows(tmp_path / "undisturbed")


def test_a_disk_that_is_full_from_the_start_is_told_in_one_line(disk: Path, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        (disk / "filling").write_bytes(bytes(256 << 10))
    done = _run(documents.pdf(tmp_path / "a.pdf", 1), disk / "out")
    assert done.returncode == 3, done.stderr
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
