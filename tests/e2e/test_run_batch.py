"""The command as a person runs it, in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pytest

from tests import documents

ROOT = Path(__file__).parents[2]
FAKE = ("--engine", "fake", "--progress", "none", *documents.EVERY_PAGE_READ)
LOCAL = (*FAKE, "--runner", "local")


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, str(ROOT / "run_batch.py"), *map(str, arguments)]


def pagemill(*arguments: str | Path, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    main = "import sys; from jobs.cli import main; main(sys.argv[1:])"
    words = [sys.executable, "-c", main, *map(str, arguments)]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False)


def run_batch(*arguments: str | Path, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=timeout_s, check=False)


def rows(out: Path, columns: str = "uri, page_index, status, error_code, text") -> list[tuple[Any, ...]]:
    return duckdb.sql(f"SELECT {columns} FROM '{out}/pages/*/*.parquet' ORDER BY ALL").fetchall()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return documents.strangers_folder(tmp_path / "in")


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files of commands of this test alone; its name is short, for Ray's sockets lie below."""
    with tempfile.TemporaryDirectory(prefix="pm") as name:
        monkeypatch.setenv("TMPDIR", name)
        yield Path(name)


def assert_one_line_error(done: subprocess.CompletedProcess[str], exit_code: int, words: str) -> None:
    assert done.returncode == exit_code, done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("pagemill: error: ")]
    assert len(errors) == 1, done.stderr
    assert words in errors[0]
    assert "Traceback" not in done.stderr


def test_a_strangers_folder_gives_one_row_for_every_page_on_ray(folder: Path, tmp_path: Path, temporary: Path) -> None:
    out = tmp_path / "out"
    done = run_batch(folder, out, *FAKE, "--json")
    assert done.returncode == 1, done.stderr
    totals = json.loads(done.stdout)
    assert totals["pages"] == documents.ROWS_OF_STRANGERS_FOLDER == len(rows(out))
    assert totals["pages_by_status"] == {"ok": 17, "failed": 4, "skipped": 1}
    codes = {"encrypted": 1, "empty_file": 1, "broken_document": 1, "not_a_document": 1, "office_document": 1}
    assert totals["failures_by_code"] == codes
    assert "Traceback" not in done.stderr
    assert list(temporary.iterdir()) == [], "Ray's temporary files are still there"

    again = run_batch(folder, out, *LOCAL, "--json")
    totals = json.loads(again.stdout)
    assert (totals["pages"], totals["pages_already_done"], again.returncode) == (0, 22, 1)
    assert len(rows(out)) == documents.ROWS_OF_STRANGERS_FOLDER


def test_the_summary_says_what_was_read_and_where_it_lies(folder: Path, tmp_path: Path) -> None:
    done = run_batch(folder, tmp_path / "out", *LOCAL)
    assert "c.png" in done.stdout
    assert "pages      22: 17 ok, 4 failed, 1 skipped" in done.stdout
    assert f"output     {tmp_path / 'out'}" in done.stdout
    query = done.stdout.split('duckdb -c "')[1].split('"')[0]
    assert len(duckdb.sql(query).fetchall()) == documents.ROWS_OF_STRANGERS_FOLDER


def test_the_tables_are_read_by_duckdb_polars_and_pandas_through_globs(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_batch(folder, out, *LOCAL)
    for table, count in {"pages": 22, "documents": 10, "batches": None, "runs": 1}.items():
        glob = f"{out}/{table}/**/*.parquet"
        found = duckdb.sql(f"SELECT * FROM read_parquet('{glob}', hive_partitioning = true)").fetchall()
        lazily = pl.scan_parquet(glob, hive_partitioning=True).collect()
        frame = pd.read_parquet(out / table)
        assert len(found) == len(lazily) == len(frame) == (count or len(found)) > 0
        assert "run_date" in frame.columns
        assert "run_date" in lazily.columns
    lines = duckdb.sql(f"SELECT unnest(lines) FROM '{out}/pages/*/*.parquet'").fetchall()
    assert set(lines[0][0]) == {"text", "bbox", "score", "min_logprob"}
    documents_table = duckdb.sql(f"SELECT page_count, pages_ok FROM '{out}/documents/*/*.parquet' ORDER BY ALL")
    assert documents_table.fetchall() == [(1, 1), (3, 3), (3, 3), (5, 5), (5, 5), *[(None, 0)] * 5]


def interrupted(
    arguments: list[str], *signals_at_s: float, number: signal.Signals = signal.SIGINT
) -> tuple[int, str, float]:
    """Run in a process group of its own and send the signal to the whole group, as a terminal does."""
    running = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, start_new_session=True)
    for delay_s in signals_at_s:
        time.sleep(delay_s)
        if number is signal.SIGINT:
            os.killpg(running.pid, number)
        else:
            running.send_signal(number)
    sent = time.monotonic()
    _, errors = running.communicate(timeout=90)
    return running.returncode, errors, time.monotonic() - sent


def test_ctrl_c_commits_what_is_in_flight_and_the_same_command_goes_on(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    documents.pdf(tmp_path / "in" / "long.pdf", 200)
    out = tmp_path / "out"
    slow = ("--engine-option", "delay_s=0.2", "--engine-option", "batch_size=2")
    code, errors, _ = interrupted(command(tmp_path / "in", out, *FAKE, *slow), 16)
    assert code == 130, errors
    assert "finishing the batches in flight" in errors
    assert "Traceback" not in errors
    first = rows(out, "page_index")
    assert 0 < len(first) < 200
    quick = ("--engine-option", "delay_s=0.0", "--engine-option", "batch_size=2")
    done = run_batch(tmp_path / "in", out, *LOCAL, *quick, "--json")
    assert json.loads(done.stdout)["pages_already_done"] == len(first)
    assert done.returncode == 0
    assert rows(out, "page_index") == [(index,) for index in range(200)]


def test_sigterm_while_ray_starts_is_an_interruption_too(tmp_path: Path, temporary: Path) -> None:
    """Ray has a handler of its own until the start is over, which would end the process with 15."""
    documents.pdf(tmp_path / "a.pdf", 1)
    arguments = command(tmp_path / "a.pdf", tmp_path / "out", *FAKE)
    running = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    give_up = time.monotonic() + 60
    while not list(temporary.glob("pagemill-*/session_2*")) and time.monotonic() < give_up:
        time.sleep(0.02)
    running.send_signal(signal.SIGTERM)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130, said
    assert "Traceback" not in said


def test_sigterm_to_a_run_on_ray_commits_and_leaves_like_ctrl_c(tmp_path: Path) -> None:
    documents.pdf(tmp_path / "long.pdf", 200)
    slow = ("--engine-option", "delay_s=0.2", "--engine-option", "batch_size=2")
    arguments = command(tmp_path / "long.pdf", tmp_path / "out", *FAKE, *slow)
    code, errors, _ = interrupted(arguments, 16, number=signal.SIGTERM)
    assert code == 130, errors
    assert "finishing the batches in flight" in errors
    assert "SIGTERM received" not in errors
    assert 0 < len(rows(tmp_path / "out", "page_index")) < 200


def test_ctrl_c_twice_stops_at_once(tmp_path: Path) -> None:
    documents.pdf(tmp_path / "long.pdf", 50)
    slow = ("--engine-option", "delay_s=60", "--engine-option", "batch_size=1")
    code, errors, took_s = interrupted(command(tmp_path / "long.pdf", tmp_path / "out", *FAKE, *slow), 14, 1)
    assert code == 130, errors
    assert "Traceback" not in errors
    assert took_s < 20


def test_an_empty_folder_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    done = run_batch(tmp_path / "in", tmp_path / "out", *LOCAL)
    assert done.returncode == 0
    assert "no documents were found" in done.stdout


def test_a_missing_path_is_a_wrong_usage_in_one_line(tmp_path: Path) -> None:
    done = run_batch(tmp_path / "nowhere", tmp_path / "out", *LOCAL)
    assert_one_line_error(done, 2, f"no such file or folder, and nothing matches: {tmp_path / 'nowhere'}")
    assert not (tmp_path / "out").exists()


def test_an_output_that_is_a_file_is_a_wrong_usage_in_one_line(tmp_path: Path) -> None:
    documents.pdf(tmp_path / "a.pdf", 1)
    (tmp_path / "out").write_text("a file")
    assert_one_line_error(run_batch(tmp_path / "a.pdf", tmp_path / "out", *LOCAL), 2, "is not a folder")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--engine", "rapidorc"), "there is no engine 'rapidorc'; did you mean 'rapidocr'?"),
        (("--engine", "fake", "--engine-option", "delay=1"), "did you mean 'delay_s'?"),
        (("--engine", "fake", "--runner", "spark"), "--runner must be one of ray, local"),
        (("--engine", "fake", "--window", "0"), "--window must be at least 1"),
    ],
)
def test_a_wrong_option_is_told_in_one_line(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    documents.pdf(tmp_path / "a.pdf", 1)
    assert_one_line_error(run_batch(tmp_path / "a.pdf", tmp_path / "out", *arguments), 2, words)


def test_a_job_file_sets_options_a_flag_beats_it_and_an_unknown_key_names_the_nearest(tmp_path: Path) -> None:
    documents.pdf(tmp_path / "a.pdf", 3)
    job = tmp_path / "job.toml"
    lines = [f'inputs = ["{tmp_path}/a.pdf"]', f'out = "{tmp_path}/out"', 'engine = "fake"', 'runner = "local"']
    job.write_text("\n".join([*lines, "batch_size = 1", 'progress = "none"', 'text_layer = "never"']))
    done = run_batch("--config", job, "--batch-size", "3", "--json")
    totals = json.loads(done.stdout)
    assert (totals["pages"], totals["batches"], totals["engine"]) == (3, 1, "fake")
    resolved = json.loads(duckdb.sql(f"SELECT config FROM '{tmp_path}/out/runs/*/*.parquet'").fetchall()[0][0])
    assert (resolved["batch_size"], resolved["engine"]) == ("3", "fake")
    job.write_text("\n".join([*lines, "batchsize = 1"]))
    assert_one_line_error(run_batch("--config", job), 2, "unknown key 'batchsize'; did you mean 'batch_size'?")


def test_plan_tells_what_a_run_then_does(folder: Path, tmp_path: Path) -> None:
    plan = json.loads(pagemill("plan", folder, "--engine", "fake", "--json").stdout)
    totals = json.loads(run_batch(folder, tmp_path / "out", *LOCAL, "--json").stdout)
    assert plan["pages"] + plan["pages_copied"] == totals["pages_by_status"]["ok"] == 17
    assert plan["pages_copied"] == totals["pages_copied"] == 5
    assert plan["documents"] + len(plan["unreadable"]) == totals["documents"]
    found = duckdb.sql(f"SELECT bucket, sum(batch_size) FROM '{tmp_path}/out/batches/*/*.parquet' GROUP BY ALL")
    assert {b["bucket"]: b["pages"] for b in plan["buckets"]} == dict(found.fetchall())
    text = pagemill("plan", folder, "--engine", "fake").stdout
    assert "cannot read" in text
    assert "application/pdf" in text


def test_engines_version_and_help_answer() -> None:
    found = {e["engine"]: e for e in json.loads(pagemill("engines", "--json").stdout)}
    assert found["rapidocr"]["usable"]
    assert "taken by 'auto'" in pagemill("engines").stdout
    assert pagemill("--version").stdout.startswith("pagemill 0.")
    for words in (("--help",), ("run", "--help"), ("plan", "--help")):
        done = pagemill(*words)
        assert done.returncode == 0
        assert "Usage" in done.stdout
    groups = pagemill("run", "--help").stdout
    assert all(group in groups for group in ("Input", "Engine", "Raster", "Batches", "Output", "Runner"))


def test_a_killed_run_leaves_no_temporary_files_once_another_has_started(tmp_path: Path, temporary: Path) -> None:
    documents.pdf(tmp_path / "a.pdf", 50)
    slow = ("--engine-option", "delay_s=1")
    killed = subprocess.Popen(command(tmp_path / "a.pdf", tmp_path / "out", *FAKE, *slow), stderr=subprocess.DEVNULL)
    give_up = time.monotonic() + 60
    while not (left := set(temporary.glob("pagemill-*/session_*"))) and time.monotonic() < give_up:
        time.sleep(0.1)
    killed.kill()
    killed.wait()
    assert left
    assert run_batch(tmp_path / "a.pdf", tmp_path / "out", *FAKE).returncode == 0
    assert not [folder for folder in left if folder.exists()]


def test_under_nohup_a_run_outlives_its_terminal(tmp_path: Path) -> None:
    documents.pdf(tmp_path / "a.pdf", 20)
    slow = ("--engine-option", "delay_s=0.2", "--engine-option", "batch_size=1")
    words = ["nohup", *command(tmp_path / "a.pdf", tmp_path / "out", *LOCAL, *slow)]
    running = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(3)
    running.send_signal(signal.SIGHUP)
    assert running.wait(timeout=60) == 0
    assert len(rows(tmp_path / "out")) == 20
