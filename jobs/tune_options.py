"""What `pagemill tune` can be told beside the options of a job."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import ConfigurationError
from pipeline.option import nearest
from pipeline.tuning.figures import PROFILES, Profile
from pipeline.tuning.file import default_path
from pipeline.tuning.search import SIZES

MAX_BATCH = {"cuda": 256, "cpu": 64}
"""Largest size that is tried, if nobody says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """See the help of the command. `path` is the file of tunings, `picture` the beginning of the pictures' names."""

    sizes: tuple[int, ...] = ()
    max_batch: int = 0
    pages_per_trial: int = 16
    repeats: int = 3
    buckets: int = 4
    minutes: float = 10.0
    max_latency: float | None = None
    profile: Profile = "balanced"
    path: Path = Path("tuning.json")
    picture: Path = Path("tuning")

    @classmethod
    def of(
        cls, *, sizes: str, profile: str, tuning: str, picture: str, engine: str, max_latency: float, **numbers: float
    ) -> TuneOptions:
        """From the texts and numbers of a command line.

        Raises:
            ConfigurationError: one of them makes no sense.
        """
        if profile not in PROFILES:
            raise ConfigurationError(f"--profile cannot be '{profile}'{nearest(profile, PROFILES)}")
        leasts = {"max_batch": 0, "pages_per_trial": 1, "repeats": 1, "buckets": 1}
        for name, value in ({**numbers, "max_latency": max_latency}).items():
            if value < leasts.get(name, 0) or value != value or value == float("inf"):
                raise ConfigurationError(f"--{name.replace('_', '-')} must be at least {leasts.get(name, 0)}")
        path = Path(tuning).expanduser() if tuning else default_path()
        counts = {name: int(value) for name, value in numbers.items() if name in leasts}
        return cls(
            sizes=_sizes(sizes),
            minutes=numbers["minutes"],
            max_latency=max_latency or None,
            profile=profile,
            path=path,
            picture=Path(picture).expanduser() if picture else path.with_name(f"{path.stem}-{engine}"),
            **counts,
        )

    def sizes_for(self, *, on_gpu: bool) -> tuple[int, ...]:
        """The batch sizes to try, in rising order."""
        most = self.max_batch or MAX_BATCH["cuda" if on_gpu else "cpu"]
        if self.sizes:
            return tuple(size for size in self.sizes if not self.max_batch or size <= most) or self.sizes[:1]
        return tuple(size for size in SIZES if size <= most)


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = sorted({int(part) for part in text.split(",") if part.strip()})
    except ValueError:
        sizes = [0]
    if sizes and sizes[0] < 1:
        raise ConfigurationError(f"--sizes are numbers from 1 with commas, as in 1,2,4,8, not '{text}'")
    return tuple(sizes)
