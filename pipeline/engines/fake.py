"""The fake engine: deterministic, shipped, and made to fail on request; tests configure it, they do not patch."""

from __future__ import annotations

import errno
import hashlib
import math
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from pipeline.engines.engine import Engine, Identity, Needs, Spec, text_options
from pipeline.errors import DeviceOutOfMemoryError, EngineBrokenError, EngineLostError
from pipeline.page import Raster, RasterRule
from pipeline.result import Answer, Finish, Line, Recognition


@dataclass(frozen=True, slots=True)
class FakeOptions:
    """How the fake behaves. Page numbers in the lists are zero-based page indices.

    `read` makes it look at the pixels (off for a benchmark of the pipeline around it). It sleeps `batch_s` for each
    batch and `delay_s` for each page, which `threads` share. `fail_pages` raise, `die_pages` end the process,
    `drop_pages` are left out of the answer. As a model that writes token by token would, it has no room for the end of
    `truncated_pages`, repeats itself on `repeated_pages` and is content with `retried_pages` at the second try only;
    `notice` is what it says when it has loaded, and `room_pages` how large a batch its memory is said to allow.

    What is not a page's fault alters no text. Batches of more than `oom_above` pages (0 for no bound) and
    batches with `oom_pages` find no memory on the device, of which others hold some with `others_hold`; those of more
    than `kill_above` have the process killed, as by a system that is short of memory;
    `break_pages` break the engine, `break_once` names a file that is made by the first batch, which breaks it;
    `refuse_pages` find a connection refused, `full_pages` a full disk, and `down_pages` say the engine is down.
    """

    read: bool = True
    delay_s: float = field(default=0.0, metadata={"alters_text": False})
    fail_pages: tuple[int, ...] = ()
    die_pages: tuple[int, ...] = ()
    drop_pages: tuple[int, ...] = ()
    truncated_pages: tuple[int, ...] = ()
    repeated_pages: tuple[int, ...] = ()
    retried_pages: tuple[int, ...] = ()
    batch_s: float = field(default=0.0, metadata={"alters_text": False})
    threads: int = field(default=1, metadata={"alters_text": False})
    notice: str = field(default="", metadata={"alters_text": False})
    oom_above: int = field(default=0, metadata={"alters_text": False})
    kill_above: int = field(default=0, metadata={"alters_text": False})
    oom_pages: tuple[int, ...] = field(default=(), metadata={"alters_text": False})
    others_hold: bool = field(default=False, metadata={"alters_text": False})
    break_pages: tuple[int, ...] = field(default=(), metadata={"alters_text": False})
    break_once: str = field(default="", metadata={"alters_text": False})
    refuse_pages: tuple[int, ...] = field(default=(), metadata={"alters_text": False})
    full_pages: tuple[int, ...] = field(default=(), metadata={"alters_text": False})
    down_pages: tuple[int, ...] = field(default=(), metadata={"alters_text": False})
    unusable: bool = field(default=False, metadata={"alters_text": False})
    batch_size: int = field(default=8, metadata={"alters_text": False})
    room_pages: int = field(default=0, metadata={"alters_text": False})
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
        needs = Needs(num_cpus=options.threads, batch_size=options.batch_size)
        return Spec(Identity(cls.name, "1", task="name"), needs, raster, text_options(options))

    def __init__(self, options: FakeOptions) -> None:
        self.options, self.notice = options, options.notice or None
        self.room = ((1 << 30, options.room_pages),) if options.room_pages else ()
        if options.unusable:
            raise RuntimeError("the fake engine was told not to load")

    def recognize(self, batch: Sequence[Raster]) -> Answer:
        """Name every page; fail as the options say."""
        fail_as_told(self.options, {raster.sized.page.page_index for raster in batch}, len(batch))
        if seconds := self.options.batch_s + self.options.delay_s * len(batch) / self.options.threads:
            time.sleep(seconds)
        kept = [r for r in batch if r.sized.page.page_index not in self.options.drop_pages]
        return Answer(tuple(name_page(self.options, raster) for raster in kept))


def fail_as_told(told: FakeOptions, indices: set[int], num_pages: int) -> None:
    """Do what the options say of a batch with these page indices, if they say anything."""
    if indices & set(told.die_pages):
        os._exit(17)
    if 0 < told.kill_above < num_pages:
        os.kill(os.getpid(), signal.SIGKILL)
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


def name_page(told: FakeOptions, raster: Raster) -> Recognition:
    """The text of a page: what tells it and its pixels from any other."""
    sized, index = raster.sized, raster.sized.page.page_index
    height_px, width_px = raster.pixels.shape[:2]
    digest = "unread"
    if told.read:
        data = np.ascontiguousarray(raster.pixels).data
        digest = hashlib.blake2b(data, digest_size=8).hexdigest()
    text = f"page {index + 1} of {sized.page.page_count}, {width_px} x {height_px}, {digest}"
    box = (0.0, 0.0, float(width_px), float(height_px))
    read = Recognition(text, lines=(Line(text, box, 1.0),), confidence=1.0, output_tokens=len(text.split()))
    finish = _finish(told, index)
    if finish is not None:
        line = replace(read.lines[0], score=0.5, min_logprob=-2.0)
        read = replace(read, lines=(line,), finish_reason=finish)
        read = replace(read, confidence=0.5, mean_logprob=math.log(0.5), min_logprob=-2.0)
    if index in told.retried_pages:
        read = replace(read, tries=2, note="read again, as the fake engine was told")
    return read


def _finish(told: FakeOptions, index: int) -> Finish | None:
    """Why a model would have stopped there; None if the options are those of an engine without such a model."""
    if index in told.truncated_pages:
        return Finish.LENGTH
    if index in told.repeated_pages:
        return Finish.REPETITION
    return Finish.STOP if told.truncated_pages or told.repeated_pages else None


def _is_new(marker: Path) -> bool:
    """Whether nobody has made the file yet; it is there afterwards."""
    try:
        marker.open("x").close()
    except FileExistsError:
        return False
    return True
