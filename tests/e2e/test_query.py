"""`pagemill query`: the questions of ``jobs/queries/`` and any SQL, over an output of three runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.cli import main
from jobs.query import QUERIES, query, questions
from jobs.run import run
from pipeline.config import JobConfig
from pipeline.errors import ConfigurationError, UsageError
from tests import documents

HEADINGS = {"a.pdf": 3, "b.pdf": 2}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two documents and a broken one; one of them is replaced by a longer one; then all is read by another engine."""
    home = tmp_path_factory.mktemp("query")
    folder = home / "in"
    folder.mkdir()
    for name, pages in HEADINGS.items():
        documents.pdf(folder / name, pages)
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing but this line")
    _run(folder, home / "it's [an] out")
    (folder / "b.pdf").unlink()
    documents.pdf(folder / "b.pdf", 5, width_pt=500)
    _run(folder, home / "it's [an] out")
    _run(folder, home / "it's [an] out", max_pages_per_document=4, engine_options=("fail_pages=1", "dpi=100"))
    return home / "it's [an] out"


def _run(folder: Path, out: Path, **options: Any) -> None:
    settings: dict[str, Any] = {"engine": "fake", "runner": "local", "progress": "none"} | documents.READ_EVERY_PAGE
    run(JobConfig(inputs=(str(folder),), out=str(out), **settings, **options))


def rows(out: Path, asked: str, *values: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(query(str(out), asked, values).as_json())
    return found


def test_the_newest_rows_are_of_each_page_once_and_of_the_documents_as_they_are_now(out: Path):
    every = rows(out, "SELECT count(*) AS n, count(DISTINCT run_id) AS runs FROM pages")
    assert every == [{"n": 3 + 2 + 1 + 5 + 3 + 5 + 1, "runs": 3}]
    asked = "SELECT regexp_extract(uri, '[^/]*$') AS name, page_index, status, run_id FROM latest ORDER BY ALL"
    latest = rows(out, asked)
    assert [(row["name"], row["page_index"]) for row in latest] == [
        *(("a.pdf", n) for n in range(3)),
        *(("b.pdf", n) for n in range(5)),
        ("broken.pdf", None),
    ]
    last = max(row["run_id"] for row in latest)
    first, second = (row["run_id"] for row in rows(out, "SELECT run_id FROM runs ORDER BY run_id")[:2])
    assert first < second < last
    status = {(row["name"], row["page_index"]): (row["status"], row["run_id"]) for row in latest}
    assert status["a.pdf", 1] == ("failed", last)
    assert status["b.pdf", 4] == ("ok", second), "a row that says that a page was not asked for hides no text"


def test_failures_are_counted_by_their_reason(out: Path):
    found = {row["error_code"]: (row["pages"], row["documents"]) for row in rows(out, "failures")}
    assert found == {"engine_error": (2, 2), "broken_document": (1, 1)}


def test_time_is_shared_out_among_the_pages_of_a_batch(out: Path):
    slow = rows(out, "slow_documents", "limit=2")
    assert len(slow) == 2
    assert sum(row["pages"] for row in slow) == 3 + 2 + 5 + 3 + 4
    (all_s,) = rows(out, "SELECT sum(total_s) AS s FROM batches")
    assert sum(row["engine_s"] for row in slow) == pytest.approx(all_s["s"], abs=0.002)


def test_padding_memory_and_pages_a_second_are_those_of_the_batches(out: Path):
    padding, memory = rows(out, "padding"), rows(out, "memory")
    (total,) = rows(out, "SELECT sum(batch_size) AS pages, count(*) AS batches FROM batches")
    for found in (padding, memory):
        assert sum(row["batches"] for row in found) == total["batches"]
    assert sum(row["pages"] for row in padding) == total["pages"]
    assert all(row["padding_percent"] >= 0 for row in padding)
    assert all(row["host_mib"] > 1 for row in memory)


def test_hours_add_up_to_all_pages(out: Path):
    hours = rows(out, "throughput")
    assert sum(row["pages"] for row in hours) == 20
    assert sum(row["failed"] for row in hours) == 4


def test_words_are_found_wherever_they_stand_and_whatever_their_case(out: Path):
    text = rows(out, "SELECT text FROM latest WHERE status = 'ok' ORDER BY uri, page_index")[0]["text"]
    words = text.split()
    found = rows(out, "search", f"words={words[-1].upper()} {words[0].lower()}", "limit=50")
    holding = "SELECT count(*) AS n FROM latest WHERE contains(text, $one) AND contains(text, $two)"
    assert len(found) == rows(out, holding, f"one={words[0]}", f"two={words[-1]}")[0]["n"] > 0
    assert rows(out, "search", f"words={words[0]} no-such-word") == []


def test_a_document_with_new_bytes_is_told_of(out: Path):
    (changed,) = rows(out, "changed_documents")
    assert (changed["uri"].endswith("/b.pdf"), changed["versions"]) == (True, 2)
    runs = [row["run_id"] for row in rows(out, "SELECT run_id FROM runs ORDER BY run_id")]
    assert (changed["first_run"], changed["last_run"]) == (runs[0], runs[1])


def test_pages_of_little_confidence_are_for_review(out: Path, tmp_path: Path):
    assert rows(out, "review", "below=0") == []
    sure = rows(out, "SELECT count(*) AS n FROM latest WHERE status = 'ok' AND confidence < 2")[0]["n"]
    assert len(rows(out, "review", "below=2")) == sure


@pytest.mark.parametrize("question", questions(), ids=lambda question: question.name)
def test_every_question_says_what_it_tells_and_has_an_answer_for_an_output_without_a_row(question: Any, tmp_path: Path):
    assert question.tells.endswith((".", "queries."))
    (tmp_path / "out").mkdir()
    values = [f"{item.name}={item.default or 'mill'}" for item in question.parameters]
    assert query(str(tmp_path / "out"), question.name, values).as_json() == "[]"
    assert f"-- {question.tells}\n" in (QUERIES / f"{question.name}.sql").read_text()


@pytest.mark.parametrize(
    ("asked", "values", "said"),
    [
        ("SELEC 1", (), "Parser Error: syntax error at or near"),
        ("SELECT nothing FROM pages", (), 'Binder Error: Referenced column "nothing" not found'),
        ("SELECT 1 / CAST('x' AS INT) AS y", (), "Conversion Error"),
        ("failurs", (), "there is no question 'failurs'; write SQL, or one of changed_documents, failures, "),
        ("search", (), "the question 'search' wants --set words=...: the words, with blanks"),
        ("search", ("word=x",), "--set word: the question 'search' takes words, limit"),
        ("failures", ("x=1",), "--set x: the question 'failures' takes none"),
        ("search", ("words",), "--set words: write NAME=VALUE"),
    ],
)
def test_what_cannot_be_asked_is_told_in_one_line(out: Path, asked: str, values: tuple[str, ...], said: str):
    with pytest.raises(ConfigurationError) as caught:
        query(str(out), asked, values).as_json()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_output_that_is_not_there_is_told(tmp_path: Path):
    with pytest.raises(UsageError, match="no such folder"):
        query(str(tmp_path / "none"), "failures")


def test_the_command_prints_a_table_or_json_or_what_can_be_asked(out: Path, capsys: pytest.CaptureFixture[str]):
    for arguments in (
        ["query"],
        ["query", str(out)],
        ["query", str(out), "failures"],
        ["query", str(out), "failures", "--json"],
    ):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert not ended.value.code
    said = capsys.readouterr().out
    assert said.count("Why pages failed") == 2
    assert "│" in said
    assert json.loads(said.splitlines()[-1])[0]["error_code"] == "engine_error"
