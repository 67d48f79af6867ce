"""Many parts to few: no row lost, none doubled, no reader disturbed, whatever is killed; and old rows dropped."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from jobs.query import QUERIES, query
from jobs.retry import last_configuration
from pipeline.journal import Journal, Move
from pipeline.store import Store
from tests import documents

ROOT = Path(__file__).parents[2]
QUICK = ("--engine", "fake", "--runner", "local", "--progress", "none", *documents.EVERY_PAGE_READ)
TABLES = ("pages", "documents", "batches", "runs")


def command(*arguments: str | Path) -> list[str]:
    main = "import sys; from jobs.cli import main; main(sys.argv[1:])"
    return [sys.executable, "-c", main, *map(str, arguments)]


def pagemill(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def rows(out: Path, table: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        return connection.sql(f"SELECT * FROM '{out}/{table}/*/*.parquet' ORDER BY ALL").fetchall()


def num_parts(out: Path) -> int:
    return sum(1 for _ in out.glob("*/*/*.parquet"))


def no_faults(out: Path) -> dict[str, Any]:
    """What verify says; an output whose only faults are failed inputs has none."""
    done = pagemill("verify", out, "--json")
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["faults"] == [], done.stdout
    return told


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Four runs of a day, each of many parts; one page is read again, one document is changed, one was taken away."""
    folder, out = documents.strangers_folder(tmp_path / "in"), tmp_path / "out"
    documents.pdf(folder / "long.pdf", 40)
    many = (*QUICK, "--commit-pages", "2", "--batch-size", "2", "--window", "2")
    pagemill("run", folder, out, *many)
    documents.pdf(folder / "a.pdf", 6, width_pt=210)
    (folder / "c.png").unlink()
    for more in ((), ("--retry-failed", "all"), ()):
        assert pagemill("run", folder, out, *many, *more).returncode in (0, 1)
    assert num_parts(out) > 50
    return out


class Reader(threading.Thread):
    """Asks for the newest rows over and over while others write; every answer has to be the same."""

    def __init__(self, out: Path) -> None:
        super().__init__(daemon=True)
        self.out, self.num_reads, self.stopped = out, 0, threading.Event()
        self.error: BaseException | None = None
        self.wanted = self.read()

    def read(self) -> tuple[Any, ...]:
        sums = "count(*), count(DISTINCT (uri, page_index)), sum(length(text)), sum(page_index), max(run_id)"
        with duckdb.connect() as connection:
            for table in TABLES:
                connection.execute(f"CREATE VIEW {table} AS SELECT * FROM '{self.out}/{table}/*/*.parquet'")
            connection.execute(f"CREATE VIEW latest AS {(QUERIES / 'latest.sql').read_text()}")
            return tuple(connection.sql(f"SELECT {sums} FROM latest").fetchall()[0])

    def run(self) -> None:
        try:
            while not self.stopped.wait(0.01):
                try:
                    assert self.read() == self.wanted
                except duckdb.IOException as error:
                    if "No such file" not in str(error):  # else taken away after it was listed: once more
                        raise
                    continue
                self.num_reads += 1
        except BaseException as error:
            self.error = error

    def stop(self) -> int:
        self.stopped.set()
        self.join()
        if self.error:
            raise self.error
        return self.num_reads


def test_compacted_the_rows_are_the_same_in_few_parts(out: Path, tmp_path: Path):
    before = {table: rows(out, table) for table in TABLES}
    parts = num_parts(out)
    done = pagemill("compact", out, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["parts_before"], told["parts_after"], told["rows_dropped"]) == (parts, num_parts(out), 0)
    assert num_parts(out) == 4, "one of each table: all runs were of one day"
    assert {table: rows(out, table) for table in TABLES} == before
    for part in out.glob("*/*/*.parquet"):
        column = pq.ParquetFile(part).metadata.row_group(0).column(0)
        assert (column.compression, column.is_stats_set) == ("ZSTD", True)
    assert no_faults(out)["finished_runs"] == 4
    assert "4 before, 4 now" in pagemill("compact", out).stdout
    again = pagemill("run", tmp_path / "in", out, *QUICK, "--json")
    assert json.loads(again.stdout)["pages"] == 0, "a run knows what is done by the merged parts"
    assert last_configuration(str(out), "all").commit_pages == 20_000, "the newest of the merged runs"


def test_killed_at_random_moments_a_compaction_loses_and_doubles_nothing_and_a_reader_sees_no_difference(
    out: Path, tmp_path: Path
):
    before, chooser, halfway = {table: rows(out, table) for table in TABLES}, random.Random(5), 0
    for number in range(8):
        copy = tmp_path / f"copy {number}"
        shutil.copytree(out, copy)
        reader = Reader(copy)
        reader.start()
        running = subprocess.Popen(command("compact", copy), cwd=ROOT)
        while running.poll() is None and not list(copy.glob("_compact/*.json")):
            time.sleep(0.001)
        time.sleep(chooser.uniform(0.0, 0.08))
        running.send_signal(signal.SIGKILL)
        running.wait()
        if list(copy.glob("_compact/*.json")):
            halfway += 1
            assert no_faults(copy)["rows"] == sum(map(len, before.values()))
        done = pagemill("compact", copy)
        assert done.returncode == 0, done.stderr
        assert reader.stop() > 5
        assert {table: rows(copy, table) for table in TABLES} == before
        assert num_parts(copy) == 4
    assert halfway > 1, "no compaction was killed half-way: the test shows nothing"


def test_the_next_run_finishes_a_compaction_that_was_cut_off(out: Path, tmp_path: Path):
    before, store = rows(out, "documents"), Store.existing(str(out))
    key = store.keys("documents")[0]
    new = key.replace("-00000.parquet", "-compact-00000.parquet")
    Journal.begin(store, "20260101T000000-x", [Move((key,), new)])
    store.put_new(new, store.get(key))
    assert len(rows(out, "documents")) > len(before), "doubled for now"
    no_faults(out)
    assert pagemill("run", tmp_path / "in", out, *QUICK).returncode == 1
    assert rows(out, "documents") == before
    assert not store.keys("_compact")


def test_a_run_under_way_keeps_its_output_to_itself(out: Path, tmp_path: Path):
    documents.pdf(tmp_path / "in" / "more.pdf", 100)
    slow = ("--engine-option", "delay_s=0.05", "--engine-option", "batch_size=1")
    running = subprocess.Popen(command("run", tmp_path / "in", out, *QUICK, *slow), cwd=ROOT)
    give_up = time.monotonic() + 30
    while not _is_held(out) and time.monotonic() < give_up:
        time.sleep(0.02)
    done = pagemill("compact", out)
    running.terminate()
    running.wait()
    assert (done.returncode, "is in use by run" in done.stderr) == (3, True)


def _is_held(out: Path) -> bool:
    newest = max((path.stem for path in out.glob("_lease/*.json")), default="")
    return bool(newest) and not (out / "_lease" / f"{newest}.released").exists() and int(newest) > 4


def _age(out: Path, days: int) -> None:
    """Let all that is there have been written so many days ago."""
    then = (datetime.now(UTC) - timedelta(days=days)).date().isoformat()
    for table in TABLES:
        for folder in (out / table).iterdir():
            folder.rename(folder.with_name(f"run_date={then}"))


def _latest(out: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(query(str(out), "SELECT * FROM latest ORDER BY uri, page_index").as_json())
    return [{name: value for name, value in row.items() if name != "run_date"} for row in found]


def test_old_rows_go_and_the_newest_of_each_document_stay(out: Path, tmp_path: Path):
    _age(out, 100)
    latest, all_rows = _latest(out), {table: len(rows(out, table)) for table in TABLES}
    kept = pagemill("compact", out, "--keep-superseded", "100", "--keep-vanished", "100", "--json")
    assert json.loads(kept.stdout)["rows_dropped"] == 0, "not old enough"
    done = pagemill("compact", out, "--keep-superseded", "30", "--json")
    assert json.loads(done.stdout)["rows_dropped"] > 5, done.stderr
    assert _latest(out) == latest
    assert len(rows(out, "pages")) == len(latest) + 1, "the picture that vanished has its row yet"
    no_faults(out)
    done = pagemill("compact", out, "--keep-vanished", "30", "--json")
    assert json.loads(done.stdout)["rows_dropped"] == 3, "its page, its row in documents, and that it has vanished"
    assert _latest(out) == latest
    assert len(rows(out, "pages")) == len(latest)
    assert {table: len(rows(out, table)) for table in ("batches", "runs")} == {
        table: all_rows[table] for table in ("batches", "runs")
    }
    no_faults(out)
    assert json.loads(pagemill("run", tmp_path / "in", out, *QUICK, "--json").stdout)["pages"] == 0


def test_old_telemetry_goes_but_for_that_of_the_newest_run(out: Path, tmp_path: Path):
    _age(out, 100)
    pages = rows(out, "pages")
    pagemill("compact", out, "--keep-telemetry", "30")
    assert len(rows(out, "runs")) == 4, "what the inputs were is known by it"
    pagemill("run", tmp_path / "in", out, *QUICK)
    pagemill("compact", out, "--keep-telemetry", "30")
    assert len(rows(out, "runs")) == 1
    assert not list(out.glob("batches/*/*"))
    assert rows(out, "pages") == pages
    no_faults(out)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--table", "page"), "there is no table 'page'; did you mean 'pages'?"),
        (("--target-mb", "0"), "--target-mb must be at least 1"),
        (("--keep-vanished", "0"), "vanished days to keep must be a whole number from 1"),
        (("--keep-telemetry", "3", "--keep-superseded", "9"), "telemetry must be kept for the 9 days"),
    ],
)
def test_what_makes_no_sense_is_one_line(tmp_path: Path, arguments: tuple[str, ...], words: str):
    done = pagemill("compact", tmp_path, *arguments)
    assert (done.returncode, words in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr
    assert not list(tmp_path.iterdir())


def test_a_damaged_part_is_told_in_one_line_and_nothing_is_taken_away(out: Path):
    part = sorted(out.glob("pages/*/*.parquet"))[3]
    part.write_bytes(part.read_bytes()[:-40])
    parts = num_parts(out)
    done = pagemill("compact", out)
    assert (done.returncode, "is damaged" in done.stderr, "Traceback" in done.stderr) == (3, True, False)
    assert num_parts(out) >= parts


def test_an_audit_finds_what_is_wrong_with_a_merged_part(out: Path):
    pagemill("compact", out)
    (pages,) = out.glob("pages/*/*.parquet")
    data = pages.read_bytes()
    pages.unlink()
    codes = json.loads(pagemill("verify", out, "--json").stdout)["faults_by_code"]
    assert codes["run_totals"] >= 4
    assert codes["lost_pages"] > 5
    pages.write_bytes(data[:1000] + b"\0" * 2000 + data[3000:])
    codes = json.loads(pagemill("verify", out, "--json").stdout)["faults_by_code"]
    assert codes["damaged_part"] == 1, "told once, whatever the number of its runs"
