"""What `pagemill tune` has found, for a person and for a program."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from jobs.tune_options import TuneOptions
from jobs.tune_table import sizes_in_words, table
from pipeline.tuning.figures import TunedBucket
from pipeline.tuning.tuning import Tuning


@dataclass(frozen=True, slots=True)
class TuneReport:
    """`buckets` are what is shown, `tuning` what was kept, if anything; `num_seen` counts pages seen by bucket."""

    engine: str
    buckets: tuple[TunedBucket, ...]
    tuning: Tuning | None
    told: TuneOptions
    notes: list[str]
    num_seen: Mapping[int, int]
    seconds: float
    exit_code: int
    problem: str | None = None

    def draw(self) -> list[Path]:
        """The pictures of what is shown, if there is anything.

        Raises:
            StorageError: they cannot be written.
        """
        if not self.buckets:
            return []
        from jobs.tune_picture import draw

        return draw(self.buckets, self.told.picture, title=self.engine, max_latency_s=self.told.max_latency)

    def as_text(self, pictures: list[Path]) -> str:
        """Tables, and what is done with them."""
        return "\n".join(self._lines(pictures))

    def _lines(self, pictures: list[Path]) -> Iterator[str]:
        profile, bound = self.told.profile, self.told.max_latency
        for tuned in self.buckets:
            repeats = sorted({figures.repeats for figures in tuned.ran})
            times = (
                "once" if repeats == [1] else f"{'-'.join(map(str, dict.fromkeys((repeats[0], repeats[-1]))))} times"
            )
            yield f"pages up to length {tuned.bucket} ({self.num_seen.get(tuned.bucket, 0)} seen), each size {times}"
            yield from table(tuned, profile, bound)
            yield ""
        if not self.buckets:
            yield "nothing was measured"
        yield from (f"note       {note}" for note in self.notes)
        yield f"time       {self.seconds:.0f} s"
        if self.tuning is not None:
            bounded = f", {bound:g} s at the most for a page" if bound else ""
            yield f"{profile:<10} {sizes_in_words(self.buckets, profile, bound)}{bounded}"
            if self.tuning.actors:
                yield f"processes  {self.tuning.actors}, with {self.tuning.threads} threads each"
            yield f"kept in    {self.told.path}: runs with this engine on this machine use it"
        elif self.buckets:
            yield "kept       nothing"
        for path in pictures:
            yield f"picture    {path}"

    def as_json(self, pictures: list[Path]) -> str:
        """The same for a program to read."""
        profile, bound = self.told.profile, self.told.max_latency
        values = {
            "engine": self.engine,
            "exit_code": self.exit_code,
            "problem": self.problem,
            "seconds": round(self.seconds, 3),
            "profile": profile,
            "max_latency_s": bound,
            "batch_sizes": {str(tuned.bucket): tuned.size_for(profile, bound) for tuned in self.buckets},
            "knees": {str(tuned.bucket): _knee(tuned, bound) for tuned in self.buckets},
            "ceilings": {str(tuned.bucket): tuned.ceiling for tuned in self.buckets},
            "tuning": self.tuning.as_dict() if self.tuning else None,
            "path": str(self.told.path) if self.tuning else None,
            "pictures": [str(path) for path in pictures],
            "notes": self.notes,
        }
        return json.dumps(values)


def _knee(tuned: TunedBucket, bound: float | None) -> int | None:
    knee = tuned.knee(bound)
    return knee.batch_size if knee else None
