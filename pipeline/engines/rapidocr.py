"""RapidOCR: PP-OCRv6 small on the CPU, through ONNX Runtime; the only module that imports rapidocr.

RapidOCR's own loop over a page is replaced by the one here, around its detector and its recognizer. Measured on
version 3.10, its loop costs text: the classifier that looks for upside-down lines turns one in six of the long
upright ones (character error rate 0.15 on a clean page, 0.004 without it); pages above 2,000 pixels a side are
shrunk unasked; of more than 1,000 boxes the rest is dropped, which are the top rows of a dense table.

The loop here takes a batch in three steps: every page is detected, the crops of all pages are read together in groups
of one width, and each page is put together from what its own crops say.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pipeline.engines.engine import Engine, Identity, Needs, Premises, Spec, text_options
from pipeline.engines.hardware import cpu_name, versions_of
from pipeline.engines.rapid.detector import Detector, Fragment
from pipeline.engines.rapid.frame import DETECTOR_STEP_PX, Place, framed
from pipeline.engines.rapid.ordered import ordered
from pipeline.engines.rapid.recognizer import Recognizer
from pipeline.errors import ConfigurationError
from pipeline.order import run_down
from pipeline.page import Raster, RasterRule
from pipeline.result import Answer, Effort, Line, Recognition, Timings

MODELS = {"Det": "PP-OCRv6_det_small.onnx", "Rec": "PP-OCRv6_rec_small.onnx"}
"""The models the wheel of rapidocr 3.10 carries. They are named by path, so nothing is ever downloaded."""

DPI = 150.0
"""For 8 to 12 point text 100 dpi reads as well, and saves 2 s of the 10 s of CPU that a page takes; 6 point text
with the noise of a scan has an error rate of 0.018 to 0.045 at 100 dpi, 0.006 to 0.011 at 150, and 0.008 at 200."""

MAX_PIXELS = 4_400_000
"""A3 at 150 dpi; a letter on a 12-megapixel photo comes to some 200 dpi. Scans of 8.7 million pixels (A4 at 300 dpi)
lose nothing by it and take 10 s instead of 15. The detector takes 1.5 s of CPU and 150 MB a million pixels; larger
pages, where a job asks for them, it sees in bands, so that memory does not grow further."""

MEMORY_BYTES = 1_400 * 2**20
SECOND_LOOK_PIXELS = 1_100_000
"""A page on which the detector sees nothing is looked at again in bands of so many pixels: a single line of clear
print on 2,097 by 2,097 pixels escapes it, and on half of them does not."""
POOL_BYTES = 64 * 2**20
"""Crops that wait to be read together: four dense pages have some 20 MB of them."""

DOUBTFUL_SCORE, SURE_SCORE, BETTER_BY, MAX_PROBES = 0.85, 0.95, 0.1, 8
"""Upright lines score above 0.9 and most upside-down ones below 0.8, some up to 0.87 (measured). The longest few
doubtful lines are read both ways; only if most of them turn out to be upside down are all that are not sure."""


@dataclass(frozen=True, slots=True)
class RapidOcrOptions:
    """Options of RapidOCR.

    Lines below `text_score` (0 to 1) are left out. `upside_down` tries lines that make no sense the other way round,
    and puts pages that lie on their side or head into order. `squeeze` narrows long lines before they are read: 0.75
    saves a quarter of the time, costs nothing on clean print and up to a tenth of the letters on poor scans.
    `threads` belong to one actor; two actors of one thread read more than one of two.
    """

    text_score: float = 0.5
    upside_down: bool = True
    squeeze: float = 1.0
    threads: int = field(default=1, metadata={"alters_text": False})

    def __post_init__(self) -> None:
        for name, low, high in (("text_score", 0, 1), ("squeeze", 0.3, 1), ("threads", 1, 256)):
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigurationError(f"engine option '{name}' must be from {low} to {high}, not {value}")


@dataclass(frozen=True, slots=True)
class _Found:
    """What the detector found on a page; the pixels of the page itself are not needed any more."""

    place: Place
    fragments: tuple[Fragment, ...]

    @property
    def num_bytes(self) -> int:
        """Memory of the crops."""
        return sum(fragment.crop.nbytes for fragment in self.fragments)


@dataclass(frozen=True, slots=True)
class _Reading:
    """What a crop says; `quarters` of a turn counter-clockwise make the fragment upright."""

    text: str
    score: float
    quarters: int


class RapidOcrEngine(Engine):
    """Detects lines, reads each by itself, and puts them into reading order."""

    name: ClassVar[str] = "rapidocr"
    summary: ClassVar[str] = "PP-OCRv6 on the CPU: printed Latin and Chinese, Japanese text, lines with boxes"
    options_type: ClassVar[type[RapidOcrOptions]] = RapidOcrOptions

    @classmethod
    def missing(cls) -> str | None:
        """The packages, and the models that the wheel should carry."""
        if find_spec("rapidocr") is None or find_spec("onnxruntime") is None:
            return "RapidOCR is not installed: pip install rapidocr onnxruntime"
        absent = [name for name in MODELS.values() if not (_model_folder() / name).exists()]
        return f"rapidocr lacks its model {absent[0]}: pip install 'rapidocr>=3.10'" if absent else None

    @classmethod
    def spec(cls, options: RapidOcrOptions) -> Spec:
        """One core an actor; rasters of any size up to `MAX_PIXELS`."""
        model = " + ".join(name.removesuffix(".onnx") for name in MODELS.values())
        needs = Needs(num_cpus=options.threads, memory_bytes=MEMORY_BYTES, batch_size=4)
        version = dict(versions_of(("rapidocr",))).get("rapidocr", "not installed")
        identity = Identity(cls.name, version, model=model, task="lines")
        return Spec(identity, needs, RasterRule(DPI, MAX_PIXELS), text_options(options))

    @classmethod
    def tuning_key(cls, options: RapidOcrOptions) -> Premises:
        """The processor, float32 throughout, and what was told that makes lines cheaper."""
        manner = f"upside_down={options.upside_down} squeeze={options.squeeze:g}"
        return Premises("fp32", cpu_name(), versions_of(("rapidocr", "onnxruntime")), manner)

    def __init__(self, options: RapidOcrOptions) -> None:
        import cv2
        import rapidocr

        cv2.setNumThreads(options.threads)
        self.options = options
        ocr: Any = rapidocr.RapidOCR(params=_parameters(options.threads))
        ocr(np.zeros((64, 64, 3), np.uint8), use_rec=False)  # its parts are loaded when they are first used
        ocr.recognize_txt([np.zeros((48, 96, 3), np.uint8)])
        self._session = _arena_session(options.threads)
        ocr.text_det.session.session = self._session
        self._detector = Detector(ocr.text_det, ocr.crop_text_regions)
        self._recognizer = Recognizer(ocr.text_rec, squeeze=options.squeeze)

    def recognize(self, batch: Sequence[Raster]) -> Answer:
        """Read the lines of all pages together; what stands beside a line, or on another page, does not alter it."""
        pages: list[Recognition] = []
        waiting: list[_Found] = []
        preprocess_s = 0.0
        try:
            for raster in batch:
                started = time.perf_counter()
                frame, place = framed(raster.pixels, MAX_PIXELS)
                preprocess_s += time.perf_counter() - started
                waiting.append(_Found(place, self._fragments(frame)))
                if sum(found.num_bytes for found in waiting) > POOL_BYTES:
                    pages += self._read(waiting)
                    waiting = []
        finally:
            self._release()
        return Answer((*pages, *self._read(waiting)), Effort(Timings(preprocess_s=preprocess_s)))

    def _fragments(self, frame: NDArray[np.uint8]) -> tuple[Fragment, ...]:
        found = tuple(self._detector.fragments(frame, MAX_PIXELS))
        return found or tuple(self._detector.fragments(frame, SECOND_LOOK_PIXELS))

    def _release(self) -> None:
        """Give back the memory that the detector has kept from page to page."""
        from onnxruntime import RunOptions

        options = RunOptions()
        options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        tiny = np.zeros((1, 3, DETECTOR_STEP_PX, DETECTOR_STEP_PX), np.float32)
        self._session.run(None, {self._session.get_inputs()[0].name: tiny}, options)

    def _read(self, pool: Sequence[_Found]) -> list[Recognition]:
        """The pages of a pool: their crops are read together, the rest is each page's own affair."""
        crops = [[fragment.crop for fragment in found.fragments] for found in pool]
        readings = [
            [
                _Reading(text, score, fragment.quarters)
                for fragment, (text, score) in zip(found.fragments, said, strict=True)
            ]
            for found, said in zip(pool, self._read_all(crops), strict=True)
        ]
        if self.options.upside_down:
            self._turn(readings, crops)
        return [self._page(found, said) for found, said in zip(pool, readings, strict=True)]

    def _read_all(self, pages: Sequence[Sequence[NDArray[np.uint8]]]) -> list[list[tuple[str, float]]]:
        """What the crops of each page say."""
        said = iter(self._recognizer.read([crop for crops in pages for crop in crops]))
        return [[next(said) for _ in crops] for crops in pages]

    def _turn(self, readings: list[list[_Reading]], crops: Sequence[Sequence[NDArray[np.uint8]]]) -> None:
        """Put in place of the readings of upside-down lines what they say the right way round."""
        probes = [_below(DOUBTFUL_SCORE, said, page)[:MAX_PROBES] for said, page in zip(readings, crops, strict=True)]
        suspects = [_below(SURE_SCORE, said, page) for said, page in zip(readings, crops, strict=True)]
        better = self._try_turned(readings, crops, probes)
        rest = [
            [i for i in lines if i not in tried] if 2 * num > len(tried) else []
            for lines, tried, num in zip(suspects, probes, better, strict=True)
        ]
        self._try_turned(readings, crops, rest)

    def _try_turned(
        self,
        readings: list[list[_Reading]],
        crops: Sequence[Sequence[NDArray[np.uint8]]],
        tried: Sequence[Sequence[int]],
    ) -> list[int]:
        """Read these lines of each page the other way round, keep what is better, and count that for each page."""
        turned = [
            [np.ascontiguousarray(page[i][::-1, ::-1]) for i in lines] for page, lines in zip(crops, tried, strict=True)
        ]
        better = []
        for page, lines, said in zip(readings, tried, self._read_all(turned), strict=True):
            gained = [(i, read) for i, read in zip(lines, said, strict=True) if read[1] > page[i].score + BETTER_BY]
            for i, (text, score) in gained:
                page[i] = _Reading(text, score, page[i].quarters + 2)
            better.append(len(gained))
        return better

    def _page(self, found: _Found, readings: Sequence[_Reading]) -> Recognition:
        kept = [
            (reading, Line(reading.text.strip(), found.place.bbox(fragment.quad), reading.score))
            for reading, fragment in zip(readings, found.fragments, strict=True)
            if reading.text.strip() and reading.score >= self.options.text_score
        ]
        quarters = 0 if run_down([line for _, line in kept]) else _page_quarters([reading for reading, _ in kept])
        return ordered([line for _, line in kept], quarters, found.place.width_px, found.place.height_px)


def _below(score: float, readings: Sequence[_Reading], crops: Sequence[NDArray[np.uint8]]) -> list[int]:
    """Lines of a page that may be upside down, as they are less sure than that, longest first."""
    unsure = [i for i, reading in enumerate(readings) if reading.score < score]
    return sorted(unsure, key=lambda i: -crops[i].shape[1] / crops[i].shape[0])


def _model_folder() -> Path:
    places = getattr(find_spec("rapidocr"), "submodule_search_locations", None)
    return Path(places[0] if places else "rapidocr") / "models"


def _parameters(threads: int) -> dict[str, Any]:
    """Settings of RapidOCR: no resizing, no padding, no limit on boxes.

    The memory arena of ONNX Runtime stays off in the recognizer: memory would grow with every new width.
    """
    return {
        "Global.log_level": "critical",
        "Global.use_cls": False,
        "Global.use_vertical_padding": False,
        "EngineConfig.onnxruntime.intra_op_num_threads": threads,
        "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        "EngineConfig.onnxruntime.enable_cpu_mem_arena": False,
        "Det.limit_side_len": DETECTOR_STEP_PX,
        "Det.max_candidates": 100_000,
        **{f"{part}.model_path": str(_model_folder() / name) for part, name in MODELS.items()},
    }


def _arena_session(threads: int) -> Any:
    """The detector's model with memory that it keeps between the pages of a batch: 8 to 11 % less time, measured.

    Without patterns of memory a batch of pages of 4.5 million pixels has a peak of 990 MB; with them, 1,590; with no
    arena, 1,330.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.enable_mem_pattern = False
    provider = ("CPUExecutionProvider", {"arena_extend_strategy": "kSameAsRequested"})
    return onnxruntime.InferenceSession(str(_model_folder() / MODELS["Det"]), options, providers=[provider])


def _page_quarters(readings: Sequence[_Reading]) -> int:
    """Quarters of a turn counter-clockwise that make most of the page's letters upright; single letters have no say."""
    letters = [sum(len(r.text) for r in readings if r.quarters == q and len(r.text) > 2) for q in range(4)]
    return letters.index(max(letters))
