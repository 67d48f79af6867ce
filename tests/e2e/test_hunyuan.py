"""HunyuanOCR's architecture from files to rows, with the checkpoint that truly reads grid pages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
from PIL import Image

from tests.checkpoints.grid import GridPages

pytest.importorskip("torch", reason="HunyuanOCR needs torch and transformers")
pytest.importorskip("transformers", reason="HunyuanOCR needs torch and transformers")

ROOT = Path(__file__).parents[2]
MODEL = "tests/checkpoints/tiny-hunyuan-vl"
READ = ("--engine", "hunyuan", "--model", MODEL, "--task", "text", "--progress", "none")
NUM_PAGES = 24


def run_batch(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "run_batch.py", *map(str, arguments)]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)


WAYS = {
    "ray": ("--runner", "ray"),
    "local": ("--runner", "local", "--batch-size", "5"),
    "static": ("--runner", "local", "--decode", "static", "--engine-option", "slots=3"),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hunyuan")


@pytest.fixture(scope="module")
def texts(home: Path) -> dict[str, str]:
    """Grid pages of many shapes in a folder, and what stands on each."""
    pages, folder = GridPages(seed=77), home / "in"
    folder.mkdir()
    made = {}
    for number in range(NUM_PAGES):
        page = pages.page()
        Image.fromarray(page.pixels).save(folder / f"{number:02}.png")
        made[f"{number:02}.png"] = page.text
    return made


@pytest.fixture(scope="module")
def read(home: Path, texts: dict[str, str]) -> Path:
    """A folder with an output for each way of reading."""
    for name, way in WAYS.items():
        done = run_batch(home / "in", home / name, *READ, *way)
        assert done.returncode == 0, done.stderr
    return home


def rows(out: Path, table: str = "pages") -> list[dict[str, Any]]:
    return duckdb.sql(f"SELECT * FROM '{out}/{table}/*/*.parquet'").df().to_dict("records")


def shares_right(found: dict[str, str], texts: dict[str, str]) -> float:
    pairs = [(found[name], text) for name, text in texts.items()]
    return sum(a == b for one, other in pairs for a, b in zip(one, other, strict=False)) / sum(
        max(len(one), len(other)) for one, other in pairs
    )


def test_pages_are_read_alike_by_ray_and_by_one_process_in_slots_and_in_fixed_batches(
    read: Path, texts: dict[str, str]
):
    found = {name: {Path(row["uri"]).name: row["text"] for row in rows(read / name)} for name in WAYS}
    assert found["ray"] == found["local"] == found["static"]
    assert shares_right(found["ray"], texts) >= 0.99


def test_a_row_says_which_model_read_it_how_sure_it_was_and_why_it_stopped(read: Path):
    out = read / "local"
    for row in rows(out):
        assert (row["engine"], row["model"], row["task"]) == ("hunyuan", "tiny-hunyuan-vl", "text")
        assert len(row["model_revision"]) == 16
        assert (row["status"], row["finish_reason"], row["format"]) == ("ok", "stop", "text")
        assert row["output_tokens"] == len(row["text"])
        assert row["min_logprob"] <= row["mean_logprob"] <= 0
        assert 0.5 < row["confidence"] <= 1
    batches = rows(out, "batches")
    assert sum(row["output_tokens_sum"] for row in batches) == sum(len(row["text"]) for row in rows(out))
    assert all(row["prefill_s"] > 0 and row["decode_s"] > 0 and 0 <= row["idle_ratio"] < 1 for row in batches)


def test_an_answer_that_reaches_the_limit_is_kept_and_never_silently_whole(home: Path, texts: dict[str, str]):
    out = home / "short"
    done = run_batch(home / "in", out, *READ, "--runner", "local", "--engine-option", "max_new_tokens=5", "--json")
    assert done.returncode == 0, done.stderr
    long = {name for name, text in texts.items() if len(text) > 4}
    found = {Path(row["uri"]).name: row for row in rows(out)}
    assert {name for name, row in found.items() if row["status"] == "truncated"} == long
    assert json.loads(done.stdout)["pages_by_status"]["truncated"] == len(long)
    assert all(texts[name].startswith(row["text"]) for name, row in found.items())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--model", "nowhere"), "there is no folder nowhere"),
        ((), "hf download tencent/HunyuanOCR"),
        (("--model", MODEL, "--task", "sumarize"), "there is no task 'sumarize'"),
        (("--model", MODEL, "--engine-option", "precision=fp8"), "'precision' is one of auto, fp16, bf16, fp32"),
        (("--model", MODEL, "--quantize", "int2"), "--quantize"),
    ],
)
def test_what_is_asked_wrongly_is_told_in_one_line(tmp_path: Path, options: tuple[str, ...], words: str):
    done = run_batch(ROOT / "sample_docs", tmp_path / "out", "--engine", "hunyuan", *options)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
