"""What figures speak for: knee, best and profiles as laws; JSON and back; estimates from trials."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.engines.engine import Identity, Premises
from pipeline.tuning.estimate import bucket_of_trials, figures_of, levels
from pipeline.tuning.figures import MEMORY_SHARE, PATIENCE, PROFILES, WITHIN, SizeFigures, TunedBucket
from pipeline.tuning.trial import Ask, Trial
from pipeline.tuning.tuning import Tuning, TuningKey, team_in_words
from pipeline.tuning.unimodal import unimodal

rates = st.floats(0.1, 1000.0)


def figures(size: int, rate: float, latency_s: float, memory_bytes: int = 10, **others: Any) -> SizeFigures:
    return SizeFigures(
        size, rate, 0.1, rate * 100, latency_s, latency_s, None, None, memory_bytes, None, 0.0, 3, **others
    )


@st.composite
def tuned_buckets(draw: st.DrawFn, edge: int | None = None) -> TunedBucket:
    """Any bucket whose latency grows with the batch, as memory does."""
    sizes = draw(st.lists(st.integers(1, 500), min_size=1, max_size=8, unique=True).map(sorted))
    each = {"min_size": len(sizes), "max_size": len(sizes)}
    read = draw(st.lists(rates, **each))
    latencies = draw(st.lists(st.floats(0.01, 9), **each).map(sorted))
    memory = draw(st.lists(st.integers(1, 100), **each).map(sorted))
    made = list(map(figures, sizes, read, latencies, memory))
    if len(made) > 1 and draw(st.booleans()):
        made[-1] = figures(sizes[-1], 0.0, 0.0, out_of_memory=True)
    return TunedBucket(edge or draw(st.integers(1, 5000)), tuple(made), draw(st.integers(50, 200)))


@given(tuned_buckets(), st.floats(0.01, 10), st.floats(0.01, 10))
def test_the_knee_grows_with_the_latency_that_is_allowed(tuned: TunedBucket, one: float, other: float):
    tight, loose = tuned.knee(min(one, other)), tuned.knee(max(one, other))
    if tight is not None:
        assert loose is not None
        assert tight.batch_size <= loose.batch_size


@given(tuned_buckets(), st.one_of(st.none(), st.floats(0.01, 10)))
def test_the_knee_keeps_its_bounds_and_is_the_smallest_that_does(tuned: TunedBucket, bound: float | None):
    knee = tuned.knee(bound)
    kept = [f for f in tuned.ran if f.memory_bytes <= MEMORY_SHARE * tuned.capacity_bytes]
    kept = [f for f in kept if bound is None or f.latency_p95_s <= bound]
    assert (knee is None) == (not kept)
    if knee is not None:
        best = max(tuned.levels[f.batch_size] for f in kept)
        assert knee in kept
        assert tuned.levels[knee.batch_size] >= (1 - WITHIN) * best
        assert all(tuned.levels[f.batch_size] < (1 - WITHIN) * best for f in kept if f.batch_size < knee.batch_size)


@given(tuned_buckets())
def test_profiles_take_sizes_that_ran_and_the_knee_is_no_larger_than_the_best(tuned: TunedBucket):
    taken = {profile: tuned.size_for(profile) for profile in PROFILES}
    assert all(size == 1 or size in [f.batch_size for f in tuned.ran] for size in taken.values())
    assert all(size <= tuned.ceiling for size in taken.values())
    assert taken["balanced"] <= taken["bulk"]
    assert taken["interactive"] <= max(taken["balanced"], 1)
    assert tuned.size_for("interactive") == tuned.size_for("balanced", PATIENCE * tuned.ran[0].latency_p95_s)


def test_each_profile_takes_its_size():
    sizes = (figures(1, 10, 0.1), figures(2, 18, 0.12), figures(4, 30, 0.2), figures(8, 40, 0.4), figures(16, 41, 0.8))
    tuned = TunedBucket(100, (*sizes, figures(32, 0, 0, out_of_memory=True)), 1000)
    assert [tuned.size_for(profile) for profile in PROFILES] == [16, 8, 2]
    assert [tuned.size_for(profile, 0.25) for profile in PROFILES] == [4, 4, 4]
    assert [tuned.size_for(profile, 0.01) for profile in PROFILES] == [1, 1, 1]
    assert tuned.ceiling == 16
    assert tuned.is_bounded_by_memory


def test_a_size_that_leaves_no_memory_free_is_no_knee_and_is_taken_by_nobody():
    tuned = TunedBucket(100, (figures(4, 10, 1, 50), figures(8, 20, 1, 95)), 100)
    assert [tuned.size_for(profile) for profile in PROFILES] == [4, 4, 4]
    full = TunedBucket(100, (figures(4, 10, 1, 95), figures(8, 20, 1, 99)), 100)
    assert full.knee() is None
    assert [full.size_for(profile) for profile in PROFILES] == [8, 1, 1]


def test_reserved_memory_counts_where_there_is_a_gpu():
    assert replace(figures(1, 1, 1, 7), memory_reserved_bytes=9).memory_bytes == 9
    assert figures(1, 1, 1, 7).memory_bytes == 7


@pytest.mark.parametrize(
    "sizes",
    [(), (figures(2, 1, 1), figures(1, 1, 1)), (figures(0, 1, 1),), (figures(1, 0, 0, out_of_memory=True),)],
    ids=["none", "out of order", "zero", "nothing ran"],
)
def test_what_is_no_bucket_is_refused(sizes: tuple[SizeFigures, ...]):
    with pytest.raises(ValueError, match="bucket 100"):
        TunedBucket(100, sizes, 1000)


@given(st.lists(rates, min_size=1, max_size=9), st.data())
def test_the_fit_rises_to_one_peak_keeps_the_weighted_sum_and_alters_nothing_that_has_one(
    values: list[float], data: st.DataObject
):
    weights = data.draw(st.lists(st.integers(1, 9), min_size=len(values), max_size=len(values)))
    fitted = unimodal(values, weights)
    peak = fitted.index(max(fitted))
    assert fitted[: peak + 1] == sorted(fitted[: peak + 1])
    assert fitted[peak:] == sorted(fitted[peak:], reverse=True)
    total = sum(w * v for w, v in zip(weights, values, strict=True))
    assert sum(w * f for w, f in zip(weights, fitted, strict=True)) == pytest.approx(total)
    assert unimodal(fitted, weights) == pytest.approx(fitted)


def trial(size: int, number: int, rate: float, **others: Any) -> Trial:
    return Trial(Ask(100, size, number), 10, 500, 10 / rate, (0.1, 0.2, 0.3), host_memory_bytes=size, **others)


def test_drift_from_round_to_round_does_not_alter_the_ratio_of_two_sizes():
    drift = [1.0, 0.5, 2.0, 1.3, 0.9]
    found = levels([trial(size, n, size * drift[n]) for n in range(5) for size in (1, 2, 4)])
    assert found.level[4] - found.level[1] == pytest.approx(math.log(4))


def test_a_straggler_alters_nothing_and_is_seen_in_the_spread():
    trials = [trial(size, n, 1.0 if (size, n) == (8, 1) else float(size)) for n in range(3) for size in (1, 2, 8)]
    found = {f.batch_size: f for f in figures_of(trials)}
    assert found[8].pages_per_s == pytest.approx(8)
    assert found[8].pages_per_s_spread > found[1].pages_per_s_spread


def test_figures_say_what_trials_have_said():
    one = trial(2, 0, 4.0, memory_allocated_bytes=5, memory_reserved_bytes=7, idle_ratio=0.2, padding_ratio=0.5)
    two = trial(2, 1, 4.0, memory_allocated_bytes=6, memory_reserved_bytes=6, idle_ratio=0.4, padding_ratio=0.5)
    (found,) = figures_of([one, two])
    assert (found.pages_per_s, found.tokens_per_s) == pytest.approx((4.0, 200.0))
    assert (found.latency_median_s, found.latency_p95_s) == pytest.approx((0.2, 0.3))
    assert (found.memory_allocated_bytes, found.memory_reserved_bytes, found.host_memory_bytes) == (6, 7, 2)
    assert found.idle_ratio == pytest.approx(0.3)
    assert (found.padding_ratio, found.repeats, found.out_of_memory) == (0.5, 2, False)


def test_one_trial_and_a_trial_without_pages_are_figures_too():
    (found,) = figures_of([Trial(Ask(100, 1, 0), 4, 4, 2.0)])
    assert (found.pages_per_s, found.pages_per_s_spread, found.latency_p95_s) == (pytest.approx(2.0), 0.0, 0.0)
    assert bucket_of_trials(100, [Trial(Ask(100, 1, 0))], 1000) is None
    assert bucket_of_trials(100, [], 1000) is None


KEY = TuningKey("hunyuan", "1", "HunyuanOCR", "abc", "fp16", "H200", (("torch", "2.9"), ("transformers", "5.24")), "x")


@st.composite
def tunings(draw: st.DrawFn) -> Tuning:
    edges = sorted(draw(st.sets(st.integers(1, 9999), min_size=1, max_size=4)))
    buckets = tuple(draw(tuned_buckets(edge)) for edge in edges)
    return Tuning(KEY, "2026-01-01T00:00:00+00:00", buckets, 99, draw(st.one_of(st.none(), st.integers(1, 9))), 1)


@settings(max_examples=40)
@given(tunings())
def test_a_tuning_comes_back_from_json_as_it_was(tuning: Tuning):
    assert Tuning.from_dict(json.loads(json.dumps(tuning.as_dict()))) == tuning


@settings(max_examples=40)
@given(tunings(), st.integers(1, 20000), st.integers(1, 20000))
def test_longer_pages_than_any_measured_get_batches_of_no_more_tokens_and_of_one_page_at_least(
    tuning: Tuning, one: int, other: int
):
    last = tuning.buckets[-1]
    short, long = sorted((last.bucket + one, last.bucket + other))
    for profile in PROFILES:
        assert tuning.batch_size(last.bucket, profile) == last.size_for(profile)
        assert 1 <= tuning.batch_size(long, profile) <= tuning.batch_size(short, profile)
        size = tuning.batch_size(long, profile)
        assert size == 1 or size * long <= last.size_for(profile) * last.bucket
    assert 1 <= tuning.ceiling(long) <= tuning.ceiling(short) <= last.ceiling


@settings(max_examples=40)
@given(tunings(), st.data())
def test_a_page_is_spoken_for_by_the_smallest_bucket_that_holds_it(tuning: Tuning, data: st.DataObject):
    length = data.draw(st.integers(0, tuning.buckets[-1].bucket))
    tuned = tuning.bucket_for(length)
    assert length <= tuned.bucket
    assert not [b for b in tuning.buckets if length <= b.bucket < tuned.bucket]
    assert tuning.batch_size(length) == tuned.size_for("balanced")


def valid() -> dict[str, Any]:
    return Tuning(KEY, "2026", (TunedBucket(9, (figures(1, 1.0, 1.0),), 99),), 1).as_dict()


RUBBISH: dict[str, Any] = {
    "no object": [],
    "a field too few": {k: v for k, v in valid().items() if k != "key"},
    "a field too many": valid() | {"more": 1},
    "a key that is none": valid() | {"key": 5},
    "versions that are none": valid() | {"key": valid()["key"] | {"libraries": {"torch": 2}}},
    "a number for a text": valid() | {"measured_at": 5},
    "true for a number": valid() | {"num_pages": True},
    "no buckets": valid() | {"buckets": []},
    "a bucket that is none": valid() | {"buckets": [5]},
    "sizes that are none": valid() | {"buckets": [{"bucket": 9, "capacity_bytes": 9, "sizes": [5]}]},
    "a bucket of nothing": valid() | {"buckets": [{"bucket": 9, "capacity_bytes": 9, "sizes": []}]},
    "an edge of zero": valid() | {"buckets": [valid()["buckets"][0] | {"bucket": 0}]},
}


@pytest.mark.parametrize("name", RUBBISH)
def test_rubbish_is_refused_in_one_line(name: str):
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        Tuning.from_dict(json.loads(json.dumps(RUBBISH[name])))


def test_whole_numbers_pass_for_floats():
    told = valid()
    told["buckets"][0]["sizes"][0]["pages_per_s"] = 3
    assert Tuning.from_dict(told).buckets[0].sizes[0].pages_per_s == 3


def test_a_key_is_made_of_identity_and_premises():
    identity = Identity("hunyuan", "1", "HunyuanOCR", "abc", "parse")
    premises = Premises("fp16", "H200", (("transformers", "5.24"), ("torch", "2.9")), "x")
    assert TuningKey.of(identity, premises) == KEY


def test_what_has_changed_is_said_old_first():
    other = replace(KEY, libraries=(("torch", "2.9"), ("transformers", "5.25")), precision="bf16", manner="")
    told = ("precision fp16 -> bf16", "manner x -> none", "transformers 5.24 -> 5.25")
    assert KEY.changes_to(other) == told
    assert KEY.changes_to(KEY) == ()
    assert KEY.is_kin_of(other)
    assert not KEY.is_kin_of(replace(KEY, model="other"))


def test_processes_and_threads_are_told_in_whole_words():
    assert [team_in_words(*team) for team in ((1, 1), (1, 4), (2, 1), (3, 2))] == [
        "1 process of 1 thread",
        "1 process of 4 threads",
        "2 processes of 1 thread each",
        "3 processes of 2 threads each",
    ]
