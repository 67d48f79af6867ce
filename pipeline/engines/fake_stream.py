"""The fake engine that streams: tells of its pages one by one, in another order, and fails on request in between."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from pipeline.engines.engine import Identity, Needs, Spec, StreamingEngine, text_options
from pipeline.engines.fake import FakeEngine, FakeOptions, fail_as_told, name_page
from pipeline.errors import DeviceOutOfMemoryError
from pipeline.page import Raster
from pipeline.result import Effort, GpuUse, PageRead, Timings


@dataclass(frozen=True, slots=True)
class FakeStreamOptions(FakeOptions):
    """How the fake behaves; what a page does, it does when its turn comes, pages before it having been told.

    Pages come in an order of their own, or as they are given with `in_order`. `fail_pages` have an error of their own,
    `raise_pages` end the stream with one; `twice_pages` are told twice, `stray_pages` under a position that is none.
    """

    in_order: bool = field(default=False, metadata={"alters_text": False})
    batches_at_once: int = field(default=1, metadata={"alters_text": False})
    raise_pages: tuple[int, ...] = ()
    twice_pages: tuple[int, ...] = ()
    stray_pages: tuple[int, ...] = ()


class FakeStreamingEngine(StreamingEngine):
    """Tells of each page what `pipeline.engines.fake.FakeEngine` does."""

    name: ClassVar[str] = "fake_stream"
    summary: ClassVar[str] = "the same, telling of its pages one by one"
    options_type: ClassVar[type[FakeStreamOptions]] = FakeStreamOptions

    @classmethod
    def missing(cls) -> str | None:
        """It lacks nothing, anywhere."""
        return None

    @classmethod
    def spec(cls, options: FakeStreamOptions) -> Spec:
        """That of the other fake, with as many batches at once as the options say."""
        raster = FakeEngine.spec(options).raster
        needs = Needs(num_cpus=1, batch_size=options.batch_size, batches_at_once=options.batches_at_once)
        return Spec(Identity(cls.name, "1", task="name"), needs, raster, text_options(options))

    def __init__(self, options: FakeStreamOptions) -> None:
        self.options, self.notice = options, options.notice or None
        if options.unusable:
            raise RuntimeError("the fake engine was told not to load")

    def stream(self, batch: Sequence[Raster]) -> Iterator[PageRead | Effort]:
        """Name the pages one by one; fail as the options say."""
        told = self.options
        if 0 < told.oom_above < len(batch):
            raise DeviceOutOfMemoryError("the fake engine was told to find no memory", 0)
        positions = list(range(len(batch)))
        if not told.in_order:
            positions.sort(key=lambda n: hashlib.blake2b(repr(batch[n].sized.page).encode()).digest())
        for position in positions:
            if told.delay_s:
                time.sleep(told.delay_s)
            yield from self._read(position, batch[position])
        gpu = GpuUse(len(batch) << 20, len(batch) << 21, 0.5)
        yield Effort(Timings(decode_s=told.delay_s * len(batch)), idle_ratio=0.0, gpu=gpu, oom_splits=0)

    def _read(self, position: int, raster: Raster) -> Iterator[PageRead]:
        told, index = self.options, raster.sized.page.page_index
        if index in told.raise_pages:
            raise RuntimeError(f"the fake engine was told to raise at page index {index}")
        if index in told.fail_pages:
            yield PageRead(position, RuntimeError(f"the fake engine was told to fail on page index {index}"))
            return
        fail_as_told(told, {index}, 1)
        if index in told.drop_pages:
            return
        if index in told.stray_pages:
            yield PageRead(-1 - position, name_page(told, raster))
            return
        yield PageRead(position, name_page(told, raster))
        if index in told.twice_pages:
            yield PageRead(position, name_page(told, raster))
