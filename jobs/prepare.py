"""From a configuration to an engine with its size of raster and its batch limits."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from jobs.sizing import Sizing, sizing
from pipeline.batch import BatchLimits
from pipeline.config import ENGINE_FLAGS, JobConfig
from pipeline.engines import BEST_FIRST, choose, load
from pipeline.engines.checkpoint import Checkpoint
from pipeline.engines.engine import Engine, Spec
from pipeline.errors import ConfigurationError, EngineUnavailableError
from pipeline.location import Fetching
from pipeline.page import RasterLimits


@dataclass(frozen=True, slots=True)
class Prepared:
    """An engine, its options, its declaration with what the job overrides, sizes, and what a page may cost to make."""

    engine: type[Engine]
    options: Any
    spec: Spec
    reason: str
    limits: RasterLimits
    sizing: Sizing

    def batch_limits(self, config: JobConfig) -> BatchLimits:
        """How large a batch and the look-ahead may become."""
        return BatchLimits(
            self.sizing.start,
            config.window,
            max_tokens=config.max_batch_tokens or None,
            max_wait_s=config.max_page_wait,
            num_buckets=config.buckets,
        )


def prepare(config: JobConfig, *, must_run: bool = True) -> Prepared:
    """Choose the engine and apply the job's raster options to its declaration.

    Args:
        config: What the job was told.
        must_run: Whether the engine has to be usable here; a plan only needs its declaration.

    Raises:
        EngineUnavailableError: there is no such engine, or it cannot run here.
        ConfigurationError: the engine has no such option, or a file that the job names cannot be read.
    """
    try:
        choice = choose(config.engine)
        engine, reason = choice.engine, choice.reason
    except EngineUnavailableError:
        if must_run:
            raise
        engine, reason = load(BEST_FIRST[0] if config.engine == "auto" else config.engine), "not usable here"
    options = engine.read_options(engine_pairs(config, engine))
    if must_run and engine.needs_model and not options.model:
        Checkpoint.resolve("")
    sizes = sizing(config, engine, options)
    spec = sizes.spec
    rule = replace(
        spec.raster,
        dpi=config.dpi or spec.raster.dpi,
        max_pixels=config.max_page_pixels or spec.raster.max_pixels,
        text_layer=config.text_layer,
        orientation=config.orientation,
        skip_blank=not config.read_blank,
    )
    needs = replace(spec.needs, num_gpus=config.gpus_per_actor or spec.needs.num_gpus)
    spec = replace(spec, raster=rule, needs=needs)
    return Prepared(engine, sizes.options, spec, reason, raster_limits(config), sizes)


def engine_pairs(config: JobConfig, engine: type[Engine]) -> tuple[str, ...]:
    """The options of the engine as KEY=VALUE, those that the job has flags of its own for among them.

    Raises:
        ConfigurationError: the engine has no option of a flag that is set, or its option says something else.
    """
    known = {item.name for item in fields(engine.options_type)}
    pairs = {pair.partition("=")[0]: pair for pair in config.engine_options}
    flags = [(name, getattr(config, name)) for name in ENGINE_FLAGS if getattr(config, name)]
    for name, value in flags:
        if name not in known:
            raise ConfigurationError(f"engine {engine.name} takes no --{name}")
        if pairs.get(name, f"{name}={value}") != f"{name}={value}":
            raise ConfigurationError(f"--{name} {value} and --engine-option {pairs[name]} differ: give one of them")
    return (*config.engine_options, *(f"{name}={value}" for name, value in flags))


def raster_limits(config: JobConfig) -> RasterLimits:
    """What a page may cost while it is made, under either runner.

    Raises:
        ConfigurationError: the file with the passwords cannot be read.
    """
    return RasterLimits(
        page_timeout_s=config.page_timeout,
        memory_bytes=config.rasterizer_memory_mb << 20,
        max_document_bytes=config.max_document_bytes,
        passwords=passwords_in(config.password_file) if config.password_file else (),
        fake_decoder=config.fake_decoder,
        max_image_pixels=config.max_image_pixels,
        fetching=Fetching(secrets.token_hex(8), config.object_cache_mb << 20, config.store_patience),
    )


def passwords_in(path: str) -> tuple[str, ...]:
    """The passwords in a file: one a line, in UTF-8, blanks at the ends of a line being part of it.

    Raises:
        ConfigurationError: it cannot be read.
    """
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(f"--password-file {path}: {reason}") from error
    return tuple(dict.fromkeys(filter(None, text.splitlines())))
