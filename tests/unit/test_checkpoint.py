"""Checkpoints: found, told apart, refused in one line. No network, no torch, weights of a few bytes."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engines.checkpoint import HUNYUAN_OCR, Checkpoint, how_to_get, is_hub_id
from pipeline.engines.weights import check_weights, revision_of
from pipeline.errors import (
    ConfigurationError,
    EngineLostError,
    EngineUnavailableError,
    MachineError,
    PagemillError,
    UnfinishedError,
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CONFIG = {"architectures": ["HunYuanVLForConditionalGeneration"], "model_type": "hunyuan_vl"}
LIMITS = {"min_pixels": 1024, "max_pixels": 4194304, "patch_size": 16, "merge_size": 2}


def _safetensors(data: bytes = b"\x00\x3c" * 8, name: str = "w") -> bytes:
    """A file of one FP16 tensor."""
    header = json.dumps({name: {"dtype": "F16", "shape": [len(data) // 2], "data_offsets": [0, len(data)]}}).encode()
    return len(header).to_bytes(8, "little") + header + data


def _fill(folder: Path, **files: Any) -> Path:
    """A small whole checkpoint; `files` replace some of its files, None leaving one out. Dots are written as __."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {"config__json": CONFIG, "preprocessor_config__json": LIMITS, "model__safetensors": _safetensors()}
    for key, content in {**contents, **files}.items():
        if content is not None:
            raw = content if isinstance(content, bytes) else json.dumps(content).encode()
            (folder / key.replace("__", ".")).write_bytes(raw)
    return folder


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return _fill(tmp_path / "model")


def _one_line(error: pytest.ExceptionInfo[PagemillError]) -> str:
    said = str(error.value)
    assert "\n" not in said
    return said


def _refusal(model: str | Path, revision: str | None = None) -> str:
    with pytest.raises(PagemillError) as error:
        Checkpoint.resolve(str(model), revision)
    assert error.value.exit_code == 2
    return _one_line(error)


# folders


def test_a_folder_is_found_named_and_pinned(whole: Path):
    found = Checkpoint.resolve(str(whole))
    assert (found.folder, found.name, found.architecture) == (whole, "model", CONFIG["architectures"][0])
    assert len(found.revision) == 16
    assert int(found.revision, 16) >= 0


def test_the_tiny_checkpoint_of_these_tests_is_one():
    found = Checkpoint.resolve(str(Path(__file__).parents[1] / "checkpoints" / "tiny-hunyuan-vl"))
    assert found.architecture == "HunYuanVLForConditionalGeneration"
    assert found.image_size_limits() == (32 * 32, 2048 * 2048)
    assert (found.patch_size_px(), found.merge_size()) == (16, 2)


def test_what_exists_is_a_folder_though_it_is_written_as_a_hub_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    _fill(tmp_path / "owner" / "name")
    assert Checkpoint.resolve("owner/name").folder == tmp_path / "owner" / "name"
    assert "goes with a hub id" in _refusal("owner/name", "main")


def test_a_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Checkpoint.resolve("~/m" if _fill(tmp_path / "m") else "").name == "m"


def test_the_revision_does_not_depend_on_where_a_folder_lies_nor_on_what_no_model_is_loaded_from(tmp_path: Path):
    here, there = _fill(tmp_path / "a"), _fill(tmp_path / "b" / "c")
    (there / "README.md").write_text("hello")
    (there / ".cache").mkdir()
    assert revision_of(here) == revision_of(there)


json_objects = st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers() | st.text(max_size=5), max_size=4)


@given(json_objects, json_objects)
def test_two_configurations_have_two_revisions(tmp_path_factory: pytest.TempPathFactory, one: Any, other: Any):
    folders = [_fill(tmp_path_factory.mktemp("m"), config__json={**CONFIG, **more}) for more in (one, other)]
    assert (revision_of(folders[0]) == revision_of(folders[1])) == (json.dumps(one) == json.dumps(other))


weights = st.tuples(st.binary(max_size=40).map(lambda data: data + data), st.text("abcd", min_size=1, max_size=3))


@given(weights, weights)
def test_two_headers_or_small_weights_have_two_revisions(
    tmp_path_factory: pytest.TempPathFactory, one: Any, other: Any
):
    folders = [_fill(tmp_path_factory.mktemp("m"), model__safetensors=_safetensors(*each)) for each in (one, other)]
    assert (revision_of(folders[0]) == revision_of(folders[1])) == (one == other)


def test_fine_tuned_weights_of_the_same_names_and_sizes_have_another_revision(tmp_path: Path):
    size = 2 * 2**20
    before = _fill(tmp_path / "a", model__safetensors=_safetensors(bytes(size)))
    after = _fill(tmp_path / "b", model__safetensors=_safetensors(b"\x01" * size))
    assert revision_of(before) != revision_of(after)


@pytest.mark.parametrize("name", ["generation_config.json", "chat_template.jinja", "tokenizer.json", "merges.txt"])
def test_whatever_a_model_is_loaded_from_alters_the_revision(whole: Path, name: str):
    before = revision_of(whole)
    (whole / name).write_text("{}")
    assert revision_of(whole) != before


# what is refused


def test_no_model_is_one_line_that_says_how_to_get_one_and_whom_its_licence_excludes():
    said = _refusal("")
    assert "hf download tencent/HunyuanOCR --local-dir HunyuanOCR" in said
    assert "--model HunyuanOCR" in said
    assert "does not cover the EU, the UK and South Korea" in said
    assert "may not train other models" in said
    assert "licence" not in how_to_get("zai-org/GLM-OCR")


@pytest.mark.parametrize(
    "model", ["no_such_folder", "./a/b", "/no/such", "a/b/c", "~nobody/x", "x" * 300, "a\0b", "a//b"]
)
def test_a_folder_that_is_not_there_is_told(model: str):
    assert f"there is no folder {model}: hf download" in _refusal(model)


def test_a_file_is_no_folder(whole: Path):
    assert "is a file: name the folder that holds it" in _refusal(whole / "model.safetensors")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "weights.pth", "last.ckpt"])
def test_pickled_weights_are_refused_and_the_way_to_convert_them_told(tmp_path: Path, name: str):
    folder = _fill(tmp_path / "m", model__safetensors=None)
    (folder / name).write_bytes(b"\x80\x02")
    said = _refusal(folder)
    assert f"the weights are pickled ({name})" in said
    assert "save_pretrained('NEW_FOLDER')" in said


def test_pickles_beside_safetensors_are_passed_over(whole: Path):
    before = revision_of(whole)
    (whole / "pytorch_model.bin").write_bytes(b"\x80\x02")
    assert Checkpoint.resolve(str(whole)).revision == before


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"model__safetensors": None}, "holds no weights (*.safetensors)"),
        ({"config__json": None}, "holds no config.json"),
        ({"config__json": b"{"}, "config.json cannot be read"),
        ({"config__json": [1]}, "config.json is no JSON object"),
        ({"config__json": {}}, "names no architecture"),
        ({"config__json": {"architectures": []}}, "names no architecture"),
        ({"model__safetensors": b""}, "is no safetensors file, or is cut short"),
        ({"model__safetensors": b"\xff" * 64}, "is no safetensors file, or is cut short"),
        ({"model__safetensors": (4).to_bytes(8, "little") + b"abcd"}, "is no safetensors file"),
        ({"model__safetensors": (4).to_bytes(8, "little") + b"[12]"}, "is no safetensors file"),
        ({"model__safetensors": (9).to_bytes(8, "little") + b'{"w": {}}'}, "is no safetensors file"),
        ({"model__safetensors": _safetensors()[:-1]}, "is cut short"),
        ({"model__safetensors": _safetensors() + b"x"}, "has too much at its end"),
        ({"model__safetensors": b"version https://git-lfs.github.com/spec/v1\noid"}, "git lfs pull"),
        ({"model__safetensors__index__json": {"weight_map": {"w": "m-2.safetensors"}}}, "m-2.safetensors is missing"),
    ],
)
def test_a_checkpoint_that_is_not_whole_is_refused_in_one_line(tmp_path: Path, files: dict[str, Any], complaint: str):
    assert complaint in _refusal(_fill(tmp_path / "m", **files))


def test_weights_spread_over_files_are_whole_if_all_are_there(whole: Path):
    (whole / "model.safetensors.index.json").write_text('{"weight_map": {"w": "model.safetensors"}}')
    check_weights(whole)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_told(whole: Path):
    whole.chmod(0)
    try:
        assert "cannot be read: Permission denied" in _refusal(whole)
    finally:
        whole.chmod(0o755)


# image sizes


@pytest.mark.parametrize(
    "files",
    [
        {"preprocessor_config__json": LIMITS},
        {"preprocessor_config__json": {"size": {"shortest_edge": 1024, "longest_edge": 4194304}}},
        {"preprocessor_config__json": {"size": {"min_pixels": 1024, "max_pixels": 4194304}}},
        {
            "preprocessor_config__json": {"min_pixels": 1, "max_pixels": 2},
            "processor_config__json": {"image_processor": {"size": {"shortest_edge": 1024, "longest_edge": 4194304}}},
        },
        {"preprocessor_config__json": LIMITS, "processor_config__json": {"processor_class": "HunYuanVLProcessor"}},
        {"preprocessor_config__json": None, "processor_config__json": {"image_processor": LIMITS}},
    ],
)
def test_image_sizes_are_read_in_either_spelling_from_either_file(tmp_path: Path, files: dict[str, Any]):
    found = Checkpoint.resolve(str(_fill(tmp_path / "m", **files)))
    assert found.image_size_limits() == (1024, 4194304)
    assert (found.patch_size_px(), found.merge_size()) == (16, 2)


def test_patch_and_merge_sizes_are_those_of_the_checkpoint(tmp_path: Path):
    told = {**LIMITS, "patch_size": 14, "merge_size": 4}
    found = Checkpoint.resolve(str(_fill(tmp_path / "m", preprocessor_config__json=told)))
    assert (found.patch_size_px(), found.merge_size()) == (14, 4)


@pytest.mark.parametrize(
    "told", [None, {}, {"size": 3}, {**LIMITS, "min_pixels": "1"}, {**LIMITS, "max_pixels": 3}, {"min_pixels": True}]
)
def test_limits_that_make_no_sense_are_told(tmp_path: Path, told: Any):
    found = Checkpoint.resolve(str(_fill(tmp_path / "m", preprocessor_config__json=told)))
    with pytest.raises(EngineUnavailableError, match=r"limits of image sizes|holds no preprocessor_config"):
        found.image_size_limits()


def test_a_patch_size_that_makes_no_sense_is_told(tmp_path: Path):
    found = Checkpoint.resolve(str(_fill(tmp_path / "m", preprocessor_config__json={**LIMITS, "patch_size": 0})))
    with pytest.raises(EngineUnavailableError, match="patch_size of 0"):
        found.patch_size_px()


# hub ids


@pytest.mark.parametrize("model", [HUNYUAN_OCR, "a/b", "zai-org/GLM-OCR", "Qwen/Qwen2.5-VL_3B"])
def test_an_owner_and_a_name_are_a_hub_id(model: str):
    assert is_hub_id(model)


@pytest.mark.parametrize(
    "model", ["", "a", "/a", "a/", "a/b/c", "./a", "../a", "a/.b", "a b/c", "a/b--c", "é/b", "a/b.git"]
)
def test_all_else_is_none(model: str):
    assert not is_hub_id(model)


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache as huggingface_hub lays it out, with HF_HUB_OFFLINE set."""
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path / "hub"


def _cached(hub_cache: Path, model: str, **files: Any) -> Path:
    folder = hub_cache / f"models--{model.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(COMMIT)
    return _fill(folder / "snapshots" / COMMIT, **files)


@pytest.mark.parametrize("revision", [None, "", "main", COMMIT])
def test_a_model_in_the_cache_is_found_offline_and_pinned_to_its_commit(hub_cache: Path, revision: str | None):
    folder = _cached(hub_cache, HUNYUAN_OCR)
    found = Checkpoint.resolve(HUNYUAN_OCR, revision)
    assert (found.folder, found.name, found.revision) == (folder, HUNYUAN_OCR, COMMIT)


def test_a_model_that_is_not_in_the_cache_is_told_offline(hub_cache: Path):
    said = _refusal(HUNYUAN_OCR)
    assert "HF_HUB_OFFLINE is set, and tencent/HunyuanOCR is not whole in the cache: hf download" in said
    assert "South Korea" in said


def test_a_revision_that_is_not_in_the_cache_is_told_offline(hub_cache: Path):
    _cached(hub_cache, HUNYUAN_OCR)
    assert "tencent/HunyuanOCR at revision v9 is not whole" in _refusal(HUNYUAN_OCR, "v9")


def test_a_model_of_which_the_cache_has_a_part_is_refused(hub_cache: Path):
    _cached(hub_cache, "a/b", model__safetensors=None)
    assert "holds no weights" in _refusal("a/b")


def _raised_by_the_hub(monkeypatch: pytest.MonkeyPatch, name: str, error: Exception | None = None) -> None:
    """Let the hub answer with one of its errors, or another."""
    errors = pytest.importorskip("huggingface_hub.errors")
    kind = getattr(errors, name, None)
    if kind is not None:
        response = SimpleNamespace(headers={}, request=None, status_code=404, text="")
        error = kind("no\nsuch", response=response) if issubclass(kind, errors.HfHubHTTPError) else kind("no\nsuch")

    def refuse(*given: Any, **named: Any) -> str:
        assert error is not None
        raise error

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)


@pytest.mark.parametrize(
    ("name", "kind", "complaint"),
    [
        ("GatedRepoError", EngineUnavailableError, "a/b is gated: accept its terms"),
        ("RepositoryNotFoundError", EngineUnavailableError, "no such model on the hub that you may read"),
        ("RevisionNotFoundError", ConfigurationError, "--revision v9: a/b has no such branch, tag or commit"),
        ("HFValidationError", ConfigurationError, "is no folder and no hub id"),
        ("LocalEntryNotFoundError", EngineLostError, "cannot be fetched from the hub for now: start again"),
        ("HfHubHTTPError", EngineLostError, "cannot be fetched from the hub for now: start again"),
    ],
)
def test_what_the_hub_says_is_one_line(monkeypatch: pytest.MonkeyPatch, name: str, kind: type, complaint: str):
    _raised_by_the_hub(monkeypatch, name)
    with pytest.raises(kind) as error:
        Checkpoint.resolve("a/b", "v9")
    assert complaint in _one_line(error)


@pytest.mark.parametrize(
    ("error", "kind"),
    [(ConnectionResetError(104, "reset"), EngineLostError), (OSError(errno.ENOSPC, "full"), MachineError)],
)
def test_a_lost_network_or_a_full_disk_leaves_the_run_to_be_started_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception, kind: type
):
    _raised_by_the_hub(monkeypatch, "", error)
    with pytest.raises(kind) as told:
        Checkpoint.resolve("a/b")
    assert isinstance(told.value, UnfinishedError)
    _one_line(told)


def test_only_safetensors_and_texts_are_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    utils = pytest.importorskip("huggingface_hub.utils")
    asked: dict[str, Any] = {}

    def fetch(model: str, **named: Any) -> str:
        asked.update(named)
        return str(_fill(tmp_path / COMMIT))

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    Checkpoint.resolve("a/b", "v1")
    names = ["model.safetensors", "config.json", "chat_template.jinja", "pytorch_model.bin", "modeling.py", "x/a.json"]
    kept = utils.filter_repo_objects(
        names, allow_patterns=asked["allow_patterns"], ignore_patterns=asked["ignore_patterns"]
    )
    assert list(kept) == ["model.safetensors", "config.json", "chat_template.jinja"]
    assert asked["revision"] == "v1"


def test_without_huggingface_hub_a_hub_id_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pipeline.engines.checkpoint.find_spec", lambda name: None)
    assert "pip install 'pagemill[torch]'" in _refusal("a/b")
