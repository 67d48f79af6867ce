"""The engine for vision-language models of transformers that have none of their own: GLM-OCR, LightOnOCR, Qwen-VL.

A model is asked with the prompt that its card recommends for reading a page, or the one it is given. Every page is
watched on its own: see `pipeline.engines.static` for how, and `pipeline.engines.ladder` for what becomes of pages on
which the model gets stuck.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import TYPE_CHECKING, ClassVar

from pipeline.engines.answer import recognition_of
from pipeline.engines.checkpoint import Checkpoint, host_memory_bytes
from pipeline.engines.device import (
    DEVICES,
    PRECISIONS,
    Place,
    device_errors,
    give_memory_back,
    gpu_use,
    missing_libraries,
    premises,
    wants_gpu,
)
from pipeline.engines.engine import Engine, Identity, Needs, Premises, Spec, text_options
from pipeline.engines.generated import Decoding, Generated
from pipeline.engines.ladder import Read, Step, climb, steps_for
from pipeline.errors import ConfigurationError, EngineUnavailableError
from pipeline.option import nearest
from pipeline.page import Raster, RasterRule
from pipeline.result import Answer, Effort, Timings

if TYPE_CHECKING:
    from pipeline.engines.loaded import Loaded

DPI, MAX_PIXELS, MIN_PIXELS, MAX_ASPECT = 150.0, 2_371_600, 65_536, 100.0
"""A4 has 2.2 million pixels at 150 dpi. The most is LightOnOCR's 1,540 pixels a side; its processor, and those of most
others, shrink larger pages. The least, and the aspect, keep strips and specks out of what processors refuse."""


@dataclass(frozen=True, slots=True)
class Habit:
    """What a model's card says: the prompt for reading a page, the format of the answer, whether it takes a prompt."""

    prompt: str
    format: str = "markdown"
    takes_prompt: bool = True


HABITS: dict[str, Habit] = {
    "GlmOcrForConditionalGeneration": Habit("Text Recognition:"),
    "PaddleOCRVLForConditionalGeneration": Habit("OCR:", "text"),
    "LightOnOcrForConditionalGeneration": Habit(""),
    "GotOcr2ForConditionalGeneration": Habit("", "text", takes_prompt=False),
}
"""By architecture. LightOnOCR is shown the page and nothing else, GOT-OCR 2 words its prompt in its processor."""

OTHERS = Habit("Read all text of this page, in reading order, as Markdown. Answer with that text only.")


BETTER_READ_BY = {"HunYuanVLForConditionalGeneration": "hunyuan"}
"""Models that this engine would read wrongly: `generate` misplaces HunyuanOCR's images in all rows but the first."""


@dataclass(frozen=True, slots=True)
class VlmOptions:
    """Options of the engine.

    `model` is a folder or the id of a model on a hub, `revision` a branch, tag or commit there. `prompt` replaces what
    the model's card recommends. `precision` is fp16, bf16 or fp32 (auto: fp16 on a GPU, fp32 on the CPU), `device` cpu
    or cuda (auto: a GPU if there is one). `dpi` and `max_pixels` are for the raster. `threads` belong to one actor.
    """

    model: str = field(default="", metadata={"alters_text": False})
    revision: str = field(default="", metadata={"alters_text": False})
    prompt: str = ""
    max_new_tokens: int = 8192
    precision: str = "auto"
    device: str = field(default="auto", metadata={"alters_text": False})
    dpi: float = DPI
    max_pixels: int = MAX_PIXELS
    batch_size: int = field(default=8, metadata={"alters_text": False})
    threads: int = field(default=1, metadata={"alters_text": False})

    def __post_init__(self) -> None:
        for name, known in (("precision", PRECISIONS), ("device", DEVICES)):
            value = getattr(self, name)
            if value not in known:
                raise ConfigurationError(f"engine option '{name}' cannot be '{value}'{nearest(value, known)}")
        for name, least in (
            ("max_new_tokens", 1),
            ("dpi", 1),
            ("max_pixels", MIN_PIXELS),
            ("batch_size", 1),
            ("threads", 1),
        ):
            if getattr(self, name) < least:
                raise ConfigurationError(f"engine option '{name}' must be at least {least}, not {getattr(self, name)}")


class VlmEngine(Engine):
    """Shows each page to the model and keeps what it writes."""

    name: ClassVar[str] = "vlm"
    summary: ClassVar[str] = (
        "any vision-language OCR model of transformers: GLM-OCR, PaddleOCR-VL, LightOnOCR, GOT, Qwen"
    )
    options_type: ClassVar[type[VlmOptions]] = VlmOptions
    needs_model: ClassVar[bool] = True

    @classmethod
    def missing(cls) -> str | None:
        """The libraries; which model to load is an option."""
        return missing_libraries()

    @classmethod
    def spec(cls, options: VlmOptions) -> Spec:
        """One GPU an actor, or the CPU; the model is named and pinned if there is one already.

        Raises:
            EngineUnavailableError: the model named is not there, not whole, or has an engine of its own.
        """
        model = _checkpoint(options) if options.model else None
        identity = Identity(
            cls.name,
            _version(),
            model=model.name if model else None,
            model_revision=model.revision if model else None,
            task=_habit(options, model.architecture if model else "").prompt or "page",
        )
        needs = Needs(
            num_cpus=options.threads,
            num_gpus=1.0 if wants_gpu(options.device) else 0.0,
            memory_bytes=host_memory_bytes(model),
            batch_size=options.batch_size,
        )
        raster = RasterRule(options.dpi, options.max_pixels, min_pixels=MIN_PIXELS, max_aspect=MAX_ASPECT)
        return Spec(identity, needs, raster, text_options(options))

    @classmethod
    def tuning_key(cls, options: VlmOptions) -> Premises:
        """Device and precision, and the longest answer."""
        return premises(options.device, options.precision, f"max_new_tokens={options.max_new_tokens}")

    def __init__(self, options: VlmOptions) -> None:
        import torch

        from pipeline.engines.loaded import Loaded

        checkpoint = _checkpoint(options)
        place = Place.find(options.device, options.precision)
        if place.device == "cpu":
            torch.set_num_threads(options.threads)
        self._habit = _habit(options, checkpoint.architecture)
        self._decoding = Decoding(options.max_new_tokens)
        self._places = [place, *filter(None, [place.wider()])]
        self._load: Callable[[Place], Loaded] = lambda place: Loaded(checkpoint.folder, place)
        with device_errors():
            self._loaded = {place: self._load(place)}

    def widen(self, pages: int) -> None:  # noqa: ARG002 (batches are read as they are given)
        """Give memory of earlier batches back."""
        give_memory_back()

    def recognize(self, batch: Sequence[Raster]) -> Answer:
        """Read the pages together, and those on which the model gets stuck again."""
        reading = _Reading(batch, self._habit.prompt, self._model)
        with device_errors():
            pages = climb(
                len(batch), [reading.ladder(place, self._decoding, self._places[0]) for place in self._places]
            )
        text = self._model(self._places[0]).text
        recognitions = [recognition_of(page, text(page.answer.tokens).strip(), self._habit.format) for page in pages]
        timings = Timings(preprocess_s=reading.preprocess_s, decode_s=reading.decode_s)
        gpu = gpu_use(self._places[0].device)
        return Answer(tuple(recognitions), Effort(timings, idle_ratio=reading.idle_ratio(), gpu=gpu))

    def _model(self, place: Place) -> Loaded:
        """The model in this precision, loaded when the first page needs it."""
        if place not in self._loaded:
            self._loaded[place] = self._load(place)
        return self._loaded[place]


class _Reading:
    """One batch being read, and what it took: seconds, steps of rows that wrote, and steps of all rows."""

    def __init__(self, batch: Sequence[Raster], prompt: str, model: Callable[[Place], Loaded]) -> None:
        self._batch, self._prompt, self._model = batch, prompt, model
        self.preprocess_s = self.decode_s = 0.0
        self._num_written = self._num_steps = 0

    def ladder(self, place: Place, decoding: Decoding, first: Place) -> tuple[Read, Sequence[Step]]:
        """The reader in this precision, and all ways to read with it; its name is said if it is not the first."""

        def read(positions: Sequence[int], step: Step) -> Sequence[Generated]:
            return self._read(self._model(place), positions, step)

        return read, steps_for(decoding, None if place == first else place.precision)

    def _read(self, model: Loaded, positions: Sequence[int], step: Step) -> Sequence[Generated]:
        started = time.perf_counter()
        inputs = model.prepare([self._batch[position].pixels for position in positions], self._prompt, step.scale)
        prepared = time.perf_counter()
        answers = model.write(inputs, step.decoding)
        self.preprocess_s += prepared - started
        self.decode_s += time.perf_counter() - prepared
        lengths = [len(answer.tokens) for answer in answers]
        self._num_written += sum(lengths)
        self._num_steps += max(lengths) * len(lengths)
        return answers

    def idle_ratio(self) -> float | None:
        """Share of decoding steps in which a row had ended already; None if nothing was written."""
        return 1 - self._num_written / self._num_steps if self._num_steps else None


def _habit(options: VlmOptions, architecture: str) -> Habit:
    return Habit(options.prompt, "text") if options.prompt else HABITS.get(architecture, OTHERS)


def _checkpoint(options: VlmOptions) -> Checkpoint:
    checkpoint = Checkpoint.resolve(options.model, options.revision or None)
    if checkpoint.architecture in BETTER_READ_BY:
        engine = BETTER_READ_BY[checkpoint.architecture]
        raise EngineUnavailableError(f"{checkpoint.name} has an engine of its own: --engine {engine}")
    if options.prompt and not HABITS.get(checkpoint.architecture, OTHERS).takes_prompt:
        raise ConfigurationError(f"{checkpoint.name} cannot be asked anything, it only reads: leave the prompt out")
    return checkpoint


def _version() -> str:
    try:
        return f"transformers {metadata.version('transformers')}"
    except metadata.PackageNotFoundError:
        return "not installed"
