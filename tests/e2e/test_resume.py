"""Killed, doubled, retried: the rows are those of one quiet run."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests import documents

ROOT = Path(__file__).parents[2]
QUICK = ("--engine", "fake", "--runner", "local", "--progress", "none")
SLOW = ("--engine-option", "delay_s=0.02", "--engine-option", "batch_size=2", "--commit-seconds", "0.2")


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, str(ROOT / "run_batch.py"), *map(str, arguments)]


def run_batch(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=120, check=False)


def rows(out: Path, columns: str = "uri, page_index, page_count, status, error_code, text") -> list[tuple[Any, ...]]:
    return duckdb.sql(f"SELECT {columns} FROM '{out}/pages/*/*.parquet' ORDER BY ALL").fetchall()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = documents.strangers_folder(tmp_path / "in")
    documents.pdf(folder / "long.pdf", 120)
    return folder


def test_killed_twenty_times_at_random_moments_the_rows_are_those_of_one_quiet_run(folder: Path, tmp_path: Path):
    run_batch(folder, tmp_path / "quiet", *QUICK)
    chooser, out, kills = random.Random(7), tmp_path / "out", 0
    while kills < 20:
        running = subprocess.Popen(command(folder, out, *QUICK, *SLOW), stderr=subprocess.PIPE, text=True)
        try:
            running.communicate(timeout=chooser.uniform(0.3, 2.0))
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGKILL)
            running.communicate()
        kills += 1
    done = run_batch(folder, out, *QUICK, *SLOW)
    assert done.returncode == 1, done.stderr
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
    assert len(keys) == len(set(keys)) == documents.ROWS_OF_STRANGERS_FOLDER + 120


def test_only_what_has_changed_is_read_again(folder: Path, tmp_path: Path):
    out = tmp_path / "out"
    run_batch(folder, out, *QUICK)

    def pages_read(*options: str) -> int:
        done = run_batch(folder, out, *QUICK, *options, "--json")
        return int(json.loads(done.stdout)["pages"])

    assert pages_read() == 0
    assert pages_read("--batch-size", "3", "--window", "9", "--commit-pages", "5") == 0
    documents.pdf(folder / "a.pdf", 6, width_pt=210)
    assert pages_read() == 6
    assert pages_read("--dpi", "50") == 12 + 1 + 120 + 5
    assert pages_read("--overwrite") == 12 + 1 + 120 + 5
    assert pages_read() == 0


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
