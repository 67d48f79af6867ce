"""The fake engine: deterministic, shipped, and made to fail on request; tests configure it, they do not patch."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from pipeline.engines.engine import Engine, Identity, Needs, Spec, text_options
from pipeline.errors import DeviceOutOfMemoryError, EngineBrokenError, EngineLostError
from pipeline.page import Raster, RasterRule
from pipeline.result import Answer, Line, Recognition


@dataclass(frozen=True, slots=True)
class FakeOptions:
    """How the fake behaves. Page numbers in the lists are zero-based page indices.

    `read` makes it look at the pixels (off for a benchmark of the pipeline around it), `delay_s` is slept per
    page, `fail_pages` raise, `die_pages` end the process, `drop_pages` are left out of the answer.

    What is not a page's fault alters no text. Batches of more than `oom_above` pages (0 for no bound) and
    batches with `oom_pages` find no memory on the device, of which others hold some with `others_hold`;
    `break_pages` break the engine, `break_once` names a file that is made by the first batch, which breaks it;
    `refuse_pages` find a connection refused, `full_pages` a full disk, and `down_pages` say the engine is down.
    """

    read: bool = True
    delay_s: float = field(default=0.0, metadata={"alters_text": False})
    fail_pages: tuple[int, ...] = ()
    die_pages: tuple[int, ...] = ()
    drop_pages: tuple[int, ...] = ()
    oom_above: int = field(default=0, metadata={"alters_text": False})
    oom_pages: tuple[int, ...] = field(default=(), metadata={"alters_text": False})
    others_hold: bool = field(default=False, metadata={"alters_text": False})
    break_pages: tuple[int, ...] = field(default=(), metadata={"alters_text": False})
    break_once: str = field(default="", metadata={"alters_text": False})
    refuse_pages: tuple[int, ...] = field(default=(), metadata={"alters_text": False})
    full_pages: tuple[int, ...] = field(default=(), metadata={"alters_text": False})
    down_pages: tuple[int, ...] = field(default=(), metadata={"alters_text": False})
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
        self._fail_as_told({raster.sized.page.page_index for raster in batch}, len(batch))
        if self.options.delay_s:
            time.sleep(self.options.delay_s * len(batch))
        kept = [r for r in batch if r.sized.page.page_index not in self.options.drop_pages]
        return Answer(tuple(self._name(raster) for raster in kept))

    def _fail_as_told(self, indices: set[int], num_pages: int) -> None:
        told = self.options
        if indices & set(told.die_pages):
            os._exit(17)
        if indices & set(told.break_pages) or (told.break_once and _is_new(Path(told.break_once))):
            raise EngineBrokenError("the fake engine was told to break")
        if indices & set(told.down_pages):
            raise EngineLostError("the fake engine was told to be down")
        if indices & set(told.refuse_pages):
            raise ConnectionRefusedError(errno.ECONNREFUSED, "the fake engine was told to refuse")
        if indices & set(told.full_pages):
            raise OSError(errno.ENOSPC, "the fake engine was told to find a full disk")
        if indices & set(told.oom_pages) or 0 < told.oom_above < num_pages:
            held = (8 << 30) if told.others_hold else 0
            raise DeviceOutOfMemoryError("the fake engine was told to find no memory", held)
        if failing := indices & set(told.fail_pages):
            raise RuntimeError(f"the fake engine was told to fail on page index {min(failing)}")

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


def _is_new(marker: Path) -> bool:
    """Whether nobody has made the file yet; it is there afterwards."""
    try:
        marker.open("x").close()
    except FileExistsError:
        return False
    return True
