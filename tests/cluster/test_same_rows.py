"""The cluster gives the same rows as this process alone, whatever dies on the way."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from jobs.run import RunReport, run
from jobs.verify import verify
from pipeline.config import JobConfig
from tests import documents

COLUMNS = ["uri", "page_index", "page_count", "status", "error_code", "text", "width_px", "length", "document_id"]


def rows(out: Path) -> list[tuple[Any, ...]]:
    """What was committed, order aside."""
    found = []
    for part in sorted(out.glob("pages/*/*.parquet")):
        found += [tuple(row[c] for c in COLUMNS) for row in pq.ParquetFile(part).read(columns=COLUMNS).to_pylist()]
    return sorted(found, key=repr)


def job(inputs: Path, out: Path, address: str, *engine_options: str, engine: str = "fake", **options: Any) -> JobConfig:
    """A job with a fake engine; without an address it runs in this process."""
    where = {"runner": "ray", "ray_address": address} if address else {"runner": "local"}
    settings: dict[str, Any] = {
        "engine": engine,
        "engine_options": engine_options,
        "progress": "none",
    } | documents.READ_EVERY_PAGE
    return JobConfig(inputs=(str(inputs),), out=str(out), **settings, **where, **options)


def processes_named(name: str) -> list[int]:
    """Process ids of Ray workers that do this at the moment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if command.startswith(f"ray::{name}".encode()):
                found.append(int(entry.name))
    return found


def kill_soon(name: str, times: int) -> Callable[[], int]:
    """Kill a worker of this name as soon as there is one, again and again; gives what ends it and says how often."""
    killed: set[int] = set()
    is_over = threading.Event()

    def hunt() -> None:
        while len(killed) < times and not is_over.wait(0.1):
            for pid in set(processes_named(name)) - killed:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
                break

    thread = threading.Thread(target=hunt, daemon=True)
    thread.start()

    def num_killed() -> int:
        is_over.set()
        thread.join()
        return len(killed)

    return num_killed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return documents.strangers_folder(tmp_path / "in")


@pytest.fixture
def expected(folder: Path, tmp_path: Path) -> list[tuple[Any, ...]]:
    run(job(folder, tmp_path / "local", ""))
    return rows(tmp_path / "local")


def test_the_cluster_gives_the_same_rows_as_local(
    folder: Path, expected: list[tuple[Any, ...]], tmp_path: Path, ray_address: str
) -> None:
    report = run(job(folder, tmp_path / "ray", ray_address))
    assert rows(tmp_path / "ray") == expected
    assert len(expected) == documents.ROWS_OF_STRANGERS_FOLDER
    assert report.exit_code == 1
    again = run(job(folder, tmp_path / "ray", ray_address))
    assert (again.totals.pages, again.totals.documents, again.exit_code) == (0, 0, 1)
    assert rows(tmp_path / "ray") == expected


def test_a_page_that_kills_its_engine_fails_alone(tmp_path: Path, ray_address: str) -> None:
    (tmp_path / "in").mkdir()
    documents.pdf(tmp_path / "in" / "ten.pdf", 10)
    report = run(job(tmp_path / "in", tmp_path / "out", ray_address, "die_pages=6"))
    found = {row[1]: (row[3], row[4]) for row in rows(tmp_path / "out")}
    assert found == {i: ("failed", "engine_crashed") if i == 6 else ("ok", None) for i in range(10)}
    assert report.totals.failures_by_code == {"engine_crashed": 1}


def test_an_engine_that_raises_or_forgets_a_page_costs_that_page(tmp_path: Path, ray_address: str) -> None:
    (tmp_path / "in").mkdir()
    documents.pdf(tmp_path / "in" / "ten.pdf", 10)
    run(job(tmp_path / "in", tmp_path / "out", ray_address, "fail_pages=2", "drop_pages=9"))
    bad = {row[1]: row[4] for row in rows(tmp_path / "out") if row[3] == "failed"}
    assert bad == {2: "engine_error", 9: "engine_contract"}


@pytest.mark.parametrize("victim", ["EngineActor", "render_task"])
def test_killed_processes_lose_no_page(victim: str, tmp_path: Path, ray_address: str) -> None:
    (tmp_path / "in").mkdir()
    for name in "abc":
        documents.pdf(tmp_path / "in" / f"{name}.pdf", 40, width_pt=600, height_pt=800)
    options = ("delay_s=0.03", "dpi=150")
    run(job(tmp_path / "in", tmp_path / "local", "", "dpi=150"))
    num_killed = kill_soon(victim, times=2)
    # A small budget keeps the rasterizers at work for the whole run.
    report = run(job(tmp_path / "in", tmp_path / "ray", ray_address, *options, raster_memory_mb=64, actors=1))
    assert num_killed() > 0
    assert report.exit_code == 0
    assert rows(tmp_path / "ray") == rows(tmp_path / "local")


def test_an_engine_that_cannot_load_ends_the_run_and_says_why(tmp_path: Path, ray_address: str) -> None:
    (tmp_path / "in").mkdir()
    documents.pdf(tmp_path / "in" / "one.pdf", 1)
    report: RunReport = run(job(tmp_path / "in", tmp_path / "out", ray_address, "unusable=true"))
    assert (report.exit_code, report.outcome) == (3, "unfinished")
    assert report.problem == "engine fake cannot be loaded: the fake engine was told not to load"
    assert rows(tmp_path / "out") == []


def test_an_engine_that_breaks_once_loses_nothing_and_blames_no_page(tmp_path: Path, ray_address: str) -> None:
    (tmp_path / "in").mkdir()
    documents.pdf(tmp_path / "in" / "ten.pdf", 10)
    run(job(tmp_path / "in", tmp_path / "local", ""))
    marker = tmp_path / "broken"
    report = run(job(tmp_path / "in", tmp_path / "ray", ray_address, f"break_once={marker}", batch_size=3))
    assert marker.exists()
    assert report.exit_code == 0
    assert rows(tmp_path / "ray") == rows(tmp_path / "local")


def test_a_page_that_breaks_every_engine_fails_alone(tmp_path: Path, ray_address: str) -> None:
    (tmp_path / "in").mkdir()
    documents.pdf(tmp_path / "in" / "ten.pdf", 10)
    run(job(tmp_path / "in", tmp_path / "out", ray_address, "break_pages=6"))
    assert {row[1]: row[4] for row in rows(tmp_path / "out") if row[4]} == {6: "engine_crashed"}


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("oom_pages=6", "the device has no memory left for one page, and other processes hold 8.0 GiB"),
        ("down_pages=6", "the fake engine was told to be down"),
    ],
)
def test_what_is_no_fault_of_a_page_ends_the_run_and_leaves_the_page_to_the_next(
    option: str, said: str, tmp_path: Path, ray_address: str
) -> None:
    (tmp_path / "in").mkdir()
    documents.pdf(tmp_path / "in" / "ten.pdf", 10)
    out, cut = tmp_path / "out", {"batch_size": 1, "commit_pages": 1, "actors": 1}
    report = run(job(tmp_path / "in", out, ray_address, option, "others_hold=true", **cut))
    assert (report.exit_code, report.outcome) == (3, "unfinished")
    assert (report.problem or "").startswith(said)
    before = rows(out)
    assert {row[3] for row in before} == {"ok"}
    assert 6 not in {row[1] for row in before}
    again = run(job(tmp_path / "in", out, ray_address, **cut))
    assert (again.exit_code, again.totals.pages) == (0, 10 - len(before))
    assert sorted(row[1] for row in rows(out)) == list(range(10))


def test_a_cluster_that_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    from pipeline.errors import ClusterError

    documents.pdf(tmp_path / "one.pdf", 1)
    with pytest.raises(ClusterError, match=r"^cannot join Ray at 127\.0\.0\.1:1: [^\n]+$"):
        run(job(tmp_path / "one.pdf", tmp_path / "out", "127.0.0.1:1"))


def test_a_page_that_kills_hangs_or_starves_its_rasterizer_fails_alone(tmp_path: Path, ray_address: str) -> None:
    (tmp_path / "in").mkdir()
    acts = {"a": ["ok", "ok", "abort", "ok"], "b": ["ok", "spin", "ok"], "c": ["eat", "ok"], "d": ["probe-hang"]}
    for name, pages in acts.items():
        (tmp_path / "in" / name).write_bytes(b"%PAGEMILL-FAKE\n" + json.dumps(pages).encode())
    documents.pdf(tmp_path / "in" / "good.pdf", 3)
    limits = {"fake_decoder": True, "page_timeout": 6.0, "rasterizer_memory_mb": 1000}
    report = run(job(tmp_path / "in", tmp_path / "out", ray_address, **limits))
    found = {(row[0].rpartition("/")[2], row[1]): row[4] for row in rows(tmp_path / "out") if row[4]}
    codes = {("a", 2): "rasterizer_crashed", ("b", 1): "page_timeout", ("c", 0): "out_of_memory"}
    assert found == {**codes, ("d", None): "page_timeout"}
    assert report.totals.pages_by_status == {"ok": 9, "failed": 4}


# engines that tell of their pages one by one

STREAM: dict[str, Any] = {"engine": "fake_stream", "batch_size": 8}


def statuses(out: Path) -> dict[int, str]:
    """What became of the pages of a single document."""
    return {row[1]: row[4] or row[3] for row in rows(out)}


@pytest.mark.parametrize("at_once", [1, 3])
def test_pages_told_one_by_one_give_the_same_rows_as_local(
    at_once: int, folder: Path, tmp_path: Path, ray_address: str
) -> None:
    options = ("fail_pages=1", "drop_pages=2", "truncated_pages=0", "twice_pages=0")
    run(job(folder, tmp_path / "local", "", *options, **STREAM))
    report = run(job(folder, tmp_path / "ray", ray_address, *options, f"batches_at_once={at_once}", **STREAM))
    assert rows(tmp_path / "ray") == rows(tmp_path / "local")
    assert report.totals.pages_by_status["truncated"] > 1
    assert {"engine_error", "engine_contract"} <= set(report.totals.failures_by_code)
    assert verify(str(tmp_path / "ray"), ()).faults == []


@pytest.mark.parametrize("at_once", [1, 3])
def test_an_actor_killed_in_the_middle_of_its_batches_loses_and_doubles_nothing(
    at_once: int, tmp_path: Path, ray_address: str
) -> None:
    (tmp_path / "in").mkdir()
    for name in "ab":
        documents.pdf(tmp_path / "in" / f"{name}.pdf", 40)
    options = ("delay_s=0.05", f"batches_at_once={at_once}")
    run(job(tmp_path / "in", tmp_path / "local", "", **STREAM))
    num_killed = kill_soon("EngineActor.recognize", times=2)
    report = run(job(tmp_path / "in", tmp_path / "ray", ray_address, *options, actors=1, **STREAM))
    assert num_killed() > 0
    assert report.exit_code == 0
    assert rows(tmp_path / "ray") == rows(tmp_path / "local")
    assert verify(str(tmp_path / "ray"), ()).faults == []


@pytest.mark.parametrize(("at_once", "batch_size"), [(1, 8), (3, 8), (4, 1)])
def test_a_page_that_kills_an_engine_of_several_batches_fails_alone(
    at_once: int, batch_size: int, tmp_path: Path, ray_address: str
) -> None:
    (tmp_path / "in").mkdir()
    documents.pdf(tmp_path / "in" / "thirty.pdf", 30)
    options = ("die_pages=6", "delay_s=0.01", f"batches_at_once={at_once}")
    engine = STREAM | {"batch_size": batch_size, "actors": 1}
    run(job(tmp_path / "in", tmp_path / "out", ray_address, *options, **engine))
    assert statuses(tmp_path / "out") == {n: "engine_crashed" if n == 6 else "ok" for n in range(30)}
    assert verify(str(tmp_path / "out"), ()).faults == []


def test_an_engine_of_several_batches_that_breaks_once_loses_nothing(tmp_path: Path, ray_address: str) -> None:
    (tmp_path / "in").mkdir()
    documents.pdf(tmp_path / "in" / "thirty.pdf", 30)
    options = (f"break_once={tmp_path / 'broken'}", "delay_s=0.02", "batches_at_once=3")
    report = run(job(tmp_path / "in", tmp_path / "out", ray_address, *options, **STREAM))
    assert report.exit_code == 0
    assert statuses(tmp_path / "out") == dict.fromkeys(range(30), "ok")


def test_what_was_told_before_the_run_had_to_end_is_committed(tmp_path: Path, ray_address: str) -> None:
    (tmp_path / "in").mkdir()
    documents.pdf(tmp_path / "in" / "ten.pdf", 10)
    options = ("down_pages=6", "delay_s=0.2", "in_order=true")
    report = run(job(tmp_path / "in", tmp_path / "out", ray_address, *options, actors=1, window=10, **STREAM))
    assert (report.exit_code, report.problem) == (3, "the fake engine was told to be down")
    found = statuses(tmp_path / "out")
    assert found
    assert set(found.values()) == {"ok"}
    again = run(job(tmp_path / "in", tmp_path / "out", ray_address, actors=1, **STREAM))
    assert (again.exit_code, again.totals.pages) == (0, 10 - len(found))


def test_what_engines_have_to_say_is_said_once(
    tmp_path: Path, ray_address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").mkdir()
    documents.pdf(tmp_path / "in" / "ten.pdf", 10)
    for address in ("", ray_address):
        run(job(tmp_path / "in", tmp_path / f"out{address}", address, "notice=reads in fp32", actors=2))
        assert capsys.readouterr().err.count("pagemill: reads in fp32\n") == 1
