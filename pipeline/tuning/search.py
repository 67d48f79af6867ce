"""Search: what to measure next, told what was measured so far. Pure: clock and machine are the caller's.

The first round of a bucket goes up through the sizes until memory runs out, the peak is past or nothing is gained any
more. Later rounds measure all of its sizes again, in an order drawn anew, together with those of the other buckets;
then come rounds of the few sizes of which it is not clear yet whether they are the knee.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pipeline.tuning.estimate import bucket_of_trials, levels
from pipeline.tuning.figures import WITHIN, TunedBucket
from pipeline.tuning.trial import Ask, Trial

SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)

PAST_PEAK, NUM_PAST_PEAK = 0.9, 2
"""So many sizes in a row that read less than this share of the best end the way up."""

GAIN, NUM_FLAT = 1.03, 4
"""So many sizes in a row that gain less than this over the best before them end it, too."""

DOUBT = 2.0
"""Standard errors between a size and the line of the knee within which it is not clear on which side it is."""


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """What to measure: sizes in rising order, repeats of each, and at most how many where the knee is in doubt.

    `capacity_bytes` is the memory of the device, `max_latency_s` the bound that the knee has to keep.
    """

    sizes: tuple[int, ...] = SIZES
    repeats: int = 3
    max_repeats: int = 15
    capacity_bytes: int = 1 << 62
    max_latency_s: float | None = None


@dataclass(slots=True)
class _Bucket:
    """What is known of a bucket: its trials, and the sizes that are still to be tried on the way up."""

    bucket: int
    ahead: deque[int]
    trials: list[Trial] = field(default_factory=list)

    def repeats(self, size: int) -> int:
        return sum(trial.ask.batch_size == size for trial in self.trials)

    def tuned(self, limits: SearchLimits) -> TunedBucket | None:
        return bucket_of_trials(self.bucket, self.trials, limits.capacity_bytes)

    def sizes(self) -> list[int]:
        """Those below the smallest that found no memory."""
        failed = min((t.ask.batch_size for t in self.trials if t.out_of_memory), default=None)
        tried = {trial.ask.batch_size for trial in self.trials}
        return sorted(size for size in tried if failed is None or size < failed)

    def is_past_the_peak(self) -> bool:
        """Whether going further up would only cost time."""
        found = [trial.pages_per_s for trial in self.trials]
        best = max(found)
        falls = len(found) > NUM_PAST_PEAK and all(f < PAST_PEAK * best for f in found[-NUM_PAST_PEAK:])
        before = max(found[:-NUM_FLAT], default=0.0)
        return falls or (before > 0 and all(f < GAIN * before for f in found[-NUM_FLAT:]))


_Shuffle = Callable[[list[tuple[int, int]]], None]


class Search:
    """Asks, and is told, one trial at a time."""

    def __init__(self, buckets: Sequence[int], limits: SearchLimits, shuffle: _Shuffle) -> None:
        """`buckets` come in the order in which they are looked at first; `shuffle` draws the order of later rounds."""
        self._limits, self._shuffle = limits, shuffle
        self._buckets = {bucket: _Bucket(bucket, deque(limits.sizes)) for bucket in buckets}
        self._round: list[tuple[int, int]] = []

    def ask(self) -> Ask | None:
        """What to measure next; None if everything is clear, or will not become so."""
        for bucket in self._buckets.values():
            if bucket.ahead:
                return Ask(bucket.bucket, bucket.ahead[0], 0)
        if not self._round:
            self._round = self._next_round()
        if not self._round:
            return None
        name, size = self._round[-1]
        return Ask(name, size, self._buckets[name].repeats(size))

    def tell(self, trial: Trial) -> None:
        """What was asked for has been measured."""
        bucket = self._buckets[trial.ask.bucket]
        bucket.trials.append(trial)
        if bucket.ahead:
            bucket.ahead.popleft()
            if trial.out_of_memory or bucket.is_past_the_peak():
                bucket.ahead.clear()
            return
        self._round.pop()
        if trial.out_of_memory:
            self._round = [
                (name, size) for name, size in self._round if name != trial.ask.bucket or size < trial.ask.batch_size
            ]

    def give_up(self, bucket: int) -> None:
        """Ask no more of a bucket, and forget what was measured of it."""
        del self._buckets[bucket]
        self._round = [pair for pair in self._round if pair[0] != bucket]

    @property
    def num_expected(self) -> int:
        """About how many trials there will be, without those for doubts."""
        sizes = [max(len(bucket.sizes()), 1) for bucket in self._buckets.values()]
        return sum(n * self._limits.repeats for n in sizes) + sum(len(b.ahead) for b in self._buckets.values())

    @property
    def unfinished(self) -> tuple[int, ...]:
        """Buckets whose first round is not through: nobody knows what larger batches would do."""
        return tuple(bucket.bucket for bucket in self._buckets.values() if bucket.ahead)

    def found(self) -> tuple[TunedBucket, ...]:
        """The figures of the buckets whose first round is through, shortest pages first."""
        done = [bucket.tuned(self._limits) for bucket in self._buckets.values() if not bucket.ahead]
        return tuple(sorted(filter(None, done), key=lambda tuned: tuned.bucket))

    def so_far(self) -> tuple[TunedBucket, ...]:
        """The figures of all buckets of which anything was measured."""
        some = [bucket.tuned(self._limits) for bucket in self._buckets.values()]
        return tuple(sorted(filter(None, some), key=lambda tuned: tuned.bucket))

    def in_doubt(self, bucket: int) -> tuple[int, ...]:
        """The sizes of which it is not clear whether they read as much as the knee has to."""
        tuned = self._buckets[bucket].tuned(self._limits)
        return self._doubtful(tuned) if tuned else ()

    def _doubtful(self, tuned: TunedBucket) -> tuple[int, ...]:
        measured = levels(self._buckets[tuned.bucket].trials)
        kept = [figures.batch_size for figures in tuned.within(self._limits.max_latency_s)]
        best = max(kept, key=lambda size: (tuned.levels[size], -size), default=0)
        return tuple(
            size
            for size in kept
            if size != best
            # A smaller one may be good enough, a larger one so good that the best is not.
            and abs(tuned.levels[size] / tuned.levels[best] - ((1 - WITHIN) if size < best else 1 / (1 - WITHIN)))
            < DOUBT * math.hypot(measured.error(size), measured.error(best))
        )

    def _next_round(self) -> list[tuple[int, int]]:
        pairs = [(name, size) for name in self._buckets for size in self._wanted(name)]
        self._shuffle(pairs)
        return pairs

    def _wanted(self, name: int) -> list[int]:
        """The sizes of a bucket that another round is to measure."""
        bucket, limits = self._buckets[name], self._limits
        sizes = bucket.sizes()
        if any(bucket.repeats(size) < limits.repeats for size in sizes):
            return sizes
        tuned = bucket.tuned(limits)
        doubtful = self._doubtful(tuned) if tuned else ()
        if tuned is None or not doubtful:
            return []
        line = (1 - WITHIN) * max(tuned.levels.values())
        wanted = {*doubtful, *(size for size in sizes if tuned.levels[size] >= line)}
        return [size for size in sizes if size in wanted and bucket.repeats(size) < limits.max_repeats]
