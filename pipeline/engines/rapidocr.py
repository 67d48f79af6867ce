"""RapidOCR: PP-OCRv6 small on the CPU, through ONNX Runtime; the only module that imports rapidocr.

RapidOCR's own loop over a page is replaced by the one here, around its detector and its recognizer. Measured on
version 3.10, its loop costs text: the classifier that looks for upside-down lines turns one in six of the long
upright ones (character error rate 0.15 on a clean page, 0.004 without it); pages above 2,000 pixels a side are
shrunk unasked; of more than 1,000 boxes the rest is dropped, which are the top rows of a dense table.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import compress, pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pipeline.engines.engine import Engine, Identity, Needs, Premises, Spec, text_options
from pipeline.engines.hardware import cpu_name, versions_of
from pipeline.errors import ConfigurationError
from pipeline.order import page_text, reading_order, run_down
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
BAND_MARGIN_PX, SEAM_PX = 128, 16
"""How far a band looks beyond its own rows, and how far two bands may differ on where the same line stands."""
BORDER_PX, FRAME_SIDE_PX, DETECTOR_STEP_PX = 16, 320, 32
SECOND_LOOK_PIXELS = 1_100_000
"""A page on which the detector sees nothing is looked at again in bands of so many pixels: a single line of clear
print on 2,097 by 2,097 pixels escapes it, and on half of them does not."""
WIDEST_PX = 16_384
"""A0 lying on its side at 300 dpi is narrower; bands of wider pages would not keep memory in bounds."""

LONG_LINE = 10.0
"""Width over height from which `squeeze` applies: short fragments, such as cells of a table, lose digits by it."""
LONGEST_LINE = 200.0
"""Nothing this much wider than high is text; squeezed to it, a ruled line cannot exhaust memory."""
DOUBTFUL_SCORE, BETTER_BY, MAX_PROBES = 0.85, 0.1, 8
"""Upright lines score above 0.9 and upside-down ones below 0.8 (measured). The longest few doubtful lines are read
both ways; only if most of them turn out to be upside down are the other doubtful ones tried as well."""


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
class _Frame:
    """A page with a border in BGR, as the detector wants it; the page's first pixel is at (`left`, `top`)."""

    pixels: NDArray[np.uint8]
    left: int
    top: int


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
        from rapidocr.main import RapidOCRError

        cv2.setNumThreads(options.threads)
        self.options = options
        self._cv2, self._no_text = cv2, RapidOCRError
        self._ocr: Any = rapidocr.RapidOCR(params=_parameters(options.threads))
        list(self._boxes(np.zeros((64, 64, 3), np.uint8), MAX_PIXELS))
        self._read_one(np.zeros((48, 96, 3), np.uint8))

    def recognize(self, batch: Sequence[Raster]) -> Answer:
        """Read page by page and line by line: what stands beside a line does not alter its text."""
        pages, preprocess_s = [], 0.0
        for raster in batch:
            started = time.perf_counter()
            frame = _framed(raster.pixels)
            preprocess_s += time.perf_counter() - started
            pages.append(self._page(frame, *raster.pixels.shape[1::-1]))
        return Answer(tuple(pages), Effort(Timings(preprocess_s=preprocess_s)))

    def _page(self, frame: _Frame, width_px: int, height_px: int) -> Recognition:
        found = list(self._boxes(frame.pixels, MAX_PIXELS)) or list(self._boxes(frame.pixels, SECOND_LOOK_PIXELS))
        readings = self._upright([self._read(quad, crop) for quad, crop in found], [crop for _, crop in found])
        kept = [
            (reading, Line(reading.text.strip(), _bbox(quad, frame, width_px, height_px), reading.score))
            for reading, (quad, _) in zip(readings, found, strict=True)
            if reading.text.strip() and reading.score >= self.options.text_score
        ]
        quarters = 0 if run_down([line for _, line in kept]) else _page_quarters([reading for reading, _ in kept])
        return _recognition([line for _, line in kept], quarters, width_px, height_px)

    def _boxes(self, pixels: NDArray[np.uint8], most: int) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Four corners, clockwise from the top left, and the crop, of every fragment of text."""
        height_px, width_px = pixels.shape[:2]
        at_seam: list[NDArray[np.float32]] = []
        for first, last in _bands(width_px, height_px, most):
            top = max(0, first - BAND_MARGIN_PX)
            try:
                crops, found = self._ocr.detect_and_crop(pixels[top : last + BAND_MARGIN_PX], {})
            except self._no_text:
                continue
            moved = [quad + np.array([0, top], np.float32) for quad in found.boxes]
            inside = [first - SEAM_PX <= quad[:, 1].mean() < last + SEAM_PX for quad in moved]
            fresh = [not any(_same_place(quad, other) for other in at_seam) for quad in moved]
            at_seam = [quad for quad in moved if abs(quad[:, 1].mean() - last) <= SEAM_PX]
            yield from compress(zip(moved, crops, strict=True), map(all, zip(inside, fresh, strict=True)))

    def _read(self, quad: NDArray[np.float32], crop: NDArray[np.uint8]) -> _Reading:
        """Read a crop; rapidocr has turned those one and a half times as high as wide counter-clockwise."""
        sides = np.linalg.norm(quad - np.roll(quad, -1, axis=0), axis=1).astype(int)
        standing = max(sides[1], sides[3]) >= 1.5 * max(sides[0], sides[2])
        return _Reading(*self._read_one(crop), int(standing))

    def _read_one(self, crop: NDArray[np.uint8]) -> tuple[str, float]:
        height_px, width_px = crop.shape[:2]
        aspect = width_px / height_px
        wanted = min(aspect * (self.options.squeeze if aspect >= LONG_LINE else 1), LONGEST_LINE)
        size = (round(wanted * height_px), height_px)
        narrow = crop if wanted == aspect else self._cv2.resize(crop, size, interpolation=self._cv2.INTER_AREA)
        read = self._ocr.recognize_txt([narrow])
        return read.txts[0], float(read.scores[0])

    def _upright(self, readings: list[_Reading], crops: Sequence[NDArray[np.uint8]]) -> list[_Reading]:
        """The readings, with those of upside-down lines replaced by what they say the right way round."""
        doubtful = [i for i, reading in enumerate(readings) if reading.score < DOUBTFUL_SCORE]
        doubtful.sort(key=lambda i: -crops[i].shape[1] / crops[i].shape[0])
        turned, num_better = list(readings), 0
        for tried, i in enumerate(doubtful if self.options.upside_down else []):
            if tried >= MAX_PROBES and 2 * num_better <= MAX_PROBES:
                break
            text, score = self._read_one(np.ascontiguousarray(crops[i][::-1, ::-1]))
            if score > readings[i].score + BETTER_BY:
                turned[i] = _Reading(text, score, readings[i].quarters + 2)
                num_better += tried < MAX_PROBES
        return turned


def _model_folder() -> Path:
    places = getattr(find_spec("rapidocr"), "submodule_search_locations", None)
    return Path(places[0] if places else "rapidocr") / "models"


def _parameters(threads: int) -> dict[str, Any]:
    """Settings of RapidOCR: no resizing, no padding, no limit on boxes, one line at a time.

    Lines read alone take a fifth less time, and less memory, than six padded to the longest; 96 pixels as the
    narrowest input read the short cells of two tables as well as the usual 320 did, in 40 % of the time.
    The memory arena of ONNX Runtime stays off: with it, memory grows with every new size of page.
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
        "Rec.rec_batch_num": 1,
        "Rec.rec_img_shape": [3, 48, 96],
        **{f"{part}.model_path": str(_model_folder() / name) for part, name in MODELS.items()},
    }


def _framed(pixels: NDArray[np.uint8]) -> _Frame:
    """A page in a border of the colour of its edge, for text at the edge and thin strips; sides fit the detector."""
    height_px, width_px = pixels.shape[:2]
    high, wide = (
        DETECTOR_STEP_PX * math.ceil(max(side + 2 * BORDER_PX, FRAME_SIDE_PX) / DETECTOR_STEP_PX)
        for side in (height_px, width_px)
    )
    if wide > WIDEST_PX or wide * high > 2 * max(width_px * height_px, MAX_PIXELS):
        raise ValueError(f"a page of {width_px} x {height_px} pixels is too long and thin to be read")
    top, left = (high - height_px) // 2, (wide - width_px) // 2
    bgr = pixels[..., ::-1] if pixels.ndim == 3 else pixels[..., np.newaxis]
    frame = np.empty((high, wide, 3), np.uint8)
    frame[:] = np.median(np.concatenate([bgr[0], bgr[-1], bgr[:, 0], bgr[:, -1]]), axis=0)
    frame[top : top + height_px, left : left + width_px] = bgr
    return _Frame(frame, left, top)


def _bands(width_px: int, height_px: int, band_pixels: int) -> list[tuple[int, int]]:
    """First and past-the-last pixel row of the bands to look at one by one: a single one up to about `band_pixels`."""
    if width_px * height_px <= 1.1 * band_pixels:
        return [(0, height_px)]
    num_bands = math.ceil(height_px / max(BAND_MARGIN_PX, band_pixels // width_px - 2 * BAND_MARGIN_PX))
    return list(pairwise(height_px * i // num_bands for i in range(num_bands + 1)))


def _same_place(quad: NDArray[np.float32], other: NDArray[np.float32]) -> bool:
    """Whether two bands saw the same fragment: the upright boxes share more than half of the smaller one."""
    low, high = np.maximum(quad.min(0), other.min(0)), np.minimum(quad.max(0), other.max(0))
    smaller = min(np.prod(np.ptp(corners, axis=0)) for corners in (quad, other))
    return bool((high > low).all() and np.prod(high - low) > smaller / 2)


def _bbox(quad: NDArray[np.float32], frame: _Frame, width_px: int, height_px: int) -> tuple[float, float, float, float]:
    """The upright box around four corners, in pixels of the raster and within it."""
    x = np.clip(quad[:, 0] - frame.left, 0, width_px)
    y = np.clip(quad[:, 1] - frame.top, 0, height_px)
    return float(x.min()), float(y.min()), float(x.max()), float(y.max())


def _page_quarters(readings: Sequence[_Reading]) -> int:
    """Quarters of a turn counter-clockwise that make most of the page's letters upright; single letters have no say."""
    letters = [sum(len(r.text) for r in readings if r.quarters == q and len(r.text) > 2) for q in range(4)]
    return letters.index(max(letters))


def _recognition(lines: Sequence[Line], quarters: int, width_px: int, height_px: int) -> Recognition:
    """Text in the reading order of the upright page, lines in the same order with the boxes they came with."""
    upright = [replace(line, bbox=_turned(line.bbox, quarters, width_px, height_px)) for line in lines]
    rows = reading_order(upright)
    sides = (height_px, width_px) if quarters % 2 else (width_px, height_px)
    ordered = [replace(line, bbox=_turned(line.bbox, 4 - quarters, *sides)) for row in rows for line in row]
    num_letters = sum(len(line.text) for line in ordered)
    total = sum(len(line.text) * (line.score or 0.0) for line in ordered)
    return Recognition(page_text(rows), lines=tuple(ordered), confidence=total / num_letters if ordered else None)


def _turned(
    bbox: tuple[float, float, float, float], quarters: int, width_px: float, height_px: float
) -> tuple[float, float, float, float]:
    """The box after turning the page that many quarters counter-clockwise."""
    for _ in range(quarters % 4):
        bbox = (bbox[1], width_px - bbox[2], bbox[3], width_px - bbox[0])
        width_px, height_px = height_px, width_px
    return bbox
