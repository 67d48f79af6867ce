"""The serial reference from end to end: a folder in, one row for every page out, and nothing the second time."""

from __future__ import annotations

import json
import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jobs.plan import make_plan
from jobs.retry import last_configuration
from jobs.run import RunReport, run
from jobs.summary import summary
from jobs.verify import verify
from pipeline.config import JobConfig
from pipeline.errors import (
    EXIT_DONE,
    EXIT_PAGES_FAILED,
    EXIT_UNFINISHED,
    ConfigurationError,
    EngineLostError,
    InputError,
    StorageError,
    UsageError,
)
from pipeline.parquet import read_columns
from pipeline.store import Store
from tests import documents

from .rasters import pdf_of_pages

COLUMNS = ("uri", "page_index", "page_count", "status", "error_code", "text", "batch_id", "length")


def _job(folder: Path, output: Path, *engine_options: str, **options: Any) -> JobConfig:
    fixed: dict[str, Any] = {"engine": "fake", "engine_options": engine_options, "runner": "local", "progress": "none"}
    fixed |= documents.READ_EVERY_PAGE
    return JobConfig(**{"inputs": (str(folder),), "out": str(output), **fixed, **options})


def _rows(out: Path, table: str = "pages", columns: tuple[str, ...] = COLUMNS) -> list[dict[str, Any]]:
    parts = read_columns(Store.open(str(out)), table, columns)
    return [dict(zip(columns, row, strict=True)) for part in parts for row in part]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of real life: documents of several kinds, and rubbish among them."""
    return documents.strangers_folder(tmp_path / "in")


@pytest.fixture
def ran(folder: Path, tmp_path: Path) -> RunReport:
    return run(_job(folder, tmp_path / "out"))


def test_every_page_of_a_strangers_folder_has_one_row(ran: RunReport, tmp_path: Path):
    rows = _rows(tmp_path / "out")
    assert len(rows) == documents.ROWS_OF_STRANGERS_FOLDER
    assert len({(row["uri"], row["page_index"]) for row in rows}) == len(rows)
    statuses = Counter((row["status"], row["error_code"]) for row in rows)
    assert statuses == {
        ("ok", None): 17,
        ("failed", "encrypted"): 1,
        ("failed", "empty_file"): 1,
        ("failed", "broken_document"): 1,
        ("failed", "not_a_document"): 1,
        ("skipped", "office_document"): 1,
    }
    assert (ran.outcome, ran.exit_code) == ("pages_failed", EXIT_PAGES_FAILED)
    assert ran.num_ignored == 1


def test_every_row_has_the_text_of_its_own_page(ran: RunReport, tmp_path: Path):
    for row in _rows(tmp_path / "out"):
        if row["status"] == "ok":
            assert row["text"].startswith(f"page {row['page_index'] + 1} of {row['page_count']}, ")


def test_a_second_run_reads_nothing_and_writes_no_page(ran: RunReport, folder: Path, tmp_path: Path):
    before = _rows(tmp_path / "out")
    again = run(_job(folder, tmp_path / "out"))
    assert _rows(tmp_path / "out") == before
    assert again.totals.pages == again.totals.batches == 0
    assert again.totals.pages_already_done == documents.ROWS_OF_STRANGERS_FOLDER
    assert again.totals.pages_failed_before == 4
    assert again.exit_code == EXIT_PAGES_FAILED, "what failed before has still no text"


def test_a_second_run_reads_what_is_new_and_what_has_changed(ran: RunReport, folder: Path, tmp_path: Path):
    documents.pdf(folder / "new.pdf", 2)
    documents.pdf(folder / "a.pdf", 1)
    again = run(_job(folder, tmp_path / "out"))
    assert again.totals.pages == 3
    rows = _rows(tmp_path / "out", columns=("uri", "page_index", "run_id"))
    new = [(os.path.basename(row["uri"]), row["page_index"]) for row in rows if row["run_id"] == again.run_id]
    assert sorted(new) == [("a.pdf", 0), ("new.pdf", 0), ("new.pdf", 1)]


def test_what_a_listing_does_not_show_is_found_by_hashing_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """On a file system that shows no change of a file, such as some network shares."""
    for module in ("pipeline.source", "pipeline.raster.identity"):
        monkeypatch.setattr(f"{module}.local_etag", lambda status: "1-2-3-4")
    run(_job(folder, tmp_path / "out"))
    documents.pdf(folder / "a.pdf", 1)
    assert run(_job(folder, tmp_path / "out")).totals.pages == 0
    assert run(_job(folder, tmp_path / "out", rehash=True)).totals.pages == 1


def test_a_run_counts_as_later_than_one_whose_clock_was_ahead(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    later = datetime.now(UTC) + timedelta(days=3)
    with monkeypatch.context() as patch:
        patch.setattr("jobs.run._now", lambda: later)
        first = run(_job(folder, tmp_path / "out", "fail_pages=1"))
    again = run(_job(folder, tmp_path / "out", "fail_pages=1", retry_failed="engine_error"))
    assert again.totals.pages == 4
    assert again.run_id > first.run_id
    last = run(_job(folder, tmp_path / "out", "fail_pages=1"))
    assert (last.totals.pages, last.run_id > again.run_id) == (0, True)


def test_another_resolution_is_another_configuration_and_reads_everything_again(
    ran: RunReport, folder: Path, tmp_path: Path
):
    again = run(_job(folder, tmp_path / "out", dpi=36.0))
    assert again.totals.pages == documents.ROWS_OF_STRANGERS_FOLDER
    assert again.keys.config_fingerprint != ran.keys.config_fingerprint


def test_how_the_work_is_cut_up_does_not_change_a_row(ran: RunReport, folder: Path, tmp_path: Path):
    cut = {"batch_size": 1, "window": 1, "pages_per_task": 1, "commit_pages": 1}
    assert run(_job(folder, tmp_path / "other", **cut)).totals.pages == ran.totals.pages
    same = ("uri", "page_index", "page_count", "status", "error_code", "text", "length")
    found = [sorted(map(repr, _rows(tmp_path / out, columns=same))) for out in ("out", "other")]
    assert found[0] == found[1]
    assert len(os.listdir(next((tmp_path / "other" / "pages").iterdir()))) > 3


def test_a_page_that_the_engine_fails_on_fails_alone(folder: Path, tmp_path: Path):
    report = run(_job(folder, tmp_path / "out", "fail_pages=1", "drop_pages=2"))
    rows = [row for row in _rows(tmp_path / "out") if row["page_index"] is not None]
    codes = {1: "engine_error", 2: "engine_contract"}
    assert all(row["error_code"] == codes.get(row["page_index"]) for row in rows)
    assert report.totals.failures_by_code["engine_error"] == sum(row["page_index"] == 1 for row in rows) == 4


def test_what_failed_is_read_again_when_it_is_asked_for_and_nothing_else_is(folder: Path, tmp_path: Path):
    first = run(_job(folder, tmp_path / "out", "fail_pages=1"))
    (folder / "empty.pdf").write_bytes(b"still no document")
    for codes, expected in (("engine_error", 4 + 1), ("encrypted,broken_document", 2), ("all", 4 + 4)):
        again = run(last_configuration(str(tmp_path / "out"), codes))
        assert again.totals.pages == expected, codes
        assert again.keys.config_fingerprint == first.keys.config_fingerprint


def test_an_output_without_a_run_has_nothing_to_read_again(tmp_path: Path):
    with pytest.raises(InputError, match="no finished run to take the configuration from"):
        last_configuration(str(tmp_path), "all")


def test_documents_batches_and_the_run_have_their_rows(ran: RunReport, tmp_path: Path):
    out = tmp_path / "out"
    columns = ("uri", "page_count", "pages_ok", "pages_failed", "pages_skipped", "error_code")
    found = {os.path.basename(row.pop("uri")): tuple(row.values()) for row in _rows(out, "documents", columns)}
    assert found["a.pdf"] == (5, 5, 0, 0, None)
    assert found["locked.pdf"] == (None, 0, 1, 0, "encrypted")
    assert found["notes.docx"] == (None, 0, 0, 1, "office_document")
    assert len(found) == 10
    batches = _rows(out, "batches", ("batch_id", "batch_size"))
    sizes = Counter(row["batch_id"] for row in _rows(out) if row["batch_id"])
    assert {row["batch_id"]: row["batch_size"] for row in batches} == sizes
    (row,) = _rows(out, "runs", ("run_id", "outcome", "config", "versions", "totals"))
    assert (row["run_id"], row["outcome"]) == (ran.run_id, "pages_failed")
    assert json.loads(row["totals"])["pages"] == documents.ROWS_OF_STRANGERS_FOLDER
    assert json.loads(row["config"])["engine"] == "fake"
    assert json.loads(row["versions"])["pagemill"]


def test_the_report_says_the_same_to_a_program_and_to_a_person(ran: RunReport, tmp_path: Path):
    values = json.loads(ran.as_json())
    assert values["pages"] == documents.ROWS_OF_STRANGERS_FOLDER
    assert values["pages_by_status"] == {"ok": 17, "failed": 4, "skipped": 1}
    said = summary(ran)
    assert "17 ok" in said
    assert str(tmp_path / "out") in said
    assert "encrypted" in said


def test_a_folder_of_nothing_is_done_at_once(tmp_path: Path):
    (tmp_path / "in").mkdir()
    report = run(_job(tmp_path / "in", tmp_path / "out"))
    assert (report.outcome, report.exit_code, report.totals.pages) == ("done", EXIT_DONE, 0)
    assert "no documents were found" in summary(report)


def test_the_output_inside_the_input_is_not_read(tmp_path: Path):
    documents.pdf(tmp_path / "a.pdf", 1)
    for _ in range(2):
        report = run(_job(tmp_path, tmp_path / "out"))
    assert report.exit_code == EXIT_DONE
    assert len(_rows(tmp_path / "out")) == 1


def test_the_same_bytes_at_two_places_are_two_documents_with_one_id(tmp_path: Path):
    documents.pdf(tmp_path / "in.pdf", 1)
    (tmp_path / "in").mkdir()
    for name in ("a.pdf", "b.pdf"):
        (tmp_path / "in" / name).write_bytes((tmp_path / "in.pdf").read_bytes())
    run(_job(tmp_path / "in", tmp_path / "out"))
    rows = _rows(tmp_path / "out", columns=("uri", "document_id"))
    assert len({row["uri"] for row in rows}) == 2
    assert len({row["document_id"] for row in rows}) == 1


def test_an_engine_that_cannot_be_loaded_leaves_all_to_be_done(folder: Path, tmp_path: Path):
    with pytest.raises(EngineLostError, match="engine fake cannot be loaded: the fake engine was told not to load"):
        run(_job(folder, tmp_path / "out", "unusable=true"))
    assert EngineLostError.exit_code == EXIT_UNFINISHED
    assert not (tmp_path / "out" / "pages").exists()


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("break_pages=2", "the engine is broken and needs a new process, so start again: the fake engine was told to"),
        ("down_pages=2", "the fake engine was told to be down"),
        ("refuse_pages=2", "what the engine talks to does not answer: bring it up and start again"),
        ("full_pages=2", "a machine is short of disk, open files, processes or memory: free some and start again"),
        ("oom_pages=2", "the device has no memory left for one page, and other processes hold 8.0 GiB"),
    ],
)
def test_what_is_no_fault_of_a_page_leaves_it_to_be_done_and_the_next_run_does_it(
    option: str, said: str, folder: Path, tmp_path: Path
):
    report = run(_job(folder, tmp_path / "out", option, "others_hold=true", "batch_size=1", commit_pages=1))
    assert (report.outcome, report.exit_code) == ("unfinished", EXIT_UNFINISHED)
    assert (report.problem or "").startswith(said)
    left = _rows(tmp_path / "out")
    assert not [row for row in left if row["page_index"] == 2]
    assert 0 < len(left) < documents.ROWS_OF_STRANGERS_FOLDER
    again = run(_job(folder, tmp_path / "out", "batch_size=1"))
    assert again.totals.pages == documents.ROWS_OF_STRANGERS_FOLDER - len(left)
    assert again.totals.pages_already_done == len(left)
    run(_job(folder, tmp_path / "quiet"))
    rows = [sorted(repr([row[c] for c in COLUMNS[:6]]) for row in _rows(tmp_path / out)) for out in ("out", "quiet")]
    assert rows[0] == rows[1]


def test_halves_for_want_of_memory_are_counted_in_the_row_of_the_batch(folder: Path, tmp_path: Path):
    report = run(_job(folder, tmp_path / "out", "oom_above=2", "batch_size=4"))
    assert report.totals.failures_by_code.get("out_of_memory", 0) == 0
    rows = _rows(tmp_path / "out", "batches", ("batch_size", "oom_splits"))
    assert {(row["batch_size"], row["oom_splits"]) for row in rows} >= {(4, 1)}
    assert all((row["oom_splits"] > 0) == (row["batch_size"] > 2) for row in rows)


SIZES = ("size_limit", "size_reason", "closed_by", "batch_size", "oom_splits", "started_at")


def _sizes(out: Path) -> list[dict[str, Any]]:
    """What the rows of batches say of sizes, in the order in which they were read."""
    return sorted(_rows(out, "batches", SIZES), key=lambda row: row["started_at"])


def test_a_run_halves_its_batches_when_memory_runs_out_and_the_rows_say_so(tmp_path: Path):
    folder = _pages_alike(tmp_path / "in", 40)
    report = run(_job(folder, tmp_path / "out", "oom_above=3", "batch_size=8", window=8))
    rows = _sizes(tmp_path / "out")
    assert report.totals.pages_by_status == {"ok": 40}
    limits = [(row["size_limit"], row["size_reason"], row["oom_splits"] > 0) for row in rows]
    assert limits[:3] == [(8, "engine", True), (4, "out_of_memory", True), (2, "out_of_memory", False)]
    assert not any(ran_out for _, _, ran_out in limits[2:])
    assert {limit for limit, _, _ in limits[2:]} <= {2, 3}


def test_pages_that_find_no_memory_even_alone_do_not_make_batches_smaller(tmp_path: Path):
    folder = _pages_alike(tmp_path / "in", 40)
    run(_job(folder, tmp_path / "out", "oom_pages=3,20", "batch_size=8", window=8))
    assert {row["size_limit"] for row in _sizes(tmp_path / "out")} == {8}
    assert {row["page_index"] for row in _rows(tmp_path / "out") if row["error_code"] == "out_of_memory"} == {3, 20}


def test_the_memory_model_of_an_engine_sets_the_size_and_the_rows_say_so(tmp_path: Path):
    folder = _pages_alike(tmp_path / "in", 20)
    run(_job(folder, tmp_path / "out", "room_pages=5", "batch_size=2"))
    assert {(row["size_limit"], row["size_reason"]) for row in _sizes(tmp_path / "out")} == {(5, "memory_model")}
    run(_job(folder, tmp_path / "asked", "room_pages=5", batch_size="3"))
    assert {(row["size_limit"], row["size_reason"]) for row in _sizes(tmp_path / "asked")} == {(3, "asked")}


def test_a_limit_of_tokens_closes_batches_and_longer_pages_go_alone(tmp_path: Path):
    folder = _pages_alike(tmp_path / "in", 9)
    length = _length_of(folder, tmp_path)
    run(_job(folder, tmp_path / "three", "visual_tokens=true", "dpi=144", max_batch_tokens=3 * length, buckets=1))
    run(_job(folder, tmp_path / "alone", "visual_tokens=true", "dpi=144", max_batch_tokens=length - 1))
    assert {row["batch_size"] for row in _sizes(tmp_path / "alone")} == {1}
    rows = _rows(tmp_path / "three", "batches", ("batch_size", "closed_by", "length_sum"))
    assert all(row["length_sum"] <= 3 * length for row in rows)
    assert {row["closed_by"] for row in rows} <= {"tokens", "rest"}
    assert "tokens" in {row["closed_by"] for row in rows}


def test_a_run_ends_with_a_table_of_its_buckets(tmp_path: Path):
    report = run(_job(_pages_alike(tmp_path / "in", 20), tmp_path / "out", "batch_size=8"))
    (name,) = report.totals.buckets
    lines = summary(report).splitlines()
    (head,) = [number for number, line in enumerate(lines) if "padded tokens" in line]
    assert lines[head].split() == ["bucket", "pages", "batches", "padded", "tokens", "idle", "slots", "pages/s/engine"]
    assert lines[head + 1].split()[:7] == ["<=", str(name), "20", str(report.totals.batches), "0", "0.0%", "-"]
    assert json.loads(report.as_json())["buckets"][str(name)]["pages"] == 20


def _pages_alike(folder: Path, count: int) -> Path:
    folder.mkdir()
    pdf_of_pages(folder / "alike.pdf", *["/MediaBox[0 0 300 200]"] * count)
    return folder


def _length_of(folder: Path, tmp_path: Path) -> int:
    run(_job(folder, tmp_path / "once", "visual_tokens=true", "dpi=144"))
    (length,) = {row["length"] for row in _rows(tmp_path / "once")}
    return int(length)


def test_an_output_that_cannot_be_written_is_told_and_leaves_the_rest_to_be_done(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "pages").write_bytes(b"a file where the table's folder should be")
    report = run(_job(folder, tmp_path / "out"))
    assert (report.outcome, report.exit_code) == ("unfinished", EXIT_UNFINISHED)
    assert "could not be written" in (report.problem or "")


def test_an_output_that_cannot_be_read_stops_before_anything_is_read(folder: Path, tmp_path: Path):
    store = Store.open(str(tmp_path / "out"))
    store.put_new("pages/run_date=2024-01-01/x.parquet", b"no parquet")
    with pytest.raises(StorageError, match=r"x\.parquet is damaged"):
        run(_job(folder, tmp_path / "out"))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"inputs": ()}, ConfigurationError),
        ({"out": ""}, ConfigurationError),
        ({"inputs": ("/no/such/folder",)}, InputError),
        ({"out": "ftp://host/x"}, UsageError),
        ({"exclude": ("!",)}, InputError),
    ],
)
def test_what_makes_no_sense_is_told_before_anything_is_started(
    options: dict[str, Any], error: type[Exception], folder: Path, tmp_path: Path
):
    with pytest.raises(error):
        run(_job(folder, tmp_path / "out", **options))
    assert not (tmp_path / "out" / "pages").exists()


# plan


@pytest.mark.parametrize("engine_options", [(), ("visual_tokens=true", "dpi=144")])
def test_a_plan_tells_what_a_run_does(engine_options: tuple[str, ...], folder: Path, tmp_path: Path):
    config = _job(folder, tmp_path / "out", *engine_options, batch_size=2)
    plan = json.loads(make_plan(config).as_json())
    report = run(config)
    rows = _rows(tmp_path / "out")
    read = [row for row in rows if row["batch_id"]]
    assert plan["pages"] == len(read)
    batches = _rows(tmp_path / "out", "batches", ("bucket", "batch_size"))
    pages_by_bucket: Counter[int] = Counter()
    for batch in batches:
        pages_by_bucket[batch["bucket"]] += batch["batch_size"]
    assert {bucket["bucket"]: bucket["pages"] for bucket in plan["buckets"]} == pages_by_bucket
    assert {entry["uri"]: entry["code"] for entry in plan["unreadable"]} == {
        row["uri"]: row["error_code"] for row in rows if row["error_code"]
    }
    assert plan["ignored"] == report.num_ignored
    assert plan["documents"] == len({row["uri"] for row in rows if row["status"] == "ok"})
    assert plan["pages_copied"] == report.totals.pages_copied == 5
    assert sum(plan["pages_by_type"].values()) == plan["pages"]


def test_a_plan_writes_nothing_and_can_be_read_by_a_person(folder: Path, tmp_path: Path):
    text = make_plan(_job(folder, tmp_path / "out")).as_text()
    assert not (tmp_path / "out").exists()
    assert "pages      12, and 5 to be copied" in text
    assert "application/pdf" in text
    assert "locked.pdf: encrypted" in text


def test_a_plan_tells_of_pages_that_cannot_be_sized(tmp_path: Path):
    pdf_of_pages(tmp_path / "a.pdf", "/MediaBox[0 0 50 60]", "/MediaBox[0 0 2000000 10]")
    plan = make_plan(_job(tmp_path, tmp_path / "out"))
    assert plan.pages == 1
    assert [(where[-6:], code) for where, code, _ in plan.unreadable] == [("page=2", "broken_page")]


def test_a_plan_needs_an_input():
    with pytest.raises(ConfigurationError, match="name at least one input"):
        make_plan(JobConfig(engine="fake"))


def _ends(out: Path, name: str) -> dict[int | None, tuple[str, str | None]]:
    """What the last row says of each page of a file."""
    rows = [row for row in _rows(out) if row["uri"].endswith(name)]
    return {row["page_index"]: (row["status"], row["error_code"]) for row in rows}


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    """An empty folder."""
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def test_pages_that_are_not_asked_for_get_rows_that_say_so_and_can_be_asked_for_later(inbox: Path, tmp_path: Path):
    documents.pdf(inbox / "a.pdf", 5)
    job, out = partial(_job, inbox, tmp_path / "out"), tmp_path / "out"
    report = run(job(pages="2-3,5", max_pages_per_document=2))
    assert report.outcome == "done"
    left_out = ("skipped", "not_selected")
    assert _ends(out, "a.pdf") == {0: left_out, 1: ("ok", None), 2: ("ok", None), 3: left_out, 4: left_out}
    said = {row["error_message"] for row in _rows(out, columns=("error_message", "status")) if row["status"] != "ok"}
    assert said == {"not asked for: --pages 2-3,5 --max-pages-per-document 2"}
    assert run(job(pages="2-3,5", max_pages_per_document=2)).totals.pages == 0
    assert make_plan(job(pages="2-3,5", max_pages_per_document=2)).pages == 2
    assert verify(str(out), ()).faults == []
    assert run(job(pages="3-4")).totals.pages == 1
    assert run(job()).totals.pages == 2
    assert _ends(out, "a.pdf") == dict.fromkeys(range(5), ("ok", None))
    assert run(job(pages="1")).totals.pages == 0


def test_a_document_larger_than_asked_for_is_skipped_until_the_limit_is_raised(inbox: Path, tmp_path: Path):
    small, large = (
        documents.png(inbox / "a.png", "a"),
        documents.png(inbox / "b.png", "b", (900, 900)),
    )
    job, out = partial(_job, inbox, tmp_path / "out"), tmp_path / "out"
    limit = small.stat().st_size
    assert run(job(max_document_bytes=limit)).outcome == "done"
    assert _ends(out, "a.png") == {0: ("ok", None)}
    assert _ends(out, "b.png") == {None: ("skipped", "document_too_large")}
    (told,) = [
        row for row in _rows(out, "documents", ("uri", "document_id", "size_bytes")) if row["document_id"] is None
    ]
    assert (told["uri"].endswith("b.png"), told["size_bytes"]) == (True, large.stat().st_size)
    assert verify(str(out), ()).faults == []
    again = run(job(max_document_bytes=limit))
    assert (again.totals.pages, again.totals.documents_already_done) == (0, 2)
    assert run(job(max_document_bytes=large.stat().st_size)).totals.pages == 1
    assert _ends(out, "b.png")[0] == ("ok", None)


def test_a_document_is_opened_with_the_password_that_fits(inbox: Path, tmp_path: Path):
    documents.encrypted_pdf(inbox / "a.pdf")
    job, out, passwords = partial(_job, inbox, tmp_path / "out"), tmp_path / "out", tmp_path / "passwords"
    assert run(job()).exit_code == EXIT_PAGES_FAILED
    passwords.write_text("wrong\nUser\n")
    wrong = run(job(password_file=str(passwords)))
    assert (wrong.totals.pages, wrong.totals.pages_failed_before) == (0, 1)
    passwords.write_bytes("\ufeffwrong\r\nuser\r\n".encode())
    right = run(job(password_file=str(passwords)))
    assert (right.totals.pages, right.outcome) == (1, "done")
    assert _ends(out, "a.pdf")[0] == ("ok", None)
    assert "user" not in "".join(row["config"].replace(str(tmp_path), "") for row in _rows(out, "runs", ("config",)))
    assert run(job(password_file=str(passwords))).totals.pages == 0


@pytest.mark.parametrize(("content", "problem"), [(None, "No such file"), (b"\xff\xfe\xfa", "it is not UTF-8")])
def test_passwords_that_cannot_be_read_are_an_error_before_anything_starts(
    content: bytes | None, problem: str, inbox: Path, tmp_path: Path
):
    documents.pdf(inbox / "a.pdf", 1)
    if content is not None:
        (tmp_path / "p").write_bytes(content)
    with pytest.raises(ConfigurationError, match=f"--password-file .*p: {problem}"):
        run(_job(inbox, tmp_path / "out", password_file=str(tmp_path / "p")))
    assert not (tmp_path / "out").exists()


# engines that tell of their pages one by one


def test_pages_told_one_by_one_give_the_rows_of_pages_told_together(folder: Path, tmp_path: Path):
    options = ("fail_pages=1", "drop_pages=2", "truncated_pages=0", "repeated_pages=3", "retried_pages=0,4")
    for engine in ("fake", "fake_stream"):
        run(_job(folder, tmp_path / engine, *options, engine=engine, batch_size=4))
    same = ("uri", "page_index", "status", "error_code", "text", "finish_reason", "min_logprob", "confidence", "lines")
    found = [sorted(map(repr, _rows(tmp_path / e, columns=same))) for e in ("fake", "fake_stream")]
    assert found[0] == found[1]
    assert {"truncated", "repeated"} < {row["status"] for row in _rows(tmp_path / "fake_stream")}


def test_truncated_and_repeated_pages_are_done_and_told_of(inbox: Path, tmp_path: Path):
    documents.pdf(inbox / "a.pdf", 3)
    cut = ("truncated_pages=0", "repeated_pages=1", "retried_pages=1")
    job, out = partial(_job, inbox, tmp_path / "out", *cut, engine="fake_stream"), tmp_path / "out"
    report = run(job())
    assert (report.outcome, report.exit_code, report.totals.pages_failed) == ("done", EXIT_DONE, 0)
    assert report.totals.pages_by_status == {"truncated": 1, "repeated": 1, "ok": 1}
    for said in ("1 truncated", "1 repeated", "1 ok"):
        assert said in summary(report)
    columns = ("page_index", "status", "finish_reason", "min_logprob", "attempts", "error_message", "lines")
    first, second, third = sorted(_rows(out, columns=columns), key=lambda row: row["page_index"])
    assert (first["status"], first["finish_reason"], first["min_logprob"]) == ("truncated", "length", -2.0)
    assert first["lines"][0]["min_logprob"] == -2.0
    assert (second["status"], second["finish_reason"], second["attempts"]) == ("repeated", "repetition", 2)
    assert second["error_message"] == "read again, as the fake engine was told"
    assert (third["status"], third["finish_reason"], third["error_message"]) == ("ok", "stop", None)
    (batch,) = _rows(out, "batches", ("batch_size", "gpu_memory_allocated_bytes", "gpu_utilization"))
    assert batch == {"batch_size": 3, "gpu_memory_allocated_bytes": 3 << 20, "gpu_utilization": 0.5}
    assert verify(str(out), ()).faults == []
    for again in (run(job()), run(job(retry_failed="all"))):
        assert (again.totals.pages, again.exit_code) == (0, EXIT_DONE)


def test_what_was_told_before_an_engine_broke_is_committed_and_the_rest_is_left(inbox: Path, tmp_path: Path):
    documents.pdf(inbox / "a.pdf", 5)
    job, out = partial(_job, inbox, tmp_path / "out", engine="fake_stream"), tmp_path / "out"
    broken = run(job("break_pages=1", "in_order=true"))  # pages of one length are read from the last to the first
    assert (broken.exit_code, broken.totals.pages) == (EXIT_UNFINISHED, 3)
    assert {row["page_index"] for row in _rows(out)} == {2, 3, 4}
    assert [str(fault.code) for fault in verify(str(out), ()).faults] == ["incomplete"]
    assert run(job()).totals.pages == 2
    assert sorted(row["page_index"] for row in _rows(out)) == list(range(5))


def test_what_an_engine_has_to_say_is_said_once(inbox: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    documents.pdf(inbox / "a.pdf", 5)
    run(_job(inbox, tmp_path / "out", "notice=reads in fp32"))
    assert capsys.readouterr().err.count("pagemill: reads in fp32\n") == 1
