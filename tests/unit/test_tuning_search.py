"""The search finds the knee of simulated devices, through noise, stragglers and drift, and stops where it should."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from pipeline.tuning.figures import WITHIN, TunedBucket
from pipeline.tuning.search import Search, SearchLimits
from pipeline.tuning.trial import Ask, Trial

SIZES = (1, 2, 4, 8, 12, 16, 24, 32)
GIB = 1 << 30
NUM_SEEDS = 100


@dataclass(frozen=True, slots=True)
class Device:
    """Reads `rate(n)` pages a second in batches of n, but for noise; memory grows by a GiB a page and then runs out.

    Relative standard deviations: `noise` of a measurement, `drift` from round to round. `stragglers` is the share of
    measurements that take 1.3 to 3 times as long.
    """

    rate: Callable[[int], float]
    capacity_gib: int = 1000
    noise: float = 0.03
    drift: float = 0.05
    stragglers: float = 0.05

    def knee(self) -> int:
        fitting = [n for n in SIZES if n <= 0.9 * self.capacity_gib]
        return next(n for n in fitting if self.rate(n) >= (1 - WITHIN) * max(map(self.rate, fitting)))

    def distance_from_the_line(self) -> float:
        """How near a size comes to the line that the knee has to reach, as a share of the best."""
        fitting = [n for n in SIZES if n <= 0.9 * self.capacity_gib]
        best = max(map(self.rate, fitting))
        return min(abs(self.rate(n) / best - (1 - WITHIN)) for n in fitting)

    def measure(self, ask: Ask, level: float, rng: random.Random) -> Trial:
        if ask.batch_size > self.capacity_gib:
            return Trial(ask, out_of_memory=True)
        seconds = ask.batch_size / self.rate(ask.batch_size) * math.exp(rng.gauss(0, self.noise) + level)
        seconds *= rng.uniform(1.3, 3) if rng.random() < self.stragglers else 1
        used = ask.batch_size * GIB
        return Trial(ask, ask.batch_size, 9, seconds, (seconds,) * ask.batch_size, used, used, 0)


def tuned(device: Device, seed: int, limits: SearchLimits | None = None, buckets: tuple[int, ...] = (100,)) -> Search:
    rng = random.Random(seed)
    limits = limits or SearchLimits(SIZES, capacity_bytes=device.capacity_gib * GIB)
    search, level = Search(buckets, limits, rng.shuffle), dict[int, float]()
    while (ask := search.ask()) is not None:
        level.setdefault(ask.number, rng.gauss(0, device.drift))
        search.tell(device.measure(ask, level[ask.number], rng))
    return search


def the_bucket(search: Search) -> TunedBucket:
    (found,) = search.found()
    return found


DEVICES = {
    "a small knee, one page is nearly enough": Device(lambda n: n / (0.004 + n)),
    "a roof, from 8 pages on nothing is gained": Device(lambda n: n / max(8, n)),
    "a rise up to the limit of memory": Device(lambda n: n / (16 + n), capacity_gib=28),
    "a true peak, and a decline behind it": Device(lambda n: n / (2 + n + 0.03 * n * n)),
}


@pytest.mark.parametrize("name", DEVICES)
def test_the_right_knee_is_found_in_95_of_100_seeds(name: str):
    """Of curves no size of which lies within half a point of the line at 97 % of the best.

    Nearer than that, no number of repeats that anybody would wait for tells on which side a size is.
    """
    device = DEVICES[name]
    assert device.distance_from_the_line() > 0.005
    right = [the_bucket(tuned(device, seed)).knee() for seed in range(NUM_SEEDS)]
    assert sum(knee is not None and knee.batch_size == device.knee() for knee in right) >= 95


def test_where_sizes_lie_within_a_hair_of_the_line_what_is_taken_reads_as_much_but_for_a_hair():
    device = Device(lambda n: n / (0.06 + n))
    assert device.distance_from_the_line() < 0.004
    for seed in range(NUM_SEEDS // 4):
        knee = the_bucket(tuned(device, seed)).knee()
        assert knee is not None
        assert device.rate(knee.batch_size) >= (1 - 2 * WITHIN) * max(map(device.rate, SIZES))


def test_the_curves_have_the_knees_that_they_are_named_for():
    assert [device.knee() for device in DEVICES.values()] == [1, 8, 24, 8]


def quiet(rate: Callable[[int], float], capacity_gib: int = 1000) -> Device:
    return Device(rate, capacity_gib, noise=0, drift=0, stragglers=0)


def test_the_first_round_goes_up_and_stops_at_the_size_that_finds_no_memory():
    search = Search([100], SearchLimits(SIZES), random.Random(0).shuffle)
    device, asked = quiet(lambda n: n / (9 + n), 8), []
    while (ask := search.ask()) is not None and ask.number == 0:
        asked.append(ask.batch_size)
        search.tell(device.measure(ask, 0, random.Random(0)))
    assert asked == [1, 2, 4, 8, 12]
    found = the_bucket(search)
    assert found.ceiling == 8
    assert found.is_bounded_by_memory


def test_two_sizes_far_below_the_best_end_the_way_up():
    found = the_bucket(tuned(quiet(lambda n: n if n <= 4 else 2.0), 0))
    assert [figures.batch_size for figures in found.sizes] == [1, 2, 4, 8, 12]
    assert not found.is_bounded_by_memory


def test_sizes_that_gain_nothing_end_the_way_up():
    found = the_bucket(tuned(quiet(lambda n: 5.0), 0))
    assert [figures.batch_size for figures in found.sizes] == [1, 2, 4, 8, 12]


def test_a_size_that_finds_no_memory_in_a_later_round_takes_larger_ones_along():
    search = Search([100], SearchLimits(SIZES), random.Random(0).shuffle)
    while (ask := search.ask()) is not None:
        fails = ask.number == 1 and ask.batch_size >= 12
        rate = ask.batch_size / (4 + ask.batch_size)
        search.tell(Trial(ask, out_of_memory=True) if fails else Trial(ask, 8, 8, 8 / rate, (1.0,)))
        if fails:
            break
    while (ask := search.ask()) is not None:
        assert ask.batch_size < 32
        rate = ask.batch_size / (4 + ask.batch_size)
        fails = ask.batch_size >= 12
        search.tell(Trial(ask, out_of_memory=True) if fails else Trial(ask, 8, 8, 8 / rate, (1.0,)))
    assert the_bucket(search).ceiling == 8


def test_each_size_has_its_repeats_and_rounds_come_in_another_order():
    search = Search([100, 200], SearchLimits((1, 2, 4)), random.Random(5).shuffle)
    device, asked = quiet(lambda n: n / (9 + n)), []
    while (ask := search.ask()) is not None:
        asked.append((ask.number, ask.bucket, ask.batch_size))
        search.tell(device.measure(ask, 0, random.Random(0)))
    rounds = [[pair[1:] for pair in asked if pair[0] == number] for number in range(3)]
    assert len(asked) == 18
    assert rounds[0] == [(100, 1), (100, 2), (100, 4), (200, 1), (200, 2), (200, 4)]
    assert sorted(rounds[1]) == sorted(rounds[2]) == rounds[0]
    assert rounds[1] != rounds[2]


def test_what_is_in_doubt_is_repeated_up_to_the_limit_and_what_is_clear_is_not():
    limits = SearchLimits((1, 4, 16), repeats=3, max_repeats=7)
    close = Device(lambda n: 0.97 if n == 4 else n / 16, noise=0.03, drift=0, stragglers=0)
    repeats = {f.batch_size: f.repeats for f in the_bucket(tuned(close, 1, limits)).sizes}
    assert repeats == {1: 3, 4: 7, 16: 7}


def test_sizes_that_take_too_long_for_a_page_are_in_no_doubt():
    close = Device(lambda n: 0.97 if n == 4 else n / 16, noise=0.03, drift=0, stragglers=0)
    limits = SearchLimits((1, 4, 16), repeats=3, max_repeats=7, max_latency_s=10.0)
    repeats = {f.batch_size: f.repeats for f in the_bucket(tuned(close, 1, limits)).sizes}
    assert repeats == {1: 3, 4: 3, 16: 3}


def test_a_bucket_of_which_nothing_runs_is_not_among_the_found():
    search = tuned(quiet(lambda n: 1.0, capacity_gib=0), 0)
    assert search.found() == ()
    assert search.in_doubt(100) == ()
    assert search.unfinished == ()


def test_a_bucket_that_was_not_measured_to_its_end_is_told_and_not_found():
    search = Search([100, 200], SearchLimits((1, 2)), random.Random(0).shuffle)
    device = quiet(float)
    for _ in range(3):
        ask = search.ask()
        assert ask is not None
        search.tell(device.measure(ask, 0, random.Random(0)))
    assert search.unfinished == (200,)
    assert [found.bucket for found in search.found()] == [100]
    assert [found.bucket for found in search.so_far()] == [100, 200]
    assert search.num_expected >= 3


def test_a_bucket_that_was_given_up_is_asked_for_no_more():
    search = Search([100, 200], SearchLimits((1, 2)), random.Random(0).shuffle)
    device = quiet(float)
    while (ask := search.ask()) is not None and ask.number == 0:
        search.tell(device.measure(ask, 0, random.Random(0)))
    search.give_up(100)
    while (ask := search.ask()) is not None:
        assert ask.bucket == 200
        search.tell(device.measure(ask, 0, random.Random(0)))
    assert [found.bucket for found in search.found()] == [200]


def test_batches_are_full_and_no_page_is_read_more_often_than_another_in_the_long_run():
    counts = [0] * 5
    for number in range(5):
        batches = Ask(100, 3, number).batches(range(5), num_pages=4)
        assert [len(batch) for batch in batches] == [3, 3]
        for page in (page for batch in batches for page in batch):
            counts[page] += 1
    assert counts == [6] * 5
    assert len(Ask(100, 8, 0).batches(range(5), num_pages=4, at_once=2)) == 2
