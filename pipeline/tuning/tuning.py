"""Tuning: the measured answer to which batch size, for what it holds, and as data. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, get_args, get_type_hints

from pipeline.engines.engine import Identity, Premises
from pipeline.tuning.figures import Profile, SizeFigures, TunedBucket


@dataclass(frozen=True, slots=True)
class TuningKey:
    """What a measurement holds for: another value of any of these, and it has to be measured again.

    `libraries` are names and versions, sorted; `manner` is what else the engine was told that the figures depend on.
    """

    engine: str
    engine_version: str
    model: str | None
    model_revision: str | None
    precision: str
    device: str
    libraries: tuple[tuple[str, str], ...] = ()
    manner: str = ""

    @classmethod
    def of(cls, identity: Identity, premises: Premises) -> TuningKey:
        """That of an engine as configured, on this machine."""
        return cls(
            identity.name,
            identity.version,
            identity.model,
            identity.model_revision,
            premises.precision,
            premises.device,
            tuple(sorted(premises.libraries)),
            premises.manner,
        )

    def is_kin_of(self, other: TuningKey) -> bool:
        """Whether both are about the same engine and model, by name."""
        return (self.engine, self.model) == (other.engine, other.model)

    def changes_to(self, other: TuningKey) -> tuple[str, ...]:
        """What is another in `other`, as in ``transformers 5.24 -> 5.25``."""
        told = []
        for name in ("engine_version", "model_revision", "precision", "device", "manner"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                told.append(f"{name.replace('_', ' ')} {mine or 'none'} -> {theirs or 'none'}")
        mine, theirs = dict(self.libraries), dict(other.libraries)
        versions = [(name, mine.get(name, "none"), theirs.get(name, "none")) for name in sorted({*mine, *theirs})]
        return (*told, *(f"{name} {old} -> {new}" for name, old, new in versions if old != new))


@dataclass(frozen=True, slots=True)
class Tuning:
    """What was measured under a key. `measured_at` is UTC as ISO text; `num_pages` were read for it in all.

    `actors` and `threads` are the processes of a CPU engine, and the threads of each, that together read most on this
    machine; None where that was not measured.

    Raises:
        ValueError: there is no bucket, or buckets are not in order.
    """

    key: TuningKey
    measured_at: str
    buckets: tuple[TunedBucket, ...]
    num_pages: int
    actors: int | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        edges = [bucket.bucket for bucket in self.buckets]
        if not edges or edges != sorted(set(edges)) or edges[0] < 1:
            raise ValueError(f"the buckets are not in order: {edges}")

    def bucket_for(self, length: int) -> TunedBucket:
        """The bucket that speaks for a page of this length: the smallest that holds it, or else the largest."""
        return next((tuned for tuned in self.buckets if tuned.bucket >= length), self.buckets[-1])

    def batch_size(self, length: int, profile: Profile = "balanced", max_latency_s: float | None = None) -> int:
        """Pages in a batch whose longest page has this length.

        For pages longer than any that was measured it shrinks, so that a batch has no more tokens than one of those.
        """
        tuned = self.bucket_for(length)
        return _scaled(tuned.size_for(profile, max_latency_s), tuned.bucket, length)

    def ceiling(self, length: int) -> int:
        """The largest batch of this length that is known to fit, scaled alike."""
        tuned = self.bucket_for(length)
        return _scaled(tuned.ceiling, tuned.bucket, length)

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        key = asdict(self.key) | {"libraries": dict(self.key.libraries)}
        buckets = [
            {"bucket": b.bucket, "capacity_bytes": b.capacity_bytes, "sizes": [asdict(s) for s in b.sizes]}
            for b in self.buckets
        ]
        rest = {name: getattr(self, name) for name in ("measured_at", "num_pages", "actors", "threads")}
        return {"key": key, **rest, "buckets": buckets}

    @classmethod
    def from_dict(cls, values: Any) -> Tuning:
        """The same again.

        Raises:
            ValueError: it says something else, in one line.
        """
        found = _checked("a tuning", values, cls)
        key = _checked("a key", found["key"], TuningKey)
        if not all(isinstance(text, str) for pair in key["libraries"].items() for text in pair):
            raise ValueError("the versions of libraries are no texts")
        key["libraries"] = tuple(sorted(key["libraries"].items()))
        buckets = []
        for item in found["buckets"]:
            bucket = _checked("a bucket", item, TunedBucket)
            sizes = tuple(SizeFigures(**_checked("a batch size", size, SizeFigures)) for size in bucket["sizes"])
            buckets.append(TunedBucket(bucket["bucket"], sizes, bucket["capacity_bytes"]))
        return cls(**{**found, "key": TuningKey(**key), "buckets": tuple(buckets)})


def _scaled(size: int, edge: int, length: int) -> int:
    return size if length <= edge else max(1, size * edge // length)


_AS_JSON: dict[str, tuple[type, ...]] = {"key": (dict,), "libraries": (dict,), "buckets": (list,), "sizes": (list,)}
"""Fields that have another type in JSON than in the class."""


def _checked(what: str, values: Any, wanted: type) -> dict[str, Any]:
    """A JSON object that has exactly the fields of a class, with values of their types."""
    if not isinstance(values, Mapping):
        raise ValueError(f"{what} is no object but {type(values).__name__}")
    names, hints = [item.name for item in fields(wanted)], get_type_hints(wanted)
    if set(values) != set(names):
        odd = sorted(map(str, set(values) ^ set(names)))
        raise ValueError(f"{what} has not the right fields: {', '.join(odd)}")
    for name in names:
        kinds = _AS_JSON.get(name) or get_args(hints[name]) or (hints[name],)
        allowed = (*kinds, int) if float in kinds else kinds
        if type(values[name]) not in allowed:
            raise ValueError(f"{name} of {what} cannot be {values[name]!r}")
    return dict(values)


def team_in_words(actors: int, threads: int) -> str:
    """``2 processes of 1 thread each``."""
    processes = "1 process" if actors == 1 else f"{actors} processes"
    return f"{processes} of {threads} thread{'' if threads == 1 else 's'}{'' if actors == 1 else ' each'}"
