"""Engines by name: which there are, which one is taken, and what they can be told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import pipeline.engines
from pipeline.engines import BEST_FIRST, ENGINES, choose, load
from pipeline.engines.engine import Engine, Identity, Needs, Spec, text_options
from pipeline.engines.fake import FakeEngine, FakeOptions
from pipeline.errors import ConfigurationError, EngineUnavailableError
from pipeline.page import Raster, RasterRule

from .samples import a_sized_page


def test_an_engine_is_loaded_by_its_name():
    assert load("fake") is FakeEngine


def test_an_unknown_engine_is_an_error_that_names_the_nearest():
    with pytest.raises(EngineUnavailableError, match="there is no engine 'faek'; did you mean 'fake'"):
        load("faek")
    with pytest.raises(EngineUnavailableError, match=r"known are auto, .*fake"):
        load("xyzxyz")


def test_an_engine_that_was_asked_for_is_taken_as_asked():
    assert choose("fake").engine is FakeEngine
    assert choose("fake").reason == "as asked"


class _Absent(FakeEngine):
    name = "absent"

    @classmethod
    def missing(cls) -> str | None:
        return "its library is not installed: pip install it"


@pytest.fixture
def two_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """One engine that lacks something, one that can run, in this order of preference."""
    places = {"absent": f"{__name__}:_Absent", "fake": ENGINES["fake"]}
    monkeypatch.setattr(pipeline.engines, "ENGINES", places)
    monkeypatch.setattr(pipeline.engines, "BEST_FIRST", ("absent", "fake"))


@pytest.mark.usefixtures("two_engines")
def test_auto_takes_the_best_that_lacks_nothing():
    assert choose("auto").engine is FakeEngine
    assert choose("auto").reason == "the best that is usable here"


@pytest.mark.usefixtures("two_engines")
def test_an_engine_that_lacks_something_is_an_error_that_says_what():
    with pytest.raises(EngineUnavailableError, match="absent: its library is not installed: pip install it"):
        choose("absent")


@pytest.mark.usefixtures("two_engines")
def test_if_nothing_is_usable_auto_says_what_each_lacks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pipeline.engines, "BEST_FIRST", ("absent",))
    with pytest.raises(EngineUnavailableError, match="no usable engine: absent: its library"):
        choose("auto")


def test_the_fake_is_never_chosen_unasked():
    assert "fake" not in BEST_FIRST
    assert set(BEST_FIRST) <= set(ENGINES)


# options


def test_options_are_read_by_the_type_of_their_field():
    pairs = ["read=false", "delay_s=0.5", "fail_pages=1,2,", "unusable=TRUE", "batch_size=3", "dpi=100"]
    options = FakeEngine.read_options(pairs)
    assert options == FakeOptions(False, 0.5, fail_pages=(1, 2), unusable=True, batch_size=3, dpi=100.0)
    assert FakeEngine.read_options([]) == FakeOptions()
    assert FakeEngine.read_options(["fail_pages="]).fail_pages == ()


@pytest.mark.parametrize(
    ("pair", "complaint"),
    [
        ("batch_size=many", "engine option 'batch_size' must be int, not 'many'"),
        ("dpi=", "engine option 'dpi' must be float, not ''"),
        ("read=yes", "engine option 'read' must be true or false, not 'yes'"),
        ("fail_pages=1-3", "engine option 'fail_pages' must be .*not '1-3'"),
        ("batchsize=3", "option of engine fake 'batchsize' is unknown; did you mean 'batch_size'"),
        ("read", "option of engine fake is written KEY=VALUE, not 'read'"),
    ],
)
def test_an_option_that_makes_no_sense_is_told(pair: str, complaint: str):
    with pytest.raises(ConfigurationError, match=complaint):
        FakeEngine.read_options([pair])


@dataclass(frozen=True, slots=True)
class _Options:
    prompt: str = "read"
    threads: int = field(default=0, metadata={"alters_text": False})


def test_only_options_that_can_alter_a_text_are_part_of_the_fingerprint():
    assert text_options(_Options(threads=7)) == {"prompt": "read"}


def _parts(**changes: Any) -> dict[str, str | None]:
    values: dict[str, Any] = {
        "identity": Identity("fake", "1"),
        "needs": Needs(),
        "raster": RasterRule(72, 1000),
        "text_options": {"prompt": "read"},
    }
    return Spec(**{**values, **changes}).fingerprint_parts()


@pytest.mark.parametrize(
    "change",
    [
        {"identity": Identity("fake", "2")},
        {"identity": Identity("fake", "1", model="m")},
        {"identity": Identity("fake", "1", task="spotting")},
        {"raster": RasterRule(100, 1000)},
        {"raster": RasterRule(72, 1001)},
        {"raster": RasterRule(72, 1000, 32)},
        {"text_options": {"prompt": "look"}},
    ],
)
def test_whatever_can_alter_a_text_is_part_of_the_fingerprint(change: dict[str, Any]):
    assert _parts(**change) != _parts()


def test_what_an_engine_occupies_is_no_part_of_the_fingerprint():
    assert _parts(needs=Needs(num_cpus=8, batch_size=64)) == _parts()


# the fake


def _read(engine: Engine, *rasters: Raster) -> list[str]:
    return [page.text for page in engine.recognize(list(rasters)).pages]


def _raster(index: int, tone: int = 0) -> Raster:
    sized = a_sized_page(index)
    return Raster(sized, np.full((sized.height_px, sized.width_px), tone, np.uint8))


def test_the_fake_tells_pages_and_pixels_apart_and_is_always_the_same():
    engine = FakeEngine(FakeOptions())
    first, second = _read(engine, _raster(0), _raster(1))
    assert first.startswith("page 1 of 1, 320 x 320, ")
    assert [first, second] == _read(FakeEngine(FakeOptions()), _raster(0)) + _read(engine, _raster(1))
    assert _read(engine, _raster(0, tone=1)) != [first]
    assert _read(FakeEngine(FakeOptions(read=False)), _raster(0, 0)) == ["page 1 of 1, 320 x 320, unread"]


def test_the_fake_fails_as_it_is_told():
    with pytest.raises(RuntimeError, match="told to fail on page index 1"):
        _read(FakeEngine(FakeOptions(fail_pages=(1,))), _raster(0), _raster(1))
    with pytest.raises(RuntimeError, match="told not to load"):
        FakeEngine(FakeOptions(unusable=True))
    assert len(_read(FakeEngine(FakeOptions(drop_pages=(1,))), _raster(0), _raster(1))) == 1


def test_the_fake_sleeps_and_dies_as_it_is_told(monkeypatch: pytest.MonkeyPatch):
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    monkeypatch.setattr("os._exit", lambda code: (_ for _ in ()).throw(SystemExit(code)))
    _read(FakeEngine(FakeOptions(delay_s=0.5)), _raster(0), _raster(1))
    assert slept == [1.0]
    with pytest.raises(SystemExit):
        _read(FakeEngine(FakeOptions(die_pages=(0,))), _raster(0))


def test_the_fake_can_stand_for_a_model_with_visual_tokens():
    rule = FakeEngine.spec(FakeOptions(visual_tokens=True, dpi=144)).raster
    assert (rule.side_multiple_px, rule.length_rule, rule.dpi) == (32, "hunyuan_visual_tokens", 144)
