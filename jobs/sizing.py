"""Where the sizes of a run's batches come from: what was asked for, a tuning, or what the engine says of itself."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from pipeline.budget import SizeReason, Start, fixed
from pipeline.config import JobConfig
from pipeline.engines.engine import Engine, Needs, Spec
from pipeline.errors import ConfigurationError
from pipeline.tuning.file import Stale, default_path, find, key_of
from pipeline.tuning.tuning import Tuning

NO_TUNING = "none"
"""What the option `tuning` says where none is to be used."""


@dataclass(frozen=True, slots=True)
class Sizing:
    """The sizes to begin with, the engine's options with what a tuning has chosen of them, and processes (0: not said).

    `said` is a line for the person who has started the run.
    """

    start: Start
    options: Any
    actors: int = 0
    said: str | None = None


def sizing(config: JobConfig, engine: type[Engine], options: Any, spec: Spec) -> Sizing:
    """Look for a tuning of this engine as it is configured, unless a batch size was asked for.

    Raises:
        ConfigurationError: a file that was named is not there, or no tuning file.
    """
    if config.asked_batch_size:
        return Sizing(_start_of(spec.needs, config.asked_batch_size, SizeReason.ASKED), options)
    untuned = Sizing(_start_of(spec.needs, spec.needs.batch_size, SizeReason.ENGINE), options)
    if config.tuning == NO_TUNING:
        return untuned
    try:
        found = find(_path(config), key_of(engine, options, spec.identity))
    except ConfigurationError as error:
        if config.tuning:
            raise
        return replace(untuned, said=f"no tuning is used: {error}")  # which nobody has asked for: no night is lost
    if isinstance(found, Tuning):
        return _tuned(config, engine, options, found)
    if isinstance(found, Stale):
        again = shlex.join(["pagemill", "tune", "--engine", engine.name, *_model(config)])
        said = f"{_path(config)} is stale ({found.text}): sizes come from the engine and its memory model"
        return replace(untuned, said=f"{said}; measure anew: {again}")
    return untuned


def _path(config: JobConfig) -> Path:
    if not config.tuning:
        return default_path()
    path = Path(config.tuning).expanduser()
    if not path.exists():
        raise ConfigurationError(f"--tuning {config.tuning}: no such file; 'pagemill tune' writes one")
    return path


def _model(config: JobConfig) -> tuple[str, ...]:
    return ("--model", config.model) if config.model else ()


def _start_of(needs: Needs, size: int, reason: SizeReason) -> Start:
    return replace(fixed(size, reason), lowers=needs.batches_at_once == 1)


def _tuned(config: JobConfig, engine: type[Engine], options: Any, tuning: Tuning) -> Sizing:
    """What a tuning says: batch sizes, or slots for an engine that shares them among batches, and processes."""
    bound = config.max_latency or None
    profile: Any = config.profile
    sizes = {tuned.bucket: tuned.size_for(profile, bound) for tuned in tuning.buckets}
    chosen = _chosen(options, _wide(engine, options, sizes) | _threads(config, tuning, options))
    needs = engine.spec(chosen).needs
    start = _start_of(needs, needs.batch_size, SizeReason.TUNED)
    if needs.batches_at_once == 1:
        start = Start(
            lambda length: tuning.batch_size(length, profile, bound),
            SizeReason.TUNED,
            tuning.ceiling,
            grows=profile != "interactive" and bound is None,
        )
    actors = 0 if config.actors or config.ray_address else tuning.actors or 0
    return Sizing(start, chosen, actors, _told(config, tuning, sizes, actors))


def _wide(engine: type[Engine], options: Any, sizes: dict[int, int]) -> dict[str, int]:
    """The pages that an engine decodes at a time, if that is an option of it and nobody has set it."""
    name = engine.width_option
    return {name: max(sizes.values())} if name and not getattr(options, name) else {}


def _threads(config: JobConfig, tuning: Tuning, options: Any) -> dict[str, int]:
    """The threads of a process, if neither they nor the number of processes were set."""
    default = next((item.default for item in fields(options) if item.name == "threads"), None)
    is_set = config.actors or config.ray_address or default is None or options.threads != default
    return {} if is_set or not tuning.threads else {"threads": tuning.threads}


def _chosen(options: Any, changes: dict[str, int]) -> Any:
    return replace(options, **changes) if changes else options


def _told(config: JobConfig, tuning: Tuning, sizes: dict[int, int], actors: int) -> str:
    said = ", ".join(f"{size} up to length {bucket}" for bucket, size in sizes.items())
    processes = f"; {actors} processes of {tuning.threads} threads" if actors and tuning.threads else ""
    return f"batch sizes as measured on {tuning.measured_at[:10]} ({config.profile}): {said}{processes}"
