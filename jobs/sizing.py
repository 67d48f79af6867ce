"""Where the sizes of a run's batches come from: what was asked for, a tuning, or what the engine says of itself."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipeline.budget import SizeReason, Start, fixed
from pipeline.config import ENGINE_FLAGS, JobConfig
from pipeline.engines.engine import Engine, Needs, Spec
from pipeline.errors import ConfigurationError
from pipeline.tuning.file import Stale, default_path, find, key_of, named_path
from pipeline.tuning.tuning import Tuning, team_in_words

NO_TUNING = "none"
"""What the option `tuning` says where none is to be used."""


@dataclass(frozen=True, slots=True)
class Sizing:
    """The sizes to begin with, the engine's options with what a tuning has chosen of them, and processes (0: not said).

    `spec` is the engine's declaration under these options, `said` a line for the person who has started the run.
    """

    start: Start
    options: Any
    spec: Spec
    actors: int = 0
    said: str | None = None


def sizing(config: JobConfig, engine: type[Engine], options: Any) -> Sizing:
    """Look for a tuning of this engine as it is configured, unless a batch size was asked for.

    Raises:
        ConfigurationError: a file that was named is not there, or no tuning file.
    """
    spec, asked = engine.spec(options), config.asked_batch_size
    if asked:
        return Sizing(_start_of(spec.needs, asked, SizeReason.ASKED), options, spec)
    found, said = _found(config, engine, options, spec)
    if found is not None:
        return _tuned(config, engine, options, spec, found)
    return Sizing(_start_of(spec.needs, spec.needs.batch_size, SizeReason.ENGINE), options, spec, said=said)


def _found(config: JobConfig, engine: type[Engine], options: Any, spec: Spec) -> tuple[Tuning | None, str | None]:
    """The tuning for this job, or what to say of there being none."""
    if config.tuning == NO_TUNING:
        return None, None
    try:
        path = _path(config)
        found = find(path, key_of(engine, options, spec.identity))
    except ConfigurationError as error:
        if config.tuning:
            raise
        return None, f"no tuning is used: {error}"  # which nobody has asked for: no night is lost
    if isinstance(found, Stale):
        again = shlex.join(["pagemill", "tune", *_flags(config, engine)])
        said = f"{path} is stale ({found.text}): sizes come from the engine and its memory model"
        return None, f"{said}; measure anew: {again}"
    if found is None and (config.profile != "balanced" or config.max_latency):
        return None, "--profile and --max-latency choose among sizes that were measured, and none were: pagemill tune"
    return found, None


def _path(config: JobConfig) -> Path:
    if not config.tuning:
        return default_path()
    path = named_path(config.tuning)
    if not path.exists():
        raise ConfigurationError(f"--tuning {config.tuning}: no such file; 'pagemill tune' writes one")
    return path


def _flags(config: JobConfig, engine: type[Engine]) -> Iterator[str]:
    """What to tell `pagemill tune` so that it measures what this job runs, and keeps it where this job looks."""
    yield from ("--engine", engine.name)
    for name in (*ENGINE_FLAGS, "tuning"):
        if value := getattr(config, name):
            yield from (f"--{name}", value)
    for pair in config.engine_options:
        yield from ("--engine-option", pair)


def _start_of(needs: Needs, size: int, reason: SizeReason) -> Start:
    return replace(fixed(size, reason), lowers=needs.batches_at_once == 1)


def _tuned(config: JobConfig, engine: type[Engine], options: Any, spec: Spec, tuning: Tuning) -> Sizing:
    """What a tuning says: batch sizes, or slots for an engine that shares them among batches, and processes."""
    bound = config.max_latency or None
    profile: Any = config.profile
    sizes = {tuned.bucket: tuned.size_for(profile, bound) for tuned in tuning.buckets}
    actors, threads = _processes(config, tuning)
    wide = _wide(engine, options, sizes, bound)
    if wide or threads:
        options = replace(options, **wide, **threads)
        spec = engine.spec(options)
    start = _start_of(spec.needs, spec.needs.batch_size, SizeReason.TUNED if wide else SizeReason.ENGINE)
    if spec.needs.batches_at_once == 1:
        start = Start(
            lambda length: tuning.batch_size(length, profile, bound),
            SizeReason.TUNED,
            tuning.ceiling,
            grows=profile != "interactive" and bound is None,
        )
    return Sizing(start, options, spec, actors, _told(config, tuning, sizes, actors))


def _wide(engine: type[Engine], options: Any, sizes: dict[int, int], bound: float | None) -> dict[str, int]:
    """The pages that an engine decodes at a time, if that is an option of it and nobody has set it.

    Memory bounds them page by page; a bound of latency has to hold for the longest pages, too.
    """
    name, choose = engine.width_option, min if bound else max
    return {name: choose(sizes.values())} if name and not getattr(options, name) else {}


def _processes(config: JobConfig, tuning: Tuning) -> tuple[int, dict[str, int]]:
    """How many processes, and the threads of each as an option: as measured together, or neither if one is given."""
    given = {pair.partition("=")[0] for pair in config.engine_options}
    is_set = config.actors or config.ray_address or config.runner != "ray" or "threads" in given
    if is_set or not tuning.actors or not tuning.threads:
        return 0, {}
    return tuning.actors, {"threads": tuning.threads}


def _told(config: JobConfig, tuning: Tuning, sizes: dict[int, int], actors: int) -> str:
    said = ", ".join(f"{size} up to length {bucket}" for bucket, size in sizes.items())
    processes = f"; {team_in_words(actors, tuning.threads)}" if actors and tuning.threads else ""
    return f"batch sizes as measured on {tuning.measured_at[:10]} ({config.profile}): {said}{processes}"
