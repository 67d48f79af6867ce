"""The file of tunings: several keys, the newest of each, whole at any moment; whatever else lies there is one line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.engines import ENGINES, load
from pipeline.engines.hardware import cpu_name, gpu_name, num_cores, versions_of
from pipeline.errors import ConfigurationError, StorageError
from pipeline.tuning import memory
from pipeline.tuning.figures import TunedBucket
from pipeline.tuning.file import Stale, check_place, default_path, find, keep, key_of, read
from pipeline.tuning.tuning import Tuning
from tests.unit.test_tuning_figures import KEY, figures

OLD = Tuning(KEY, "2026-01-01T00:00:00+00:00", (TunedBucket(9, (figures(1, 1.0, 1.0),), 99),), 1)
NEW = replace(OLD, measured_at="2026-02-01T00:00:00+00:00", num_pages=2)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "tuning.json"


def test_what_is_kept_is_found_again_beside_others(path: Path):
    other = replace(OLD, key=replace(KEY, engine="vlm"))
    keep(path, OLD)
    keep(path, other)
    assert find(path, KEY) == OLD
    assert find(path, other.key) == other
    assert find(path, replace(KEY, model="another")) is None
    assert [child.name for child in path.parent.iterdir()] == ["tuning.json"]


@pytest.mark.parametrize("order", [(OLD, NEW), (NEW, OLD)])
def test_of_one_key_the_newest_stays(path: Path, order: tuple[Tuning, Tuning]):
    for tuning in order:
        keep(path, tuning)
    assert read(path) == (NEW,)


def test_a_changed_key_is_stale_and_says_what_has_changed(path: Path):
    keep(path, OLD)
    keep(path, replace(NEW, key=replace(KEY, model_revision="def")))
    asked = replace(KEY, model_revision="def", libraries=(("torch", "2.9"), ("transformers", "5.25")))
    stale = find(path, asked)
    assert isinstance(stale, Stale)
    assert stale.tuning.measured_at == NEW.measured_at
    assert stale.text == "transformers 5.24 -> 5.25"


def test_no_file_is_no_tuning(path: Path):
    assert find(path, KEY) is None
    assert find(Path("/dev/null/tuning.json"), KEY) is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[]", b'{"format": "pagemill tuning 1", "tunings": [5]}', b"[" * 100_000]
)
def test_a_foreign_file_is_one_line_and_stays_as_it_is(path: Path, content: bytes):
    path.parent.mkdir()
    path.write_bytes(content)
    for use in (lambda: find(path, KEY), lambda: keep(path, OLD), lambda: check_place(path)):
        with pytest.raises(ConfigurationError, match=r"^[^\n]*is no tuning file of Pagemill[^\n]*$"):
            use()
    assert path.read_bytes() == content


def test_a_folder_under_that_name_and_a_place_that_cannot_be_are_one_line(tmp_path: Path):
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory"):
        find(tmp_path, KEY)
    with pytest.raises(StorageError, match="cannot be written: "):
        check_place(Path("/proc/nowhere/tuning.json"))


def test_a_write_that_fails_leaves_the_old_file_and_no_other(path: Path, monkeypatch: pytest.MonkeyPatch):
    keep(path, OLD)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        keep(path, NEW)
    assert read(path) == (OLD,)
    assert len(list(path.parent.iterdir())) == 1


def test_the_file_lies_where_the_environment_says(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PAGEMILL_TUNING", "/a/b.json")
    assert default_path() == Path("/a/b.json")
    monkeypatch.delenv("PAGEMILL_TUNING")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/c")
    assert default_path() == Path("/c/pagemill/tuning.json")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert default_path() == Path.home() / ".config" / "pagemill" / "tuning.json"


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_says_what_its_figures_hold_for(name: str):
    engine = load(name)
    options = engine.read_options([])
    key = key_of(engine, options, engine.spec(options).identity)
    assert (key.engine, key.libraries) == (name, tuple(sorted(key.libraries)))
    assert key.device
    assert json.loads(json.dumps(replace(OLD, key=key).as_dict()))["key"]["engine"] == name


def test_options_that_decide_how_much_is_written_make_another_key():
    engine = load("hunyuan")
    keys = {
        engine.tuning_key(engine.read_options(pairs))
        for pairs in ([], ["decode=static"], ["task=spotting"], ["quantize=int8"], ["precision=bf16"], ["prompt=read"])
    }
    assert len(keys) == 6
    assert engine.tuning_key(engine.read_options(["device=cuda"])).precision == "fp16"


def test_hardware_is_named_by_the_files_of_the_system(tmp_path: Path):
    for name in ("0000:01", "0000:02"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "information").write_text("Model: \t NVIDIA H200\nIRQ:   33\n")
    assert gpu_name(tmp_path) == "NVIDIA H200"
    (tmp_path / "0000:02" / "information").write_text("Model: NVIDIA L4\n")
    assert gpu_name(tmp_path) == "NVIDIA H200 + NVIDIA L4"
    assert gpu_name(tmp_path / "none") == "GPU"
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: A Processor @ 2 GHz\n")
    assert cpu_name(tmp_path / "cpuinfo") == f"A Processor @ 2 GHz, {num_cores()} cores"
    assert cpu_name(tmp_path / "none") == f"CPU, {num_cores()} cores"
    assert versions_of(("pagemill-that-is-not", "numpy"))[0][0] == "numpy"


def test_memory_is_what_the_system_says_or_else_the_peak_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    status = tmp_path / "status"
    status.write_text("Name:\tx\nVmHWM:\t  123 kB\n")
    assert memory.peak_bytes(status) == 123 * 1024
    assert memory.peak_bytes(tmp_path / "none") > 1 << 20
    memory.reset_peak()
    limit = tmp_path / "limit"
    limit.write_text("max\n")
    monkeypatch.setattr(memory, "CGROUP_LIMITS", (limit,))
    whole = memory.machine_bytes()
    limit.write_text("1048576\n")
    assert memory.machine_bytes() == 1 << 20 < whole
