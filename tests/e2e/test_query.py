"""`pagemill query`: the questions of ``jobs/queries/`` and any SQL, over an output of three runs."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from jobs.cli import main
from jobs.query import query, questions
from jobs.run import run
from pipeline.config import JobConfig
from pipeline.errors import ConfigurationError, UsageError
from tests import documents

PAGES = {"a.pdf": 3, "b.pdf": 2}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two documents and a broken one; one of them is replaced by a longer one; then all is read by another engine."""
    home = tmp_path_factory.mktemp("query")
    folder = home / "in"
    folder.mkdir()
    for name, pages in PAGES.items():
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


def test_padding_and_memory_are_those_of_the_batches(out: Path):
    columns = "run_id, bucket, batch_size, padded_tokens, length_sum, host_memory_bytes"
    by_bucket, by_size = defaultdict(list), defaultdict(list)
    for batch in rows(out, f"SELECT {columns} FROM batches"):
        by_bucket[batch["run_id"], batch["bucket"]].append(batch)
        by_size[batch["bucket"], batch["batch_size"]].append(batch)
    padding = {(row["run_id"], row["bucket"]): row for row in rows(out, "padding")}
    assert padding.keys() == by_bucket.keys()
    for key, batches in by_bucket.items():
        padded, tokens = (sum(batch[name] for batch in batches) for name in ("padded_tokens", "length_sum"))
        assert padding[key]["pages"] == sum(batch["batch_size"] for batch in batches)
        assert padding[key]["padding_percent"] == pytest.approx(100 * padded / (padded + tokens), abs=0.01)
    memory = {(row["bucket"], row["batch_size"]): row for row in rows(out, "memory")}
    assert memory.keys() == by_size.keys()
    for key, batches in by_size.items():
        most = max(batch["host_memory_bytes"] for batch in batches)
        assert (memory[key]["batches"], memory[key]["host_mib"]) == (len(batches), pytest.approx(most / 2**20, abs=0.1))


def test_hours_add_up_to_all_pages(out: Path):
    hours = rows(out, "throughput")
    assert sum(row["pages"] for row in hours) == 20
    assert sum(row["failed"] for row in hours) == 4
    span = "epoch(max(finished_at) - least(min(started_at), min(finished_at))) AS s"
    spans = f"SELECT {span} FROM pages GROUP BY date_trunc('hour', finished_at)"
    rates = sorted(row["pages"] / row["pages_per_s_from_first_to_last"] for row in hours)
    assert rates == pytest.approx(sorted(row["s"] for row in rows(out, spans)), rel=0.01)


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


def test_pages_of_little_confidence_are_for_review(out: Path):
    assert rows(out, "review", "below=1") == []
    found = rows(out, "review", "below=1.5")
    assert len(found) == rows(out, "SELECT count(*) AS n FROM latest WHERE status = 'ok'")[0]["n"] > 0


def test_a_file_that_is_again_what_it_once_was_is_known_as_that(tmp_path: Path):
    folder = tmp_path / "in"
    folder.mkdir()
    first, second = (documents.pdf(tmp_path / f"{pages}.pdf", pages).read_bytes() for pages in (2, 5))
    for content in (first, second, first):
        (folder / "a.pdf").write_bytes(content)
        _run(folder, tmp_path / "out")
    assert [row["page_count"] for row in rows(tmp_path / "out", "SELECT page_count FROM latest")] == [2, 2]
    assert len(rows(tmp_path / "out", "SELECT run_id FROM pages")) == 7, "the rows of what it once was are not doubled"


@pytest.mark.parametrize("question", questions().values(), ids=lambda question: question.name)
def test_every_question_knows_its_parameters_and_has_an_answer_for_an_output_without_a_row(
    question: Any, tmp_path: Path
):
    assert question.tells.endswith(".")
    assert set(re.findall(r"\$(\w+)", question.sql)) == {item.name for item in question.parameters}
    (tmp_path / "out").mkdir()
    values = [f"{item.name}={item.default or 'mill'}" for item in question.parameters]
    assert query(str(tmp_path / "out"), question.name, values).as_json() == "[]"


@pytest.mark.parametrize(
    ("asked", "values", "said"),
    [
        ("SELEC 1", (), "Parser Error: syntax error at or near"),
        ("SELECT nothing FROM pages", (), 'Binder Error: Referenced column "nothing" not found'),
        ("SELECT 1 / CAST('x' AS INT) AS y", (), "Conversion Error"),
        ("failurs", (), "there is no question 'failurs'; did you mean 'failures'?"),
        ("search", (), "the question 'search' wants --set words=...: the words, with blanks"),
        ("search", ("word=x",), "--set 'word' is unknown; did you mean 'words'?"),
        ("failures", ("x=1",), "the question 'failures' takes no --set"),
        ("search", ("words",), "--set is written KEY=VALUE, not 'words'"),
        ("SELECT $text AS text", ("txt=x",), "--set 'txt' is unknown; did you mean 'text'?"),
        ("SELECT $text AS text", (), "Invalid Input Error: Values were not provided for"),
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
