"""`pagemill tune` from pages to a tuning, with the fake engine as a device whose curve is known."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from pipeline.engines import load
from pipeline.tuning.file import find, key_of, read
from pipeline.tuning.tuning import Tuning
from tests import documents

ROOT = Path(__file__).parents[2]
CURVE = ("batch_s=0.04", "delay_s=0.001", "oom_above=12")
"""Each size up to 12 reads a quarter more than the one before it, at least, and 12 is the most that memory holds."""


def command(*arguments: str | Path) -> list[str]:
    main = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from jobs.cli import main; main(sys.argv[1:])"
    return [sys.executable, "-c", main, "tune", *map(str, arguments)]


def fake(*options: str) -> list[str]:
    return ["--engine", "fake", *(word for option in options for word in ("--engine-option", option))]


def tune(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=250, check=False)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tune")


@pytest.fixture(scope="module")
def pages(home: Path) -> Path:
    """Two buckets of pages, most of them short."""
    folder = home / "in"
    folder.mkdir()
    documents.tiff(folder / "short.tiff", 6)
    documents.pdf(folder / "long.pdf", 3, width_pt=600, height_pt=800)
    return folder


@pytest.fixture(scope="module")
def tuned(home: Path, pages: Path) -> dict[str, Any]:
    """What the command says of a device that reads n pages in 40 ms and n times 1 ms, and holds 12 of them."""
    arguments = (pages, *fake(*CURVE), "--text-layer", "never", "--read-blank", "--orientation", "keep", "--json")
    done = tune(*arguments, "--tuning", home / "t.json", "--picture", home / "drawn" / "p")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    found["said"] = done.stderr
    return found


def test_the_knee_and_the_ceiling_of_the_device_are_found(tuned: dict[str, Any]):
    assert len(tuned["knees"]) == 2
    assert set(tuned["knees"].values()) == set(tuned["ceilings"].values()) == {12}
    for bucket in tuned["tuning"]["buckets"]:
        sizes = {size["batch_size"]: size for size in bucket["sizes"]}
        assert list(sizes) == [1, 2, 4, 8, 12, 16]
        assert sizes[16]["out_of_memory"]
        assert sizes[12]["repeats"] >= 3
        assert 5 < sizes[12]["pages_per_s"] / sizes[1]["pages_per_s"] < 11
        assert sizes[1]["latency_median_s"] == pytest.approx(0.041, rel=0.5)
        assert sizes[1]["host_memory_bytes"] > 1 << 20


def test_what_was_found_is_there_for_the_next_run(tuned: dict[str, Any], home: Path):
    engine = load("fake")
    options = engine.read_options(CURVE)
    key = key_of(engine, options, engine.spec(options).identity)
    kept = find(home / "t.json", key)
    assert isinstance(kept, Tuning)
    assert kept.batch_size(kept.buckets[0].bucket) == 12
    assert kept.as_dict() == tuned["tuning"]


def test_processes_and_threads_that_fill_the_cores_are_chosen(tuned: dict[str, Any]):
    tuning = tuned["tuning"]
    assert tuning["actors"] * tuning["threads"] >= 1
    assert any("processes x threads" in note for note in tuned["notes"])


def test_the_pictures_are_pictures(tuned: dict[str, Any], home: Path):
    png, svg = map(Path, tuned["pictures"])
    assert (png.parent, png.name, svg.name) == (home / "drawn", "p.png", "p.svg")
    with Image.open(png) as image:
        assert image.width > image.height > 400
    text = svg.read_text()
    for said in ("pages per second", "seconds", "pages in a batch", "knee", "out of memory"):
        assert said in text


def test_the_table_says_what_people_know(tuned: dict[str, Any]):
    lines = tuned["said"].splitlines()
    assert sum(line.split()[:4] == ["batch", "memory", "pages/s", "tokens/s"] for line in lines) == 2
    assert sum(line.endswith("knee, taken by balanced") for line in lines) == 2
    assert sum(line.split() == ["16", "out", "of", "memory"] for line in lines) == 2


QUICK = ("--repeats", "1", "--sizes", "1,2", "--pages-per-trial", "2", "--buckets", "1")


def test_pages_with_text_of_their_own_are_read_if_there_are_no_others_and_that_is_said(home: Path, tmp_path: Path):
    letter = documents.pdf(tmp_path / "letter.pdf", 2)
    done = tune(letter, *fake("batch_s=0.01"), *QUICK, "--tuning", tmp_path / "t.json", "--profile", "interactive")
    assert done.returncode == 0, done.stderr
    assert "a run would ask no engine about these pages" in done.stdout
    assert "taken by interactive" in done.stdout
    assert f"kept in    {tmp_path / 't.json'}" in done.stdout


def test_the_samples_are_read_if_no_input_is_named(tmp_path: Path):
    done = tune(*fake("read=false"), *QUICK, "--tuning", tmp_path / "t.json")
    assert done.returncode == 0, done.stderr
    assert "measured on the sample documents" in done.stdout


def test_a_page_that_the_engine_fails_on_is_left_out_and_told_of(pages: Path, tmp_path: Path):
    options = fake("fail_pages=1", "batch_s=0.005")
    done = tune(pages / "short.tiff", *options, *QUICK, "--read-blank", "--tuning", tmp_path / "t.json")
    assert done.returncode == 0, done.stderr
    assert "the engine failed on 1 page" in done.stdout


def test_what_time_did_not_allow_is_told_and_nothing_half_measured_is_kept(pages: Path, tmp_path: Path):
    options = fake("batch_s=0.3")
    done = tune(pages, *options, "--minutes", "0.01", "--read-blank", "--tuning", tmp_path / "t.json")
    assert done.returncode == 3, done.stderr
    assert "not measured within 0.01 minutes: pages up to" in done.stdout
    assert "--minutes gives more time" in done.stdout
    assert read(tmp_path / "t.json") == ()


def test_an_engine_that_dies_is_one_line_and_the_exit_code_of_unfinished_work(pages: Path, tmp_path: Path):
    done = tune(pages / "short.tiff", *fake("die_pages=1"), *QUICK, "--read-blank", "--tuning", tmp_path / "t.json")
    assert done.returncode == 3
    assert "engine fake was lost in batches of 1: its process died: exit code 17" in done.stderr
    assert "Traceback" not in done.stderr
    done = tune(pages, *fake("unusable=true"), *QUICK, "--read-blank", "--tuning", tmp_path / "t.json")
    assert done.returncode == 3
    assert done.stderr.strip().endswith("engine fake cannot be loaded: the fake engine was told not to load")


def test_a_process_killed_for_memory_is_the_end_of_the_way_up_and_not_of_the_tuning(pages: Path, tmp_path: Path):
    options = (
        *fake("kill_above=2", "batch_s=0.02"),
        "--sizes",
        "1,2,4,8",
        "--buckets",
        "1",
        "--repeats",
        "2",
        "--json",
    )
    done = tune(pages / "short.tiff", *options, "--read-blank", "--tuning", tmp_path / "t.json")
    assert done.returncode == 0, done.stderr
    (bucket,) = json.loads(done.stdout)["tuning"]["buckets"]
    assert [(s["batch_size"], s["out_of_memory"]) for s in bucket["sizes"]] == [(1, False), (2, False), (4, True)]
    assert bucket["sizes"][1]["repeats"] >= 2


def test_an_engine_that_reads_several_batches_at_once_gets_two_and_tells_of_its_memory(pages: Path, tmp_path: Path):
    options = ("--engine", "fake_stream", "--engine-option", "batches_at_once=3", "--engine-option", "delay_s=0.002")
    done = tune(pages / "short.tiff", *options, *QUICK, "--read-blank", "--json", "--tuning", tmp_path / "t.json")
    assert done.returncode == 0, done.stderr
    (bucket,) = json.loads(done.stdout)["tuning"]["buckets"]
    assert [s["memory_reserved_bytes"] for s in bucket["sizes"]] == [1 << 21, 2 << 21]
    assert [s["memory_allocated_bytes"] for s in bucket["sizes"]] == [1 << 20, 2 << 20]
    assert "2 MiB (1 MiB)" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--sizes", "1,two"), "--sizes are numbers from 1 with commas"),
        (("--sizes", "0,1"), "--sizes are numbers from 1 with commas"),
        (("--profile", "balance"), "--profile must be one of bulk, balanced, interactive, not 'balance'"),
        (("--repeats", "0"), "--repeats must be at least 1"),
        (("--max-latency", "-1"), "--max-latency must be at least 0"),
        (("no-such-file.pdf",), "no such file or folder"),
        (("--engine", "nobody"), "there is no engine 'nobody'"),
        (("--tuning", "foreign.json"), "foreign.json is no tuning file of Pagemill"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "foreign.json").write_text("{}")
    done = tune("--engine", "fake", "--tuning", "t.json", *arguments)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert said in done.stderr


def test_ctrl_c_shows_what_was_measured_and_keeps_nothing(pages: Path, tmp_path: Path):
    words = command(pages, *fake("batch_s=0.05"), "--read-blank", "--tuning", tmp_path / "t.json", "--sizes", "1,2,4")
    words += ["--repeats", "50"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(5)
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130, err
    assert "stopped" in out + err
    assert "Traceback" not in err
    assert read(tmp_path / "t.json") == ()


def test_hunyuan_is_tuned_by_its_slots(tmp_path: Path):
    pytest.importorskip("torch", reason="HunyuanOCR needs torch and transformers")
    pytest.importorskip("transformers", reason="HunyuanOCR needs torch and transformers")
    from tests.checkpoints.grid import GridPages

    grid = GridPages(seed=7)
    for number in range(4):
        Image.fromarray(grid.page().pixels).save(tmp_path / f"{number}.png")
    model = ROOT / "tests" / "checkpoints" / "tiny-hunyuan-vl"
    arguments = ("--engine", "hunyuan", "--model", model, "--task", "text", "--sizes", "1,4", "--buckets", "1")
    done = tune(tmp_path, *arguments, "--repeats", "1", "--pages-per-trial", "4", "--json", "--tuning", tmp_path / "t")
    assert done.returncode == 0, done.stderr
    (bucket,) = json.loads(done.stdout)["tuning"]["buckets"]
    one, four = bucket["sizes"]
    assert one["idle_ratio"] == 0.0 <= four["idle_ratio"] < 1
    assert one["latency_p95_s"] > 0
    key = json.loads(done.stdout)["tuning"]["key"]
    assert (key["model"], key["precision"]) == ("tiny-hunyuan-vl", "fp32")
    assert set(key["libraries"]) == {"torch", "transformers"}
