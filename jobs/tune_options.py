"""What `pagemill tune` can be told beside the options of a job."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.sizing import NO_TUNING
from pipeline.config import JobConfig
from pipeline.engines import choose
from pipeline.errors import ConfigurationError
from pipeline.tuning.figures import Profile
from pipeline.tuning.file import default_path, named_path
from pipeline.tuning.search import SIZES

MAX_BATCH = {"cuda": 256, "cpu": 64}
"""Largest size that is tried, if nobody says."""

_LEAST = {"pages_per_trial": 1, "repeats": 1, "buckets": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """See the help of the command. `path` is the file of tunings, `picture` the beginning of the pictures' names."""

    sizes: tuple[int, ...]
    max_batch: int
    pages_per_trial: int
    repeats: int
    buckets: int
    minutes: float
    max_latency: float | None
    profile: Profile
    path: Path
    picture: Path

    @classmethod
    def of(cls, job: JobConfig, *, sizes: str, picture: str, minutes: float, **counts: int) -> TuneOptions:
        """From a job, and the texts and numbers of a command line.

        Raises:
            ConfigurationError: one of them makes no sense.
        """
        for name, value in ({**counts, "minutes": minutes}).items():
            least = _LEAST.get(name, 0)
            if not least <= value < math.inf:
                raise ConfigurationError(f"--{name.replace('_', '-')} must be at least {least}")
        if job.tuning == NO_TUNING:
            raise ConfigurationError("--tuning none leaves no file to keep what is measured: name one")
        if picture and not Path(picture).name:
            raise ConfigurationError(f"--picture is how the names of the pictures begin, not the folder '{picture}'")
        tried = _sizes(sizes)
        if tried and 0 < counts["max_batch"] < tried[0]:
            raise ConfigurationError(f"--sizes {sizes} has none up to --max-batch {counts['max_batch']}")
        path = named_path(job.tuning) if job.tuning else default_path()
        profile: Any = job.profile
        return cls(
            sizes=tried,
            minutes=minutes,
            max_latency=job.max_latency or None,
            profile=profile,
            path=path,
            picture=Path(picture or path.with_name(f"{path.stem}-{choose(job.engine).engine.name}")).expanduser(),
            **counts,
        )

    def sizes_for(self, *, on_gpu: bool) -> tuple[int, ...]:
        """The batch sizes to try, in rising order."""
        most = self.max_batch or MAX_BATCH["cuda" if on_gpu else "cpu"]
        if self.sizes:
            return tuple(size for size in self.sizes if not self.max_batch or size <= most)
        return tuple(size for size in SIZES if size <= most)


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = sorted({int(part) for part in text.split(",") if part.strip()})
    except ValueError:
        sizes = [0]
    if sizes and sizes[0] < 1:
        raise ConfigurationError(f"--sizes are numbers from 1 with commas, as in 1,2,4,8, not '{text}'")
    return tuple(sizes)
