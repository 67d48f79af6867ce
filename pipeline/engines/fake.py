"""The fake engine: deterministic, shipped, and made to fail on request; tests configure it, they do not patch."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from pipeline.engines.engine import Engine, Identity, Needs, Spec, text_options
from pipeline.page import Raster, RasterRule
from pipeline.result import Answer, Line, Recognition


@dataclass(frozen=True, slots=True)
class FakeOptions:
    """How the fake behaves. Page numbers in the lists are zero-based page indices.

    `read` makes it look at the pixels (off for a benchmark of the pipeline around it), `delay_s` is slept per
    page, `fail_pages` raise, `die_pages` end the process, `drop_pages` are left out of the answer.
    """

    read: bool = True
    delay_s: float = field(default=0.0, metadata={"alters_text": False})
    fail_pages: tuple[int, ...] = ()
    die_pages: tuple[int, ...] = ()
    drop_pages: tuple[int, ...] = ()
    unusable: bool = field(default=False, metadata={"alters_text": False})
    batch_size: int = field(default=8, metadata={"alters_text": False})
    dpi: float = 72.0
    visual_tokens: bool = False


class FakeEngine(Engine):
    """Answers with what identifies the raster it was given, so that a mix-up of pages shows."""

    name: ClassVar[str] = "fake"
    summary: ClassVar[str] = "no model: names each page and its pixels; for tests and benchmarks"
    options_type: ClassVar[type[FakeOptions]] = FakeOptions

    @classmethod
    def missing(cls) -> str | None:
        """It lacks nothing, anywhere."""
        return None

    @classmethod
    def spec(cls, options: FakeOptions) -> Spec:
        """A CPU engine with the raster size and batch size of its options."""
        multiple = 32 if options.visual_tokens else 1
        rule = "hunyuan_visual_tokens" if options.visual_tokens else "pixel_area"
        raster = RasterRule(options.dpi, 2048 * 2048, multiple, rule)
        needs = Needs(num_cpus=1, batch_size=options.batch_size)
        return Spec(Identity(cls.name, "1", task="name"), needs, raster, text_options(options))

    def __init__(self, options: FakeOptions) -> None:
        self.options = options
        if options.unusable:
            raise RuntimeError("the fake engine was told not to load")

    def recognize(self, batch: Sequence[Raster]) -> Answer:
        """Name every page; fail as the options say."""
        indices = [raster.sized.page.page_index for raster in batch]
        if set(indices) & set(self.options.die_pages):
            os._exit(17)
        failing = set(indices) & set(self.options.fail_pages)
        if failing:
            raise RuntimeError(f"the fake engine was told to fail on page index {min(failing)}")
        if self.options.delay_s:
            time.sleep(self.options.delay_s * len(batch))
        kept = [r for r in batch if r.sized.page.page_index not in self.options.drop_pages]
        return Answer(tuple(self._name(raster) for raster in kept))

    def _name(self, raster: Raster) -> Recognition:
        sized = raster.sized
        height_px, width_px = raster.pixels.shape[:2]
        digest = "unread"
        if self.options.read:
            data = np.ascontiguousarray(raster.pixels).data
            digest = hashlib.blake2b(data, digest_size=8).hexdigest()
        text = f"page {sized.page.page_index + 1} of {sized.page.page_count}, {width_px} x {height_px}, {digest}"
        line = Line(text, (0.0, 0.0, float(width_px), float(height_px)), 1.0)
        return Recognition(text, lines=(line,), confidence=1.0, output_tokens=len(text.split()))
