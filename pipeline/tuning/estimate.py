"""Estimate: throughput of each batch size from a few noisy measurements of one bucket. Pure.

A machine drifts from round to round, and now and then a measurement is much too slow. So logarithms of throughput are
taken apart into a level for each size and an effect of each round, both by medians (Tukey's median polish); then
stragglers are left out, and a size's level is the mean of what is left.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from pipeline.tuning.figures import SizeFigures, TunedBucket
from pipeline.tuning.trial import Trial

_NORMAL = 1.4826
"""The median distance from the middle times this is the standard deviation, for normal noise."""

_LEAST_NOISE = 0.003
"""Relative. Three repeats that happen to agree are no proof."""

STRAGGLER = 2.5
"""Standard deviations from the level of its size at which a measurement counts no more."""

_SWEEPS = 4

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True)
class Levels:
    """Logarithm of pages a second by size, its residuals, and the standard deviation of one measurement."""

    level: Mapping[int, float]
    residuals: Mapping[int, tuple[float, ...]]
    noise: float

    def error(self, size: int) -> float:
        """Standard error of a size's level, a quarter larger than that of a mean of normal noise.

        A size whose own measurements lie further apart than usual has more stragglers among them.
        """
        found = self.residuals[size]
        return 1.25 * max(self.noise, _spread(found)) / math.sqrt(len(found))


def levels(trials: Iterable[Trial]) -> Levels:
    """Levels of all sizes that were read without running out of memory."""
    by_size: dict[int, dict[int, float]] = {}
    by_round: dict[int, dict[int, float]] = {}
    for trial in trials:
        if trial.pages_per_s > 0 and not trial.out_of_memory:
            size, number, value = trial.ask.batch_size, trial.ask.number, math.log(trial.pages_per_s)
            by_size.setdefault(size, {})[number] = by_round.setdefault(number, {})[size] = value
    level, effect = dict.fromkeys(sorted(by_size), 0.0), dict.fromkeys(by_round, 0.0)
    for _ in range(_SWEEPS):
        for size in level:
            level[size] = median(value - effect[number] for number, value in by_size[size].items())
        for number in effect:
            effect[number] = median(value - level[size] for size, value in by_round[number].items())
        middle = median(effect.values()) if effect else 0.0
        effect = {number: value - middle for number, value in effect.items()}
        level = {size: value + middle for size, value in level.items()}
    residuals = {
        size: tuple(value - level[size] - effect[number] for number, value in by_size[size].items()) for size in level
    }
    noise = _noise(residuals, num_fitted=len(level) + len(effect) - 1)
    return Levels({size: level[size] + _usual(residuals[size], noise) for size in level}, residuals, noise)


def _usual(residuals: Sequence[float], noise: float) -> float:
    """Mean of the residuals that are no stragglers: it is nearer to the truth than the median, which is at zero."""
    usual = [value for value in residuals if abs(value) <= STRAGGLER * noise]
    return sum(usual) / len(usual) if usual else 0.0


def _noise(residuals: Mapping[int, Sequence[float]], *, num_fitted: int) -> float:
    """Standard deviation of a measurement. As many residuals as were fitted are nothing, and left out."""
    distances = sorted(abs(value) for found in residuals.values() for value in found)[num_fitted:]
    return max(_LEAST_NOISE, _NORMAL * median(distances)) if distances else _LEAST_NOISE


def _spread(residuals: Sequence[float]) -> float:
    """How far measurements of one size lie from its level; the one that the level goes through says nothing."""
    distances = sorted(map(abs, residuals))[1:]
    return _NORMAL * median(distances) if distances else 0.0


def figures_of(trials: Sequence[Trial]) -> tuple[SizeFigures, ...]:
    """The figures of every size of one bucket, smallest first."""
    found = levels(trials)
    by_size: dict[int, list[Trial]] = {}
    for trial in trials:
        by_size.setdefault(trial.ask.batch_size, []).append(trial)
    return tuple(_figures(size, by_size[size], found) for size in sorted(by_size))


def _figures(size: int, trials: Sequence[Trial], found: Levels) -> SizeFigures:
    if any(trial.out_of_memory for trial in trials) or size not in found.level:
        return SizeFigures(size, 0.0, 0.0, 0.0, 0.0, 0.0, None, None, 0, None, 0.0, len(trials), out_of_memory=True)
    pages_per_s = math.exp(found.level[size])
    latencies = sorted(latency for trial in trials for latency in trial.latencies_s)
    return SizeFigures(
        batch_size=size,
        pages_per_s=pages_per_s,
        pages_per_s_spread=pages_per_s * _spread(found.residuals[size]),
        tokens_per_s=pages_per_s * sum(t.num_tokens for t in trials) / sum(t.num_pages for t in trials),
        latency_median_s=_quantile(latencies, 0.5),
        latency_p95_s=_quantile(latencies, 0.95),
        memory_allocated_bytes=max(_known(t.memory_allocated_bytes for t in trials), default=None),
        memory_reserved_bytes=max(_known(t.memory_reserved_bytes for t in trials), default=None),
        host_memory_bytes=int(median(t.host_memory_bytes for t in trials)),
        idle_ratio=_mean(_known(t.idle_ratio for t in trials)),
        padding_ratio=_mean([t.padding_ratio for t in trials]) or 0.0,
        repeats=len(trials),
    )


def bucket_of_trials(bucket: int, trials: Sequence[Trial], capacity_bytes: int) -> TunedBucket | None:
    """The figures of a bucket; None if no size of it ran."""
    try:
        return TunedBucket(bucket, figures_of(trials), capacity_bytes)
    except ValueError:
        return None


def _known(values: Iterable[_Number | None]) -> list[_Number]:
    return [value for value in values if value is not None]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which this share of them lies, between neighbours by interpolation; 0 of none."""
    if not ordered:
        return 0.0
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
