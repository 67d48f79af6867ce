"""The newest rows, as each reader of docs/latest.md has them: the same, and those of `pagemill query`."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from jobs.query import query
from tests import documents

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "latest.md").read_text(encoding="utf-8")
QUICK = ("--engine", "fake", "--runner", "local", "--progress", "none", *documents.EVERY_PAGE_READ)
COLUMNS = "uri, page_index, status, error_code, text, run_id"

Rows = list[tuple[Any, ...]]


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    return str(found)


def ran(place: Path, *arguments: str) -> None:
    main = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from jobs.cli import main; main(sys.argv[1:])"
    words = [sys.executable, "-c", main, "run", *arguments, *QUICK]
    done = subprocess.run(words, cwd=place, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode in (0, 1), done.stderr


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents that were changed, read again, read in part, taken away, brought back and never opened."""
    place = tmp_path_factory.mktemp("latest")
    folder = place / "in"
    folder.mkdir()
    for name in ("changed.pdf", "gone.pdf", "back.pdf", "again.pdf"):
        documents.pdf(folder / name, 3)
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 cut")
    ran(place, "in", "out")
    documents.pdf(folder / "changed.pdf", 2, width_pt=300)
    for name in ("gone.pdf", "back.pdf"):
        (folder / name).rename(place / name)
    ran(place, "in", "out")
    (place / "back.pdf").rename(folder / "back.pdf")
    documents.pdf(folder / "part.pdf", 3)
    ran(place, "in", "out", "--pages", "1")
    ran(place, "in/again.pdf", "out", "--overwrite", "--pages", "2")
    ran(place, "in", "out", "--pages", "1-2")
    return place


def _sorted(rows: Rows) -> Rows:
    return sorted(rows, key=str)


def _duckdb(place: Path) -> Rows:
    with duckdb.connect() as connection:
        connection.execute(block("sql"))
        return connection.sql(f"SELECT {COLUMNS} FROM latest").fetchall()


def _polars(place: Path) -> Rows:
    names: dict[str, Any] = {}
    exec(block("python"), names)
    rows: Rows = names["latest"].select(COLUMNS.split(", ")).collect().rows()
    return rows


def _spark(place: Path) -> Rows:
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        pytest.skip("Spark or Java is not installed")
    script = """
import json, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sql(sys.stdin.read())
print("ROWS", json.dumps([list(row) for row in spark.sql("SELECT COLUMNS FROM latest").collect()]))
""".replace("COLUMNS", COLUMNS)
    words = [sys.executable, "-c", script]
    done = subprocess.run(
        words, cwd=place, input=block("spark-sql"), capture_output=True, text=True, timeout=200, check=False
    )
    assert "ROWS " in done.stdout, done.stderr
    return [tuple(row) for row in json.loads(done.stdout.partition("ROWS ")[2])]


@pytest.mark.parametrize("read", [_duckdb, _polars, _spark])
def test_every_reader_has_the_same_newest_rows(
    read: Callable[[Path], Rows], place: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(place)
    rows = _sorted(read(place))
    names = [(uri.rpartition("/")[2], index) for uri, index, *_ in rows]
    assert sorted(names, key=str) == sorted(
        [
            *(("changed.pdf", n) for n in range(2)),
            *((name, n) for name in ("again.pdf", "back.pdf", "part.pdf") for n in range(3)),
            ("broken.pdf", None),
        ],
        key=str,
    )
    (again,) = [row for row in rows if row[0].endswith("again.pdf") and row[1] == 0]
    assert again[2] == "ok", "that it was not asked for later hides no text"
    wanted = query(str(place / "out"), f"SELECT {COLUMNS} FROM latest")._relation.fetchall()
    assert rows == _sorted(wanted)
