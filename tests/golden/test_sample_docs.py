"""The newcomer's run over sample_docs, against the true text of every sample.

Recorded figures lie in sample_docs.json, with the versions that gave them; `pytest tests/golden --record-golden`
writes them anew. A sample may be worse than recorded by `DRIFT` (another build of ONNX Runtime decides a few
characters otherwise), and never worse than its tolerance.
"""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata
from importlib.metadata import version
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rapidfuzz.distance import Levenshtein

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "sample_docs"
RECORD = Path(__file__).with_name("sample_docs.json")

DRIFT = 0.01
CLEAN_PRINT = 0.01
"""Born-digital pages, a receipt, clean bilevel frames: at most one character in a hundred."""
SCAN = 0.03
"""Skew, noise and uneven light."""
PHOTO = 0.03
"""Soft light, colour, and a picture that is stored lying on its side."""

TOLERANCES = {
    "blank.pdf": 0.0,
    "born_digital_mixed_sizes.pdf": CLEAN_PRINT,
    "chinese.pdf": CLEAN_PRINT,
    "long_and_sparse.pdf": CLEAN_PRINT,
    "mixed_orientation.pdf": CLEAN_PRINT,
    "photo_exif_rotated.jpg": PHOTO,
    "receipt.png": CLEAN_PRINT,
    "scan_skewed_noisy.pdf": SCAN,
    "table.pdf": CLEAN_PRINT,
    "three_frames.tiff": CLEAN_PRINT,
    "two_columns.pdf": CLEAN_PRINT,
}


def letters(text: str) -> str:
    """The text as it is compared: NFKC, without white space."""
    return "".join(unicodedata.normalize("NFKC", text).split())


def character_error_rate(truth: str, read: str) -> float:
    """Edits from what was read to the truth, over the length of the truth; order counts."""
    expected, found = letters(truth), letters(read)
    return Levenshtein.distance(expected, found) / max(1, len(expected))


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What the README's run gives: the texts of the pages of every sample, in order."""
    out = tmp_path_factory.mktemp("golden") / "out"
    words = [sys.executable, str(ROOT / "run_batch.py"), str(SAMPLES), str(out), "--progress", "none"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    assert "engine rapidocr" in done.stderr
    pages: dict[str, list[str]] = {}
    rows = [row for part in out.glob("pages/*/*.parquet") for row in pq.ParquetFile(part).read().to_pylist()]
    for row in sorted(rows, key=lambda r: (r["uri"], r["page_index"])):
        pages.setdefault(row["uri"].rpartition("/")[2], []).append(row["text"])
    return pages


def truth_of(name: str) -> list[str]:
    """The true text of each page."""
    return (SAMPLES / "truth" / f"{name}.txt").read_text(encoding="utf-8").split("\f")


def test_every_sample_and_nothing_else_is_read(texts: dict[str, list[str]]) -> None:
    assert set(texts) == set(TOLERANCES)
    assert {name: len(pages) for name, pages in texts.items()} == {name: len(truth_of(name)) for name in texts}


@pytest.mark.parametrize("name", sorted(TOLERANCES))
def test_a_sample_is_read_within_its_tolerance(name: str, texts: dict[str, list[str]]) -> None:
    assert character_error_rate("".join(truth_of(name)), "".join(texts[name])) <= TOLERANCES[name]


def test_no_page_of_the_long_document_is_shifted_or_mixed_up(texts: dict[str, list[str]]) -> None:
    for expected, found in zip(truth_of("long_and_sparse.pdf"), texts["long_and_sparse.pdf"], strict=True):
        assert character_error_rate(expected, found) <= CLEAN_PRINT * 5


def test_quality_has_not_fallen_since_it_was_recorded(
    texts: dict[str, list[str]], request: pytest.FixtureRequest
) -> None:
    found = {n: round(character_error_rate("".join(truth_of(n)), "".join(texts[n])), 4) for n in sorted(texts)}
    if request.config.getoption("--record-golden"):
        versions = {name: version(name) for name in ("rapidocr", "onnxruntime", "pymupdf", "pillow")}
        RECORD.write_text(json.dumps({"versions": versions, "character_error_rate": found}, indent=2) + "\n")
    recorded = json.loads(RECORD.read_text())["character_error_rate"]
    worse = {name: (rate, recorded[name]) for name, rate in found.items() if rate > recorded[name] + DRIFT}
    assert not worse
