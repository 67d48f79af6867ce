"""Night after night: what is new, changed and gone is told apart; a night that is too short leaves nobody behind."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from jobs.query import query
from jobs.run import RunReport, run
from jobs.summary import summary
from jobs.verify import verify
from pipeline.config import JobConfig
from pipeline.errors import EXIT_DONE, EXIT_OUT_OF_TIME, EXIT_PAGES_FAILED
from tests import documents

FAR = datetime.now(UTC) + timedelta(days=1)


def _job(folder: Path, **options: Any) -> JobConfig:
    fixed: dict[str, Any] = {"engine": "fake", "runner": "local", "progress": "none", **documents.READ_EVERY_PAGE}
    inputs = (str(folder),)
    return JobConfig(**{"inputs": inputs, "out": str(folder.parent / "out"), **fixed, **options})


def _changes(report: RunReport) -> tuple[int, int, int]:
    totals = report.totals
    return totals.documents_new, totals.documents_changed, totals.documents_vanished


def _latest(folder: Path) -> set[str]:
    """The names below the folder of what the view `latest` has."""
    connection = query(str(folder.parent / "out"), "SELECT DISTINCT uri FROM latest")._relation
    return {uri.removeprefix(f"file://{folder}/") for (uri,) in connection.fetchall()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    (folder / "sub").mkdir(parents=True)
    documents.pdf(folder / "a.pdf", 2)
    documents.pdf(folder / "sub" / "b.pdf", 1)
    members = {name: documents.pdf(tmp_path / name, 1, width_pt=w).read_bytes() for name, w in (("c", 220), ("d", 240))}
    documents.zip_of(folder / "z.zip", members)
    return folder


def test_new_changed_and_vanished_documents_are_told_apart_and_counted(folder: Path):
    assert _changes(run(_job(folder))) == (4, 0, 0)
    assert _changes(run(_job(folder))) == (0, 0, 0)
    documents.pdf(folder / "a.pdf", 3)
    documents.pdf(folder / "e.pdf", 1, width_pt=260)
    (folder / "sub" / "b.pdf").unlink()
    report = run(_job(folder))
    assert _changes(report) == (1, 1, 1)
    assert ": 1 new, 1 changed, 1 vanished" in summary(report)
    assert _latest(folder) == {"a.pdf", "e.pdf", "z.zip!/c", "z.zip!/d"}
    assert _changes(run(_job(folder))) == (0, 0, 0), "it is told once"
    ((uri, missed_by, rows_kept, _),) = query(report.out, "vanished")._relation.fetchall()
    assert (uri.rpartition("/")[2], missed_by, rows_kept) == ("b.pdf", report.run_id, 1)
    assert verify(report.out, ()).audit.faults == []


def test_another_configuration_or_a_touched_file_is_no_change(folder: Path):
    run(_job(folder))
    os.utime(folder / "a.pdf")
    assert _changes(run(_job(folder))) == (0, 0, 0)
    assert _changes(run(_job(folder, dpi=40.0))) == (0, 0, 0)
    assert _changes(run(_job(folder, overwrite=True))) == (0, 0, 0)


def test_what_comes_back_as_it_was_is_new_again_and_is_not_read_again(folder: Path):
    run(_job(folder))
    (folder / "sub").rename(folder.parent / "aside")
    assert _changes(run(_job(folder))) == (0, 0, 1)
    assert "sub/b.pdf" not in _latest(folder)
    (folder.parent / "aside").rename(folder / "sub")
    assert verify(str(folder.parent / "out"), ()).exit_code == 1, "its newest row says that it is gone"
    back = run(_job(folder))
    assert (_changes(back), back.totals.batches) == ((1, 0, 0), 0)
    assert "sub/b.pdf" in _latest(folder)
    assert query(back.out, "vanished")._relation.fetchall() == []
    assert verify(back.out, ()).audit.faults == []


def test_a_run_under_other_options_knows_what_has_vanished_and_come_back(folder: Path):
    run(_job(folder))
    run(_job(folder, dpi=40.0))
    (folder / "sub").rename(folder.parent / "aside")
    run(_job(folder, dpi=40.0))
    (folder.parent / "aside").rename(folder / "sub")
    assert _changes(run(_job(folder))) == (1, 0, 0)
    assert "sub/b.pdf" in _latest(folder)


def test_members_of_an_archive_vanish_with_it_or_out_of_it(folder: Path, tmp_path: Path):
    run(_job(folder))
    kept = {"c": (tmp_path / "c").read_bytes()}
    documents.zip_of(folder / "z.zip", kept)
    assert _changes(run(_job(folder))) == (0, 0, 1)
    assert _latest(folder) == {"a.pdf", "sub/b.pdf", "z.zip!/c"}
    (folder / "z.zip").unlink()
    assert _changes(run(_job(folder))) == (0, 0, 1)
    assert _latest(folder) == {"a.pdf", "sub/b.pdf"}


def _cut_archive(folder: Path) -> None:
    data = (folder / "z.zip").read_bytes()
    (folder / "z.zip").write_bytes(data[: len(data) // 3])


def _lock_folder(folder: Path) -> None:
    (folder / "sub").chmod(0)


def _other_disk(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


@pytest.mark.parametrize("damage", [_cut_archive, _lock_folder, _other_disk])
def test_nothing_vanishes_where_nobody_could_look(folder: Path, damage: Any, request: pytest.FixtureRequest):
    if damage is _lock_folder and os.geteuid() == 0:
        pytest.skip("for root no folder is locked")
    run(_job(folder))
    damage(folder)
    request.addfinalizer(lambda: (folder / "sub").exists() and (folder / "sub").chmod(0o700))
    report = run(_job(folder))
    assert report.totals.documents_vanished == 0
    assert {"sub/b.pdf", "z.zip!/d"} <= _latest(folder)


def test_nothing_vanishes_that_is_left_out_or_lies_elsewhere_or_was_not_looked_for(folder: Path):
    run(_job(folder))
    assert _changes(run(_job(folder, exclude=("sub/", "d")))) == (0, 0, 0)
    (folder / "a.pdf").unlink()
    assert _changes(run(_job(folder / "sub", out=str(folder.parent / "out")))) == (0, 0, 0)
    documents.pdf(folder / "0 new.pdf", 4)
    stopped = run(_job(folder), until=datetime(2000, 1, 1, tzinfo=UTC))
    assert (stopped.outcome, _changes(stopped)) == ("out_of_time", (0, 0, 0))
    assert _changes(run(_job(folder))) == (1, 0, 1)


def test_a_pattern_looks_through_the_folder_above_its_stars(folder: Path):
    pattern = str(folder / "**" / "*.pdf")
    job = replace(_job(folder), inputs=(pattern,))
    assert _changes(run(job)) == (2, 0, 0)
    (folder / "sub" / "b.pdf").unlink()
    assert _changes(run(job)) == (0, 0, 1)


def _short_nights(monkeypatch: pytest.MonkeyPatch, pages: int) -> None:
    """Let each run stop, by its clock, once it has read so many pages."""
    from jobs.outcome import TimedWatch

    def look(self: TimedWatch, flow: Any) -> None:
        if flow.totals.pages >= pages:
            self.until = datetime(2000, 1, 1, tzinfo=UTC)

    monkeypatch.setattr(TimedWatch, "look", look)


@pytest.mark.parametrize(("order", "starves"), [("oldest", False), ("listed", True)])
def test_with_nights_that_are_too_short_and_new_documents_every_day_the_oldest_is_read_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str, starves: bool
):
    """Four documents a night, four new ones a day, and a backlog of eight: each is read within three nights."""
    folder = tmp_path / "in"
    folder.mkdir()
    names, numbers = list[list[str]](), iter(range(1000))
    _short_nights(monkeypatch, 4)

    def arrive(count: int, day: int) -> None:
        names.append([f"{99 - day:02d}-{next(numbers)}.pdf" for _ in range(count)])  # newer names are listed first
        for name in names[-1]:
            documents.pdf(folder / name, 1, width_pt=200 + len(name) + next(numbers))

    arrive(12, 0)
    options = {"order": order, "batch_size": 1, "pages_per_task": 1, "max_page_wait": 0.0}
    for day in range(1, 6):
        report = run(_job(folder, **options), until=FAR)
        assert (report.outcome, report.exit_code) == ("out_of_time", EXIT_OUT_OF_TIME)
        read = _latest(folder)
        due = {name for arrived in names[: max(0, day - 2)] for name in arrived}
        if not starves:
            assert due <= read
        arrive(4, day)
    assert bool(set(names[0]) - _latest(folder)) == starves


@pytest.mark.parametrize(
    ("budget", "exit_code"),
    [
        ("", EXIT_PAGES_FAILED),
        ("0", EXIT_PAGES_FAILED),
        ("1", EXIT_DONE),
        ("19%", EXIT_PAGES_FAILED),
        ("20%", EXIT_DONE),
    ],
)
def test_a_failure_budget_turns_the_exit_code_and_not_the_work(folder: Path, budget: str, exit_code: int):
    report = run(_job(folder, engine_options=("fail_pages=1",), max_failed_pages=budget))
    assert (report.totals.pages, report.totals.pages_failed) == (5, 1)
    assert (report.outcome, report.exit_code) == ("pages_failed", exit_code)
    again = run(_job(folder, engine_options=("fail_pages=1",), max_failed_pages=budget))
    assert again.exit_code == (EXIT_DONE if budget else EXIT_PAGES_FAILED), "told on its own night, if at all"


def test_a_night_that_fails_too_much_says_so_also_when_it_was_too_short(folder: Path, monkeypatch: pytest.MonkeyPatch):
    _short_nights(monkeypatch, 2)
    options = {"engine_options": ("fail_pages=1",), "batch_size": 1, "pages_per_task": 1, "max_page_wait": 0.0}
    report = run(_job(folder, **options), until=FAR)
    assert (report.outcome, report.exit_code) == ("out_of_time", EXIT_PAGES_FAILED)
    assert duckdb.sql(f"SELECT outcome FROM '{report.out}/runs/*/*.parquet'").fetchall() == [("out_of_time",)]
    assert not {fault.code for fault in verify(report.out, ()).audit.faults} - {"unread", "incomplete"}


def test_stop_at_is_a_time_of_the_clocks_here_and_what_is_left_comes_next(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    """By a clock that stands still until two pages are read, and then is at the time."""
    from jobs.outcome import TimedWatch

    clock = [datetime(2026, 12, 3, 22, 0, tzinfo=UTC)]
    soon = clock[0].astimezone() + timedelta(minutes=14)

    def look(self: TimedWatch, flow: Any) -> None:
        if flow.totals.pages == 2:
            clock[0] = soon

    monkeypatch.setattr("jobs.run._now", lambda: clock[0])
    monkeypatch.setattr(TimedWatch, "look", look)
    options = {"batch_size": 1, "pages_per_task": 1, "max_page_wait": 0.0}
    report = run(_job(folder, stop_at=f"{soon:%H:%M}", **options))
    assert (report.outcome, report.exit_code) == ("out_of_time", EXIT_OUT_OF_TIME)
    assert 0 < report.totals.pages < 5
    assert report.num_committed == report.totals.pages
    rest = run(_job(folder, stop_at=f"{soon:%H:%M}"))
    assert (rest.outcome, rest.totals.pages) == ("done", 5 - report.totals.pages), "the next such time is tomorrow"


def test_a_folder_that_cannot_be_listed_keeps_all_that_was_below_it(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """As a network share that answers with an error, and says of each file that there is none."""
    run(_job(folder))
    scandir = os.scandir

    def broken(path: Any = ".") -> Any:
        if str(path).endswith("/sub"):
            raise OSError(5, "Input/output error")
        return scandir(path)

    (folder / "sub" / "b.pdf").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", broken)
        report = run(_job(folder))
    assert (report.totals.documents_vanished, report.totals.failures_by_code) == (0, {"unreadable": 1})
    assert "sub/b.pdf" in _latest(folder)
    assert _changes(run(_job(folder))) == (0, 0, 2), "the file, and the row of the folder itself"
