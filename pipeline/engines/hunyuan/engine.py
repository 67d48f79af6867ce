"""The HunyuanOCR engine: FP16 on a GPU, float32 on the CPU by the same code; pages of many batches share its slots."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import metadata
from typing import TYPE_CHECKING, Any, ClassVar

from pipeline.bucket import edge
from pipeline.engines.answer import recognition_of
from pipeline.engines.certainty import Certainty
from pipeline.engines.checkpoint import Checkpoint, host_memory_bytes
from pipeline.engines.device import (
    TORCH_NAMES,
    USUAL,
    Place,
    device_errors,
    give_memory_back,
    gpu_use,
    missing_libraries,
    premises,
    wants_gpu,
)
from pipeline.engines.engine import Identity, Needs, Premises, Spec, StreamingEngine, text_options
from pipeline.engines.generated import Decoding
from pipeline.engines.hunyuan.options import HunyuanOptions
from pipeline.engines.hunyuan.prompts import Task, task_named
from pipeline.engines.hunyuan.spotting import read_spotting
from pipeline.engines.ladder import Kept, Step, steps_for
from pipeline.errors import ConfigurationError
from pipeline.page import Raster, RasterRule
from pipeline.result import Effort, PageRead, Recognition

if TYPE_CHECKING:
    from pipeline.engines.hunyuan.desk import Reader
    from pipeline.engines.hunyuan.loading import Loader
    from pipeline.engines.hunyuan.model import PageModel

ARCHITECTURE = "HunYuanVLForConditionalGeneration"
MAX_ASPECT = 200.0
"""`smart_resize` of transformers refuses an image whose sides differ by more."""

SLOTS = {"cuda": 64, "cpu": 8}
"""Pages decoded at a time if nobody says; on a GPU as many as fit, if fewer fit."""

MAX_BATCH_SIZE = 32
"""A batch is the unit in which pages come to the slots, so that it need not be as large as all of them."""

VISION_PAGES = 8
STEPS_OF_LENGTH = 22
"""Lengths for which the largest batch is worked out: geometric edges up to 6,939 tokens, beyond 2048 by 2048 pixels."""

STEPS_PER_LOOK = {"cuda": 8, "cpu": 1}
"""On a GPU the host looks at what was written every so many steps; a row that has ended waits for that."""


class HunyuanEngine(StreamingEngine):
    """HunyuanOCR 1.0 and 1.5, as transformers have them (`HunYuanVLForConditionalGeneration`)."""

    name: ClassVar[str] = "hunyuan"
    summary: ClassVar[str] = "HunyuanOCR on a GPU: whole pages as markdown, spotting, tables, formulas, translation"
    options_type: ClassVar[type[HunyuanOptions]] = HunyuanOptions
    width_option: ClassVar[str] = "slots"
    needs_model: ClassVar[bool] = True

    @classmethod
    def missing(cls) -> str | None:
        """The packages."""
        return missing_libraries()

    @classmethod
    def spec(cls, options: HunyuanOptions) -> Spec:
        """Finds the checkpoint, fetched if a hub has it, and reads its configuration; with no model, that of 1.0."""
        task, checkpoint = _task(options), _checkpoint(options) if options.model else None
        least, most = checkpoint.image_size_limits() if checkpoint else (512 * 512, 2048 * 2048)
        cell_px = checkpoint.patch_size_px() * checkpoint.merge_size() if checkpoint else 32
        raster = RasterRule(
            options.dpi, most, cell_px, "hunyuan_visual_tokens", min_pixels=least, max_aspect=MAX_ASPECT
        )
        device = "cuda" if wants_gpu(options.device) else "cpu"
        slots = options.slots or SLOTS[device]
        batch_size = min(slots, MAX_BATCH_SIZE)
        needs = Needs(
            num_cpus=options.threads,
            num_gpus=1.0 if device == "cuda" else 0.0,
            memory_bytes=host_memory_bytes(checkpoint),
            batch_size=batch_size,
            batches_at_once=math.ceil(2 * slots / batch_size) if options.decode == "continuous" else 1,
        )
        named = (checkpoint.name, checkpoint.revision) if checkpoint else (None, None)
        identity = Identity(cls.name, _version(), named[0], named[1], task.name)
        precision = USUAL[device] if options.precision == "auto" else options.precision
        told = text_options(replace(options, precision=precision))
        return Spec(identity, needs, raster, told)

    @classmethod
    def tuning_key(cls, options: HunyuanOptions) -> Premises:
        """Device, precision with the bits of the weights, and what decides how long answers are."""
        manner = f"decode={options.decode} task={'prompt' if options.prompt else options.task}"
        found = premises(options.device, options.precision, f"{manner} max_new_tokens={options.max_new_tokens}")
        return replace(found, precision=f"{found.precision} {options.quantize}".strip())

    def __init__(self, options: HunyuanOptions) -> None:
        import torch

        from pipeline.engines.hunyuan.desk import Desk, Work
        from pipeline.engines.hunyuan.loading import Loader, lack

        if problem := lack(options.quantize):
            raise ConfigurationError(problem)
        torch.set_num_threads(options.threads)
        self.options, self._task = options, _task(options)
        checkpoint = _checkpoint(options)
        place = Place.find(options.device, options.precision)
        self._device = torch.device(place.device)
        self._loader: Loader = Loader(checkpoint, self._task.prompt, self._device, options.quantize)
        self._model, self.precision, self.notice = self._loader.trusted(place.precision)
        self.room = self._room()
        work = Work(self._ladders(), self._wide_reader, self._recognition, _translated)
        self._desk = Desk(self._reader(self._model, options.slots or SLOTS[self._device.type]), work)

    def stream(self, batch: Sequence[Raster]) -> Iterator[PageRead | Effort]:
        """Read pages as slots become free, among those of other batches."""
        for told in self._desk.read(batch):
            yield replace(told, gpu=gpu_use(self._device.type)) if isinstance(told, Effort) else told

    def widen(self, pages: int) -> None:
        """Decode so many pages at a time, whatever the model of memory thinks of it."""
        self._desk.widen(pages)
        give_memory_back()

    def _reader(self, model: PageModel, num_slots: int) -> Reader:
        if self.options.decode == "static":
            from pipeline.engines.hunyuan.static import StaticReader

            return StaticReader(model, num_slots)
        from pipeline.engines.hunyuan.continuous import ContinuousReader, Pace

        kind = self._device.type
        graphs = kind == "cuda" and self.options.graphs and not self.options.quantize
        pace = Pace(num_slots, VISION_PAGES, STEPS_PER_LOOK[kind], graphs, self._fits(model))
        return ContinuousReader(model, pace)

    def _wide_reader(self) -> Reader:
        """The model once more, in a wider precision, for the few pages that need it."""
        return self._reader(self._loader.load(self._loader.wider(self.precision)[0]), 1)

    def _room(self) -> tuple[tuple[int, int], ...]:
        """The largest safe batch by length, for decoding in fixed batches; slots see to their memory themselves."""
        fits = self._fits(self._model)
        if fits is None or self.options.decode != "static":
            return ()
        slots = self.options.slots or SLOTS[self._device.type]
        return tuple((edge(step), min(slots, fits(edge(step)))) for step in range(STEPS_OF_LENGTH))

    def _fits(self, model: PageModel) -> Any:
        from pipeline.engines.hunyuan.loading import card, model_size
        from pipeline.engines.hunyuan.memory import largest_batch

        device = card(self._device)
        if device is None:
            return None
        size = model_size(model.model, model.decoder.cache_shape.token_bytes)
        answer = min(self.options.max_new_tokens, 2048)
        return lambda tokens: largest_batch(
            size, device, prompt_tokens=tokens, answer_tokens=answer, vision_pages=VISION_PAGES
        )

    def _ladders(self) -> list[tuple[Step, ...]]:
        """How to read a page, and how again: in the precision of the model, and in a wider one if there is one."""
        own = getattr(self._model.model.generation_config, "repetition_penalty", None) or 1.0
        first = Decoding(self.options.max_new_tokens, self.options.repetition_penalty or own)
        wider = [TORCH_NAMES[name] for name in self._loader.wider(self.precision)[:1]]
        return [steps_for(first, name) for name in (None, *wider)]

    def _recognition(self, raster: Raster, kept: Kept) -> Recognition:
        text = self._model.decode(kept.answer.tokens)
        if not self._task.has_boxes:
            return recognition_of(kept, text, self._task.format)
        height_px, width_px = raster.pixels.shape[:2]
        spotted = read_spotting(text, width_px, height_px, Certainty.of(kept.answer, self._model.decode))
        return recognition_of(kept, spotted.text, self._task.format, lines=spotted.lines, note=spotted.note)


def _task(options: HunyuanOptions) -> Task:
    if options.prompt:
        return Task("prompt", options.prompt, "text")
    return task_named(options.task, options.language)


def _checkpoint(options: HunyuanOptions) -> Checkpoint:
    checkpoint = Checkpoint.resolve(options.model, options.revision or None)
    if checkpoint.architecture != ARCHITECTURE:
        raise ConfigurationError(
            f"{checkpoint.name} is a {checkpoint.architecture}, the engine hunyuan reads with {ARCHITECTURE}:"
            " try --engine vlm"
        )
    return checkpoint


def _translated(error: Exception) -> Exception:
    """An error of the device's as one of ours."""
    try:
        with device_errors():
            raise error
    except Exception as translated:
        return translated


def _version() -> str:
    """That of the code around the model; another version of transformers reads no page again."""
    try:
        return f"1 (transformers {metadata.version('transformers').split('.')[0]})"
    except metadata.PackageNotFoundError:
        return "not installed"
