"""What tests of the model share: the checkpoint that reads, pages of many sizes, and readers driven by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pipeline.engines.checkpoint import Checkpoint
from pipeline.engines.generated import Decoding, Generated
from pipeline.engines.hunyuan.continuous import ContinuousReader, Pace
from pipeline.engines.hunyuan.loading import Loader
from pipeline.engines.hunyuan.model import PageModel
from pipeline.engines.hunyuan.prompts import task_named
from pipeline.engines.hunyuan.rows import Reading
from pipeline.page import Page, Raster, SizedPage
from tests.checkpoints.grid import GridPages

TINY = Path(__file__).parents[1] / "checkpoints" / "tiny-hunyuan-vl"
QUESTION = task_named("text", "en").prompt
CPU = torch.device("cpu")
GREEDY = Decoding(max_new_tokens=60)
SEED = 2024


@dataclass(frozen=True, slots=True)
class Sheet:
    """A page, and what the model reads on it when it is alone."""

    pixels: np.ndarray
    alone: Generated


def loader(folder: Path = TINY, device: torch.device = CPU, **options: Any) -> Loader:
    return Loader(Checkpoint.resolve(str(folder)), QUESTION, device, **options)


def load(folder: Path = TINY, precision: str = "fp32") -> PageModel:
    return loader(folder).load(precision)


def grid_pixels(count: int, seed: int = SEED) -> list[np.ndarray]:
    pages = GridPages(seed)
    return [pages.page().pixels for _ in range(count)]


def drive(reader: Any, readings: Iterable[Reading], most: int = 100_000) -> dict[Any, Generated | Exception]:
    """Read until nothing is left; what came of each page, by its owner. A page told of twice is an error."""
    found: dict[Any, Generated | Exception] = {}
    reader.add(list(readings))
    for _ in range(most):
        if reader.is_idle:
            return found
        for ended in reader.advance():
            assert ended.reading.owner not in found, "told of twice"
            found[ended.reading.owner] = ended.result
    raise AssertionError("the reader came to no end")


def readings(pages: Sequence[np.ndarray], decoding: Decoding = GREEDY, order: Iterable[int] = ()) -> list[Reading]:
    """Owners are the positions of the pages."""
    return [Reading(number, pages[number], decoding) for number in order or range(len(pages))]


def read(model: PageModel, pages: Sequence[np.ndarray], decoding: Decoding = GREEDY, **pace: Any) -> list[Any]:
    """Read pages over slots; one result a page, in order."""
    found = drive(ContinuousReader(model, Pace(**pace)), readings(pages, decoding))
    return [found[number] for number in range(len(pages))]


def tokens(results: Iterable[Generated]) -> list[tuple[int, ...]]:
    return [result.tokens for result in results]


def raster(pixels: np.ndarray, page_index: int = 0) -> Raster:
    """The pixels as a page, read-only as they lie in shared memory."""
    pixels = pixels.view()
    pixels.flags.writeable = False
    height_px, width_px = pixels.shape[:2]
    page = Page("file:///grid.pdf", "0" * 64, page_index, 999)
    channels = 3 if pixels.ndim == 3 else 1
    return Raster(SizedPage(page, width_px, height_px, channels, 200.0, 0, 1), pixels)


def changed(source: Path, target: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> Path:
    """A copy of a checkpoint with other weights; the function changes them, as float32, in place."""
    import shutil

    from safetensors.torch import load_file, save_file

    shutil.copytree(source, target)
    weights = {name: tensor.float() for name, tensor in load_file(target / "model.safetensors").items()}
    change(weights)
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    return target
