"""A folder of broken documents through a whole run: the right rows, the right codes, and nothing hangs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import duckdb
import pytest

from pipeline.document import path_of_uri
from tests import documents
from tests.broken import broken_folder

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("runner", ["local", "ray"])
def test_each_broken_document_has_the_rows_that_it_deserves(runner: str, tmp_path: Path) -> None:
    expected = broken_folder(tmp_path / "in")
    words = [sys.executable, str(ROOT / "run_batch.py"), str(tmp_path / "in"), str(tmp_path / "out")]
    words += ["--engine", "fake", "--progress", "none", "--runner", runner, *documents.EVERY_PAGE_READ]
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    found = defaultdict(list)
    query = f"SELECT uri, error_code, error_message FROM '{tmp_path}/out/pages/*/*.parquet' ORDER BY uri, page_index"
    for uri, code, message in duckdb.sql(query).fetchall():
        found[os.path.relpath(path_of_uri(uri), tmp_path / "in")].append(code)
        assert code is None or message.isprintable()
    assert {name: tuple(codes) for name, codes in found.items()} == expected
