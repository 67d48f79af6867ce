"""Killed, doubled, retried: the rows are those of one quiet run."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.dataset as ds
import pytest

from tests import documents

ROOT = Path(__file__).parents[2]
QUICK = ("--engine", "fake", "--runner", "local", "--progress", "none", *documents.EVERY_PAGE_READ)
SLOW = ("--engine-option", "delay_s=0.02", "--engine-option", "batch_size=2", "--commit-seconds", "0.2")


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, str(ROOT / "run_batch.py"), *map(str, arguments)]


def run_batch(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=120, check=False)


def rows(out: Path, columns: str = "uri, page_index, page_count, status, error_code, text") -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        return connection.sql(f"SELECT {columns} FROM '{out}/pages/*/*.parquet' ORDER BY ALL").fetchall()


class Reader(threading.Thread):
    """Reads the whole table over and over while others write it, by a glob and as a folder."""

    def __init__(self, out: Path) -> None:
        super().__init__(daemon=True)
        self.out, self.num_reads, self.num_rows, self.stopped = out, 0, 0, threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stopped.wait(0.01):
                if list(self.out.glob("pages/*/*.parquet")):
                    seen = len(rows(self.out)), ds.dataset(self.out / "pages", format="parquet").count_rows()
                    assert self.num_rows <= seen[0] <= seen[1], "rows have gone"
                    self.num_reads, self.num_rows = self.num_reads + 1, seen[1]
        except BaseException as error:
            self.error = error

    def stop(self) -> int:
        """How often the table was read; raises what reading has raised."""
        self.stopped.set()
        self.join()
        if self.error:
            raise self.error
        return self.num_reads


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = documents.strangers_folder(tmp_path / "in")
    documents.pdf(folder / "long.pdf", 120)
    (folder / "long again.pdf").write_bytes((folder / "long.pdf").read_bytes())
    return folder


PAGES = documents.ROWS_OF_STRANGERS_FOLDER + 120 + 120


def test_killed_twenty_times_at_random_moments_the_rows_are_those_of_one_quiet_run(folder: Path, tmp_path: Path):
    started = time.monotonic()
    run_batch(folder, tmp_path / "quiet", *QUICK)
    quiet_s = time.monotonic() - started
    chooser, out, kills = random.Random(7), tmp_path / "out", 0
    reader = Reader(out)
    reader.start()
    while kills < 20:
        running = subprocess.Popen(command(folder, out, *QUICK, *SLOW), stderr=subprocess.PIPE, text=True)
        try:
            running.communicate(timeout=quiet_s * chooser.uniform(0.2, 1.6))
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGKILL)
            running.communicate()
        kills += 1
    done = run_batch(folder, out, *QUICK, *SLOW)
    assert done.returncode == 1, done.stderr
    assert reader.stop() > 50, "nobody has looked on"
    assert rows(out) == rows(tmp_path / "quiet")
    committed = rows(out, "run_id")
    assert len({run_id for (run_id,) in committed}) > 1, "no killed run has committed anything: the test shows nothing"


def test_two_runs_at_once_double_no_row_and_the_second_says_who_is_first(folder: Path, tmp_path: Path):
    out = tmp_path / "out"
    first = subprocess.Popen(command(folder, out, *QUICK, *SLOW), stderr=subprocess.PIPE, text=True)
    give_up = time.monotonic() + 30
    while not list(out.glob("_lease/*.alive")) and time.monotonic() < give_up:
        time.sleep(0.05)
    second = run_batch(folder, out, *QUICK)
    assert second.returncode == 3, second.stderr
    assert "is in use by run" in second.stderr
    assert "Traceback" not in second.stderr
    first.communicate(timeout=100)
    assert first.returncode == 1
    keys = rows(out, "uri, page_index")
    assert len(keys) == len(set(keys)) == PAGES


def totals(*arguments: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run_batch(*arguments, *QUICK, "--json").stdout)
    return found


def test_only_what_has_changed_is_read_again(folder: Path, tmp_path: Path):
    out = tmp_path / "out"
    assert totals(folder, out)["pages"] == PAGES
    assert totals(folder, out)["pages"] == 0
    assert totals(folder, out, "--batch-size", "3", "--window", "9", "--commit-pages", "5")["pages"] == 0
    documents.pdf(folder / "a.pdf", 6, width_pt=210)
    assert totals(folder, out)["pages"] == 6
    assert totals(folder, out, "--dpi", "50")["pages"] == PAGES + 1
    assert totals(folder, out, "--overwrite")["pages"] == PAGES + 1
    assert totals(folder, out)["pages"] == 0


def test_the_same_bytes_under_other_names_are_read_once_and_reported_under_each(folder: Path, tmp_path: Path):
    out = tmp_path / "out"
    first = totals(folder, out)
    assert (first["pages"], first["pages_copied"], first["batched_pages"]) == (PAGES, 125, PAGES - 125 - 5)
    text = "SELECT uri, page_index, text, document_id FROM '{}/pages/*/*.parquet' WHERE uri LIKE '%{}' ORDER BY ALL"
    for one, other in (("/a.pdf", "/a%20again.pdf"), ("/long.pdf", "/long%20again.pdf")):
        left, right = (duckdb.sql(text.format(out, name)).fetchall() for name in (one, other))
        assert [row[1:] for row in left] == [row[1:] for row in right]
        assert len(left) in (5, 120)
    (folder / "sub folder" / "third.pdf").write_bytes((folder / "a.pdf").read_bytes())
    (folder / "long.pdf").rename(folder / "moved.pdf")
    later = totals(folder, out)
    assert (later["pages"], later["pages_copied"], later["batched_pages"]) == (125, 125, 0)
    told = duckdb.sql(f"SELECT uri FROM '{out}/documents/*/*.parquet' WHERE pages_ok = 120").fetchall()
    assert sorted(uri.rpartition("/")[2] for (uri,) in told) == ["long%20again.pdf", "long.pdf", "moved.pdf"]
    assert totals(folder, out)["pages"] == 0


def test_a_file_swapped_for_one_of_the_same_size_and_time_is_read(folder: Path, tmp_path: Path):
    out, victim = tmp_path / "out", folder / "a.pdf"
    totals(folder, out)
    status, data = victim.stat(), victim.read_bytes()
    victim.write_bytes(data[:-1] + b" ")
    os.utime(victim, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert totals(folder, out)["pages"] == 5
    os.utime(victim)
    assert totals(folder, out)["pages"] == 0


def test_a_file_that_is_again_what_it_once_was_is_the_newest_document_again(folder: Path, tmp_path: Path):
    out, victim = tmp_path / "out", folder / "a.pdf"
    totals(folder, out)
    victim.rename(tmp_path / "aside.pdf")
    documents.pdf(victim, 3)
    assert totals(folder, out)["pages"] == 3
    (tmp_path / "aside.pdf").rename(victim)
    assert totals(folder, out)["pages"] == 0, "it was read before"
    newest = f"SELECT page_count FROM '{out}/documents/*/*.parquet' WHERE uri LIKE '%/in/a.pdf' ORDER BY run_id"
    assert duckdb.sql(newest).fetchall() == [(5,), (3,), (5,)]


def test_an_output_that_is_removed_under_a_run_ends_it_with_3(folder: Path, tmp_path: Path):
    out = tmp_path / "out"
    running = subprocess.Popen(command(folder, out, *QUICK, *SLOW), stderr=subprocess.PIPE, text=True)
    give_up = time.monotonic() + 30
    while not list(out.glob("pages/*/*.parquet")) and time.monotonic() < give_up:
        time.sleep(0.05)
    out.rename(tmp_path / "moved")
    _, said = running.communicate(timeout=100)
    assert running.returncode == 3, said
    assert "was removed or moved away" in said


def test_rows_of_documents_that_a_crash_has_left_out_are_added_by_the_next_run(folder: Path, tmp_path: Path):
    out = tmp_path / "out"
    totals(folder, out)
    columns = "SELECT * EXCLUDE (run_id, run_date) FROM '{}/documents/*/*.parquet' ORDER BY uri"
    before = duckdb.sql(columns.format(out)).fetchall()
    for part in out.glob("documents/*/*.parquet"):
        part.unlink()
    assert totals(folder, out)["pages"] == 0
    assert duckdb.sql(columns.format(out)).fetchall() == before
    assert totals(folder, out)["pages"] == 0
    assert duckdb.sql(columns.format(out)).fetchall() == before


def test_what_is_not_there_is_looked_for_by_each_run_and_told_once(folder: Path, tmp_path: Path):
    out, listed = tmp_path / "out", tmp_path / "list.txt"
    listed.write_text(f"{folder}/a.pdf\n{tmp_path}/late.pdf\n")
    assert totals(f"@{listed}", out)["pages"] == 6
    again = totals(f"@{listed}", out)
    assert (again["pages"], again["pages_failed_before"], again["exit_code"]) == (0, 1, 1)
    documents.pdf(tmp_path / "late.pdf", 2)
    assert totals(f"@{listed}", out)["pages"] == 2
    assert totals(f"@{listed}", out)["exit_code"] == 0


def test_failed_pages_are_read_again_only_when_asked_and_only_those(folder: Path, tmp_path: Path):
    out = tmp_path / "out"
    run_batch(folder, out, *QUICK)

    def pages_read(*options: str) -> int:
        return int(json.loads(run_batch(folder, out, *QUICK, *options, "--json").stdout)["pages"])

    assert pages_read("--retry-failed", "encrypted") == 1
    assert pages_read("--retry-failed", "encrypted,empty_file") == 2
    assert pages_read("--retry-failed", "all") == 4
    assert pages_read() == 0
    main = "import sys; from jobs.cli import main; main(sys.argv[1:])"
    words = [sys.executable, "-c", main, "retry", str(out), "--codes", "empty_file", "--json"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert json.loads(done.stdout)["pages"] == 1
    wrong = run_batch(folder, out, *QUICK, "--retry-failed", "encripted")
    assert (wrong.returncode, "did you mean 'encrypted'?" in wrong.stderr) == (2, True)
