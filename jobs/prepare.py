"""From a configuration to an engine with its size of raster and its batch limits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pipeline.batch import BatchLimits
from pipeline.config import JobConfig
from pipeline.engines import BEST_FIRST, choose, load
from pipeline.engines.engine import Engine, Spec
from pipeline.errors import EngineUnavailableError
from pipeline.page import RasterLimits


@dataclass(frozen=True, slots=True)
class Prepared:
    """An engine, its options, and its declaration with what the job overrides."""

    engine: type[Engine]
    options: Any
    spec: Spec
    reason: str

    def batch_limits(self, config: JobConfig) -> BatchLimits:
        """The job's batch size, or else the engine's own."""
        return BatchLimits(config.batch_size or self.spec.needs.batch_size, config.window)


def prepare(config: JobConfig, *, must_run: bool = True) -> Prepared:
    """Choose the engine and apply the job's raster options to its declaration.

    Args:
        config: What the job was told.
        must_run: Whether the engine has to be usable here; a plan only needs its declaration.

    Raises:
        EngineUnavailableError: there is no such engine, or it cannot run here.
        ConfigurationError: the engine has no such option.
    """
    try:
        choice = choose(config.engine)
        engine, reason = choice.engine, choice.reason
    except EngineUnavailableError:
        if must_run:
            raise
        engine, reason = load(BEST_FIRST[0] if config.engine == "auto" else config.engine), "not usable here"
    options = engine.read_options(config.engine_options)
    spec = engine.spec(options)
    rule = replace(
        spec.raster,
        dpi=config.dpi or spec.raster.dpi,
        max_pixels=config.max_page_pixels or spec.raster.max_pixels,
    )
    return Prepared(engine, options, replace(spec, raster=rule), reason)


def raster_limits(config: JobConfig) -> RasterLimits:
    """What a page may cost while it is made, under either runner."""
    return RasterLimits(
        page_timeout_s=config.page_timeout,
        memory_bytes=config.rasterizer_memory_mb << 20,
        fake_decoder=config.fake_decoder,
        max_image_pixels=config.max_image_pixels,
    )
