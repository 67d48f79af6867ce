"""What the README shows works: its commands, its SQL and its Python are taken from it and run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import duckdb
import pytest

from pipeline.config import from_mapping
from pipeline.errors import ErrorCode
from pipeline.result import Status
from pipeline.table import SCHEMAS
from tests import documents

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAIN = "import sys; from jobs.cli import main; main(sys.argv[1:])"
QUICK = ("--engine", "fake", "--runner", "local", "--progress", "none", *documents.EVERY_PAGE_READ)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def pagemill(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {MAIN}", *arguments]
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=100, check=False)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the inputs that the README's commands name, and a finished run in out/."""
    place = tmp_path_factory.mktemp("readme")
    (place / "scans").mkdir()
    (place / "old" / "1998").mkdir(parents=True)
    documents.pdf(place / "scans" / "a.pdf", 2)
    (place / "scans" / "broken.pdf").write_bytes(b"%PDF-1.7 cut")
    documents.tiff(place / "old" / "1998" / "b.tif", 2)
    documents.pdf(place / "letter.pdf", 1)
    documents.png(place / "c.png", "a picture")
    (place / "list.txt").write_text("c.png\n")
    night = (ROOT / "jobs" / "nightly.toml").read_text(encoding="utf-8")
    for told, here in (
        ("/data/scans", "scans"),
        ("/data/ocr", "nights"),
        ("10.0", "0.02"),
        ('"logger", "--tag"', '"echo"'),
    ):
        assert told in night
        night = night.replace(told, here)
    (place / "jobs").mkdir()
    (place / "jobs" / "nightly.toml").write_text(night)
    (place / "HunyuanOCR").symlink_to(ROOT / "tests" / "checkpoints" / "tiny-hunyuan-vl")
    done = pagemill("run", "scans/", "letter.pdf", "out", *QUICK, cwd=place)
    assert done.returncode == 1, done.stderr
    return place


def commands() -> list[str]:
    lines = [line.partition("  #")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    shown = [line for line in lines if line.startswith("pagemill ")]
    return [line for line in shown if "--ray-address" not in line and "--install-completion" not in line]


@pytest.mark.parametrize("line", commands())
def test_a_command_of_the_readme_runs(line: str, place: Path) -> None:
    words = [word.replace("INPUT...", "letter.pdf").replace("OUT", "other") for word in shlex.split(line)[1:]]
    if "--model" in words:
        pytest.importorskip("transformers", reason="a model needs torch and transformers")
        words += ["--runner", "local", "--progress", "none"]
    elif words[0] in ("run", "nightly") and "--help" not in words:
        words += QUICK
    elif words[0] == "tune":
        words += ("--engine", "fake", "--sizes", "1,2", "--repeats", "1", "--tuning", "tuned/tuning.json")
    if words[0] == "plan":
        words += ("--engine", "fake")
    if words[0] == "nightly":
        words += ("--tuning", "tuned/nightly.json")
    done = pagemill(*words, cwd=place)
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr


def test_the_queries_of_the_readme_run_one_after_the_other(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    statements = [s for block in blocks("sql") for s in block.split(";") if s.strip()]
    assert len(statements) > 3
    with duckdb.connect() as connection:
        for sql in statements:
            assert connection.execute(sql).description


def test_the_newest_rows_are_those_of_what_a_file_holds_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    documents.pdf(tmp_path / "a.pdf", 5)
    for num_pages in (3, 4):
        pagemill("run", "a.pdf", "out", *QUICK, cwd=tmp_path)
        documents.pdf(tmp_path / "a.pdf", num_pages, width_pt=300)
    pagemill("run", "a.pdf", "out", *QUICK, "--overwrite", cwd=tmp_path)
    with duckdb.connect() as connection:
        connection.execute(next(s for block in blocks("sql") for s in block.split(";") if "latest" in s))
        found = connection.sql("SELECT page_index, text FROM latest ORDER BY page_index").fetchall()
    assert [(index, text.partition(",")[0]) for index, text in found] == [(n, f"page {n + 1} of 4") for n in range(4)]
    names: dict[str, object] = {}
    exec(blocks("python")[0], names)
    (row,) = names["texts"].iter_rows(named=True)  # type: ignore[attr-defined]
    assert row["text"].split("\n\n") == [text for _, text in found]


@pytest.mark.parametrize("code", blocks("python"))
def test_the_python_of_the_readme_runs(code: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    names: dict[str, object] = {}
    exec(code, names)
    assert len(names["texts"]) >= 2  # type: ignore[arg-type]
    assert len(names["same"]) >= 4  # type: ignore[arg-type]


@pytest.mark.parametrize("text", blocks("toml"))
def test_the_job_file_of_the_readme_is_valid(text: str) -> None:
    assert from_mapping(tomllib.loads(text))["commit_seconds"] == 300.0


def test_every_column_code_and_status_is_explained() -> None:
    missing = [c for c in SCHEMAS["pages"].names if f"`{c}`" not in README]
    missing += [c for c in ErrorCode if f"`{c}`" not in README]
    missing += [s for s in Status if f"`{s}`" not in README]
    assert not missing


def test_every_link_into_the_repository_leads_somewhere() -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert targets
    assert not [target for target in targets if not (ROOT / target).exists()]


def test_every_test_that_proves_a_guarantee_is_there() -> None:
    section = README.partition("## Guarantees")[2].partition("\n## ")[0]
    named = re.findall(r"\]\((tests/[^)]+)\)(?:: ((?:`test_\w+`(?:, )?)+))?", section)
    assert len(named) > 12
    for path, names in named:
        source = (ROOT / path).read_text(encoding="utf-8")
        for name in re.findall(r"`(test_\w+)`", names):
            assert f"def {name}(" in source, f"{path} has no {name}"
