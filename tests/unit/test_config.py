"""What a job may be told, and what it must not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.prepare import prepare
from pipeline.config import ENGINE_FLAGS, JobConfig, from_mapping, option_fields
from pipeline.errors import ConfigurationError
from pipeline.option import nearest, parse_pairs

NAMES = [item.name for item in option_fields()]
OTHER_VALUES: dict[str, Any] = {
    "exclude": ("*.bak",),
    "engine": "fake",
    "engine_options": ("dpi=100",),
    "runner": "local",
    "ray_address": "auto",
    "progress": "none",
    "fake_decoder": True,
    "overwrite": True,
    "rehash": True,
    "retry_failed": "all",
    "pages": "2-",
    "password_file": "/dev/null",
    "text_layer": "only",
    "orientation": "keep",
    "read_blank": True,
    "model": "tencent/HunyuanOCR",
    "revision": "v1",
    "task": "text",
    "prompt": "Read.",
    "decode": "static",
    "quantize": "int8",
    "batch_size": 3,
    "profile": "bulk",
    "order": "oldest",
    "stop_at": "06:00",
    "max_failed_pages": "1%",
    "tuning": "none",
}


def _changed(name: str) -> JobConfig:
    """The default with another value for one option."""
    value = OTHER_VALUES.get(name)
    return replace(JobConfig(), **{name: getattr(JobConfig(), name) + 1 if value is None else value})


@pytest.mark.parametrize("name", NAMES)
def test_a_key_is_known_by_the_name_of_its_field(name: str):
    value = getattr(_changed(name), name)
    assert from_mapping({name: list(value) if isinstance(value, tuple) else value}) == {name: value}


@pytest.mark.parametrize("name", NAMES)
def test_a_misspelt_key_is_an_error_that_names_the_right_one(name: str):
    misspelt = name[:-1] + "x"
    with pytest.raises(ConfigurationError, match=f"unknown key '{misspelt}'; did you mean '{name}'"):
        from_mapping({misspelt: 1})


@given(st.text(max_size=20).filter(lambda key: key not in {*NAMES, "inputs", "out"}))
def test_every_unknown_key_is_an_error(key: str):
    with pytest.raises(ConfigurationError, match="unknown key"):
        from_mapping({key: 1})


def test_a_name_like_no_other_is_answered_with_all_that_are_known():
    assert nearest("zzz", ["b", "a"]) == "; known are a, b"


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("batch_size", 8.0, "of type int or str"),
        ("batch_size", True, "of type int or str"),
        ("window", "8", "of type int"),
        ("window", 8.0, "of type int"),
        ("window", True, "of type int"),
        ("dpi", "200", "of type float"),
        ("engine", 1, "of type str"),
        ("exclude", 1, "a list of texts"),
        ("exclude", ["a", 1], "a list of texts"),
        ("inputs", {"a": 1}, "a list of texts"),
    ],
)
def test_a_value_of_the_wrong_type_is_an_error(key: str, value: Any, wanted: str):
    with pytest.raises(ConfigurationError, match=f"'{key}' must be {wanted}"):
        from_mapping({key: value})


def test_a_whole_number_is_a_fine_resolution_and_one_text_a_fine_list():
    values = from_mapping({"dpi": 200, "inputs": "folder", "exclude": ["a", "b"]})
    assert values == {"dpi": 200.0, "inputs": ("folder",), "exclude": ("a", "b")}
    assert isinstance(values["dpi"], float)


NUMBERS = [(item.name, item.metadata["minimum"]) for item in option_fields() if item.metadata["minimum"] is not None]


@pytest.mark.parametrize(("name", "minimum"), NUMBERS)
def test_a_number_below_its_range_is_an_error_that_names_the_flag(name: str, minimum: float):
    assert getattr(JobConfig(**{name: minimum}), name) == minimum
    with pytest.raises(ConfigurationError, match=f"--{name.replace('_', '-')} must be at least"):
        JobConfig(**{name: minimum - 1})


@pytest.mark.parametrize("name", ["dpi", "commit_seconds"])
def test_not_a_number_is_out_of_every_range(name: str):
    with pytest.raises(ConfigurationError, match="must be at least"):
        JobConfig(**{name: float("nan")})


@pytest.mark.parametrize(
    ("told", "codes"),
    [
        ("", set()),
        ("all", None),
        ("encrypted", {"encrypted"}),
        (" not_found, unreadable,", {"not_found", "unreadable"}),
    ],
)
def test_what_is_to_be_read_again_is_told_by_its_codes(told: str, codes: set[str] | None):
    assert JobConfig(retry_failed=told).codes_to_retry == codes


def test_a_code_that_is_none_is_an_error_that_names_the_nearest():
    with pytest.raises(ConfigurationError, match="--retry-failed: no error code 'encripted'; did you mean 'encrypted'"):
        JobConfig(retry_failed="not_found,encripted")


@pytest.mark.parametrize("name", [item.name for item in option_fields() if item.metadata["choices"]])
def test_a_choice_is_one_of_those_offered(name: str):
    with pytest.raises(ConfigurationError, match=f"--{name.replace('_', '-')} must be one of .*, not 'sometimes'"):
        JobConfig(**{name: "sometimes"})


def test_that_a_choice_is_left_to_the_engine_is_none_of_those_offered():
    with pytest.raises(ConfigurationError, match="--decode must be one of continuous, static, not 'x'"):
        JobConfig(decode="x")


def _fingerprint(config: JobConfig) -> str:
    return prepare(replace(config, engine="fake", engine_options=())).spec.fingerprint()


def test_the_fingerprint_is_16_hex_digits_that_stay_the_same():
    fingerprint = _fingerprint(JobConfig())
    assert len(fingerprint) == 16
    assert int(fingerprint, 16) >= 0
    assert fingerprint == _fingerprint(JobConfig())


ALTERS_TEXT = ("dpi", "max_page_pixels", "text_layer", "orientation", "read_blank")


@pytest.mark.parametrize("name", ALTERS_TEXT)
def test_the_fingerprint_changes_with_what_can_alter_a_text(name: str):
    assert _fingerprint(_changed(name)) != _fingerprint(JobConfig())


@pytest.mark.parametrize("name", [name for name in NAMES if name not in {*ALTERS_TEXT, *ENGINE_FLAGS}])
def test_the_fingerprint_does_not_change_with_how_the_work_is_done(name: str):
    assert _fingerprint(_changed(name)) == _fingerprint(JobConfig())


def test_the_fingerprint_does_not_change_if_what_the_engine_wants_is_asked_for():
    raster = prepare(JobConfig(engine="fake")).spec.raster
    asked = JobConfig(dpi=raster.dpi, max_page_pixels=raster.max_pixels)
    assert _fingerprint(asked) == _fingerprint(JobConfig())


def test_the_fingerprint_does_not_change_with_the_places():
    assert _fingerprint(JobConfig(inputs=("a", "b"), out="c")) == _fingerprint(JobConfig())


@pytest.mark.parametrize("change", [{"name": "other"}, {"version": "2"}, {"model": "m"}, {"task": "x"}])
def test_the_fingerprint_changes_with_the_engine(change: dict[str, str]):
    spec = prepare(JobConfig(engine="fake")).spec
    changed = replace(spec, identity=replace(spec.identity, **change))
    assert changed.fingerprint() != spec.fingerprint()
    assert replace(spec, text_options={"task": "x"}).fingerprint() != spec.fingerprint()


def test_the_resolved_configuration_reads_back_as_the_same():
    config = JobConfig(inputs=("a",), out="b", exclude=("*.x",), dpi=144.0)
    assert JobConfig(**from_mapping(json.loads(config.as_json()))) == config


words = st.text("abc", min_size=1, max_size=3)


@given(st.dictionaries(words, st.text(max_size=5)))
def test_pairs_come_back_as_they_were_written(pairs: dict[str, str]):
    assert parse_pairs([f"{key}={value}" for key, value in pairs.items()], list(pairs), "option") == pairs


def test_a_pair_without_a_value_or_with_an_unknown_key_is_an_error():
    with pytest.raises(ConfigurationError, match="option is written KEY=VALUE, not 'read'"):
        parse_pairs(["read"], ["read"], "option")
    with pytest.raises(ConfigurationError, match="option 'raed' is unknown; did you mean 'read'"):
        parse_pairs(["raed=1"], ["read"], "option")


# a number of pages, or auto


@pytest.mark.parametrize(("told", "pages"), [("auto", None), (0, None), ("0", None), (7, 7), ("7", 7)])
def test_the_size_of_a_batch_is_a_number_or_left_to_others(told: int | str, pages: int | None):
    assert JobConfig(batch_size=told).asked_batch_size == pages


@pytest.mark.parametrize("told", [-1, "-1", "", "many", "8.5", "auto "])
def test_any_other_size_of_a_batch_is_refused(told: int | str):
    with pytest.raises(ConfigurationError, match=f"--batch-size must be a number or 'auto', not '{told}'"):
        JobConfig(batch_size=told)
