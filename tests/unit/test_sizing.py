"""Where batch sizes come from: asked for, measured, or the engine's own; and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobs.prepare import Prepared, prepare
from pipeline.budget import Allowance, Budget, SizeReason
from pipeline.config import JobConfig
from pipeline.engines.fake import FakeEngine
from pipeline.engines.hunyuan.engine import HunyuanEngine
from pipeline.errors import ConfigurationError
from pipeline.tuning.figures import SizeFigures, TunedBucket
from pipeline.tuning.file import default_path, keep, key_of
from pipeline.tuning.tuning import Tuning

RATES = {1: 1.0, 2: 1.8, 4: 3.0, 8: 3.98, 16: 4.0}
LATENCIES = {1: 1.0, 2: 1.1, 4: 1.3, 8: 2.0, 16: 4.0}


def _figures(size: int, *, short: bool = False) -> SizeFigures:
    return SizeFigures(
        size, RATES[size], 0.01, 0.0, LATENCIES[size], LATENCIES[size], None, None, 1, None, 0.0, 3, short
    )


def _tuning(engine: type[Any], *, lacking: int = 99, **changes: Any) -> Tuning:
    options = engine.read_options(())
    key = replace(key_of(engine, options, engine.spec(options).identity), **changes)
    buckets = tuple(
        TunedBucket(edge, tuple(_figures(size, short=size > most) for size in RATES), 100)
        for edge, most in ((1000, 99), (4000, lacking))
    )
    return Tuning(key, "2026-12-03T04:05:06+00:00", buckets, 100, actors=3, threads=2)


@pytest.fixture
def tuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where tunings are looked for if nobody says."""
    monkeypatch.setenv("PAGEMILL_TUNING", str(tmp_path / "tuning.json"))
    return default_path()


def _prepared(**options: Any) -> Prepared:
    return prepare(JobConfig(**{"engine": "fake", **options}))


def _sizes(prepared: Prepared, *lengths: int) -> list[Allowance]:
    budget = Budget(prepared.sizing.start)
    return [budget.allowance(length) for length in lengths]


def test_without_a_tuning_the_engine_says_the_size_and_nothing_is_told(tuned: Path):
    prepared = _prepared()
    assert _sizes(prepared, 10, 9999) == [Allowance(prepared.spec.needs.batch_size, SizeReason.ENGINE)] * 2
    assert (prepared.sizing.said, prepared.sizing.actors) == (None, 0)


@pytest.mark.parametrize("asked", [3, "3"])
def test_a_size_that_is_asked_for_is_taken_whatever_was_measured(tuned: Path, asked: int | str):
    keep(tuned, _tuning(FakeEngine))
    prepared = _prepared(batch_size=asked)
    assert _sizes(prepared, 10) == [Allowance(3, SizeReason.ASKED)]
    assert prepared.sizing.said is None


@pytest.mark.parametrize("batch_size", ["auto", 0, "0"])
@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({}, 8),
        ({"profile": "bulk"}, 16),
        ({"profile": "bulk", "max_latency": 1.2}, 2),
        ({"profile": "interactive"}, 4),
        ({"max_latency": 1.2}, 2),
    ],
)
def test_later_runs_take_what_a_profile_says_of_a_tuning(tuned: Path, batch_size: Any, options: Any, size: int):
    keep(tuned, _tuning(FakeEngine))
    assert _sizes(_prepared(batch_size=batch_size, **options), 500) == [Allowance(size, SizeReason.TUNED)]


def test_each_bucket_has_its_own_size_and_longer_pages_fewer(tuned: Path):
    keep(tuned, _tuning(FakeEngine, lacking=4))
    prepared = _prepared()
    assert [allowed.size for allowed in _sizes(prepared, 500, 3500, 7500, 99_000)] == [8, 4, 1, 1]
    assert prepared.sizing.start.ceiling_for is not None
    assert [prepared.sizing.start.ceiling_for(length) for length in (500, 3500)] == [16, 4]


def test_a_run_says_that_it_follows_a_tuning(tuned: Path):
    keep(tuned, _tuning(FakeEngine))
    said = "batch sizes as measured on 2026-12-03 (balanced): 8 up to length 1000, 8 up to length 4000"
    assert _prepared().sizing.said == said + "; 3 processes of 2 threads each"
    assert _prepared(actors=1).sizing.said == said
    assert _prepared(runner="local").sizing.said == said


def test_processes_and_threads_are_those_that_read_most_unless_they_are_set(tuned: Path):
    keep(tuned, _tuning(FakeEngine))
    prepared = _prepared()
    assert (prepared.sizing.actors, prepared.options.threads, prepared.spec.needs.num_cpus) == (3, 2, 2)
    set_by_hand = _prepared(actors=5)
    assert (set_by_hand.sizing.actors, set_by_hand.options.threads) == (0, 1)
    for threads in (1, 4):
        told = _prepared(engine_options=(f"threads={threads}",))
        assert (told.sizing.actors, told.options.threads) == (0, threads)
    assert _prepared(ray_address="auto").sizing.actors == 0


def test_a_tuning_of_another_version_is_stale_and_the_line_says_what_to_do(tuned: Path):
    keep(tuned, _tuning(FakeEngine, device="another card"))
    prepared = _prepared()
    assert _sizes(prepared, 10) == [Allowance(prepared.spec.needs.batch_size, SizeReason.ENGINE)]
    said = prepared.sizing.said
    assert said is not None
    assert said.startswith(f"{tuned} is stale (device another card -> ")
    assert said.endswith("sizes come from the engine and its memory model; measure anew: pagemill tune --engine fake")
    named = _prepared(tuning=str(tuned), engine_options=("read=false",)).sizing.said
    assert named is not None
    assert named.endswith(f"pagemill tune --engine fake --tuning {tuned} --engine-option read=false")


def test_a_trade_that_is_asked_for_without_figures_to_choose_from_is_told(tuned: Path):
    for options in ({"profile": "bulk"}, {"max_latency": 0.5}):
        said = _prepared(**options).sizing.said
        assert said is not None
        assert said.endswith("none were: pagemill tune")


def test_a_user_without_a_home_has_no_tuning_and_runs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PAGEMILL_TUNING")
    monkeypatch.setenv("XDG_CONFIG_HOME", "~nobody-of-this-name")
    said = _prepared().sizing.said
    assert said is not None
    assert said.startswith("no tuning is used: there is no home folder")


def test_none_uses_none(tuned: Path):
    keep(tuned, _tuning(FakeEngine))
    assert _prepared(tuning="none").sizing.said is None


def test_a_file_that_is_named_and_not_there_is_refused(tuned: Path, tmp_path: Path):
    with pytest.raises(ConfigurationError, match="no such file; 'pagemill tune' writes one"):
        _prepared(tuning=str(tmp_path / "else.json"))


def test_a_file_that_is_no_tuning_is_refused_if_it_was_named_and_else_passed_over_in_one_line(tuned: Path):
    tuned.write_text("[]")
    with pytest.raises(ConfigurationError, match="is no tuning file of Pagemill"):
        _prepared(tuning=str(tuned))
    said = _prepared().sizing.said
    assert said is not None
    assert said.startswith(f"no tuning is used: {tuned} is no tuning file of Pagemill")
    assert "\n" not in said


def test_an_engine_that_shares_slots_among_batches_gets_slots(tuned: Path):
    keep(tuned, _tuning(HunyuanEngine, lacking=4))
    prepared = prepare(JobConfig(engine="hunyuan"), must_run=False)
    assert prepared.options.slots == 8
    assert not prepared.sizing.start.lowers
    assert prepared.sizing.start.ceiling_for is None
    asked = prepare(JobConfig(engine="hunyuan", engine_options=("slots=3",)), must_run=False)
    assert (asked.options.slots, asked.sizing.start.reason) == (3, SizeReason.ENGINE)
    quick = prepare(JobConfig(engine="hunyuan", max_latency=1.35), must_run=False)
    assert quick.options.slots == 4


def test_batches_of_an_interactive_run_do_not_grow(tuned: Path):
    keep(tuned, _tuning(FakeEngine))
    grows = [_prepared(**o).sizing.start.grows for o in ({}, {"profile": "interactive"}, {"max_latency": 9.0})]
    assert grows == [True, False, False]
