"""Flags that belong to engines: passed on, refused by engines that lack them, and found again by a retry."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import pipeline.engines
from jobs.prepare import engine_pairs, prepare
from jobs.retry import last_configuration
from jobs.run import absolute_model, run
from pipeline.config import ENGINE_FLAGS, JobConfig
from pipeline.engines import ENGINES, load
from pipeline.engines.engine import Spec
from pipeline.engines.fake import FakeEngine, FakeOptions
from pipeline.errors import ConfigurationError

VALUES = {
    "model": "tencent/HunyuanOCR",
    "revision": "v1",
    "task": "text",
    "prompt": "Read this: a=b",
    "decode": "static",
    "quantize": "int4",
}


@dataclass(frozen=True, slots=True)
class _ModelOptions(FakeOptions):
    model: str = ""
    revision: str = "main"
    task: str = "parse"
    prompt: str = ""
    decode: str = "continuous"
    quantize: str = ""


class _Model(FakeEngine):
    """A fake with the options of a model."""

    name = "model"
    options_type = _ModelOptions

    @classmethod
    def spec(cls, options: Any) -> Spec:
        spec = super().spec(options)
        return replace(spec, identity=replace(spec.identity, model=options.model, task=options.task))


@pytest.fixture(autouse=True)
def _model_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline.engines, "ENGINES", {**ENGINES, "model": f"{__name__}:_Model"})


def test_these_are_all_the_flags_of_engines():
    assert tuple(VALUES) == ENGINE_FLAGS


@pytest.mark.parametrize("name", ENGINE_FLAGS)
def test_a_flag_is_the_engines_option_of_the_same_name(name: str):
    options = prepare(JobConfig(engine="model", **{name: VALUES[name]})).options
    assert options == replace(_ModelOptions(), **{name: VALUES[name]})


@pytest.mark.parametrize("name", ENGINE_FLAGS)
def test_a_flag_that_is_not_given_leaves_the_engines_default(name: str):
    assert getattr(prepare(JobConfig(engine="model")).options, name) == getattr(_ModelOptions(), name)


@pytest.mark.parametrize("engine", ["fake", "rapidocr"])
@pytest.mark.parametrize("name", ENGINE_FLAGS)
def test_an_engine_without_the_option_says_that_it_takes_no_such_flag(name: str, engine: str):
    with pytest.raises(ConfigurationError, match=f"^engine {engine} takes no --{name}$"):
        engine_pairs(JobConfig(**{name: VALUES[name]}), load(engine))


@pytest.mark.parametrize("name", ENGINE_FLAGS)
def test_a_flag_and_an_option_that_differ_are_an_error(name: str):
    config = JobConfig(engine="model", engine_options=(f"{name}=other",), **{name: VALUES[name]})
    with pytest.raises(ConfigurationError, match=f"^--{name} {VALUES[name]} and --engine-option {name}=other differ"):
        prepare(config)


@pytest.mark.parametrize("name", ENGINE_FLAGS)
def test_a_flag_and_an_option_that_say_the_same_are_none(name: str):
    config = JobConfig(engine="model", engine_options=(f"{name}={VALUES[name]}",), **{name: VALUES[name]})
    assert getattr(prepare(config).options, name) == VALUES[name]


def test_other_options_of_the_engine_are_kept():
    config = JobConfig(engine="model", engine_options=("dpi=100", "task=text"), model="a/b")
    assert prepare(config).options == _ModelOptions(dpi=100.0, task="text", model="a/b")


@pytest.mark.parametrize("name", ["model", "task", "prompt"])
def test_pages_are_read_again_by_another_model_or_with_other_words(name: str):
    changed = JobConfig(engine="model", **{name: VALUES[name]})
    assert prepare(changed).spec.fingerprint() != prepare(JobConfig(engine="model")).spec.fingerprint()


def test_a_folder_is_named_from_the_root_and_a_hub_id_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "owner" / "name").mkdir(parents=True)
    assert absolute_model("owner/name") == absolute_model("~/owner/name") == str(tmp_path / "owner" / "name")
    assert absolute_model("tencent/HunyuanOCR") == "tencent/HunyuanOCR"
    assert absolute_model("") == ""


@pytest.mark.parametrize("how", ["flag", "option", "both"])
def test_a_retry_finds_the_folder_of_the_model_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights").mkdir()
    (tmp_path / "in").mkdir()
    flag = {"model": "weights"} if how != "option" else {}
    options = ("model=weights",) if how != "flag" else ()
    told = {"inputs": ("in",), "out": "out", "engine": "model", "runner": "local", "progress": "none"}
    run(JobConfig(**told, **flag, engine_options=options))
    monkeypatch.chdir("/")
    again = last_configuration(str(tmp_path / "out"), "all")
    assert prepare(again).options.model == str(tmp_path / "weights")
    assert json.loads(again.as_json())["model"] == (str(tmp_path / "weights") if flag else "")
