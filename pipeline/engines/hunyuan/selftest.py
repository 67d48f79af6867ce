"""Whether a precision can be trusted with this checkpoint on this device: a built-in page, read and compared.

Upstream has only ever run bfloat16; float16 ends at 65,504, and a model that goes beyond writes nonsense or nothing.
The page is read in float32 first, alone. In the precision in question the same answer is shown to the model token by
token, to the page alone and to the page in a late row among others: wherever float32 was sure of the next token, that
must be the likeliest one. Where it was not, either of two tokens is right, and nothing is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.engines.hunyuan.cache import KeyValueCache
from pipeline.engines.hunyuan.model import PageModel

NUM_TOKENS = 32
SURE_MARGIN = 1.0
"""Logits by which the likeliest token leads where float32 is called sure; bfloat16 moves them by some tenths."""

LATE_ROW = 3
_ROWS_OF = {
    "A": "0e1111111f1111", "E": "1f10101e10101f", "G": "0e11101713110f", "I": "0e04040404040e", "L": "1010101010101f",
    "M": "111b1515111111", "P": "1e11111e101010", "0": "0e11131519110e", "1": "040c040404040e", "2": "0e11010204081f",
    "3": "1f02040201110e", "4": "02060a121f0202", "5": "1f101e0101110e", "6": "0608101e11110e", "7": "1f010204080808",
    "8": "0e11110e11110e", "9": "0e11110f01020c",
}  # fmt: skip
"""Letters of five by seven dots, a row to each two hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What the model says of the page in float32: its tokens, and which of them it was sure of."""

    tokens: tuple[int, ...]
    sure: tuple[bool, ...]


def page(text: str = "PAGEMILL\n0123456789", *, cell_px: int = 32, min_pixels: int = 0) -> NDArray[np.uint8]:
    """A page with lines of large dotted letters, one in each cell: uint8, gray, of at least so many pixels."""
    lines = text.split("\n")
    rows, cells = len(lines), max(map(len, lines))
    while rows * cells * cell_px**2 < min_pixels:
        rows, cells = rows + 1, cells + 1
    pixels = np.full((rows * cell_px, cells * cell_px), 255, np.uint8)
    dot = max(1, cell_px // 8)
    for line, letters in enumerate(lines):
        for cell, letter in enumerate(letters):
            dots = np.array([[int(row, 16) >> 4 - n & 1 for n in range(5)] for row in _pairs(_ROWS_OF[letter])])
            ink = np.kron(dots, np.ones((dot, dot), int))
            top, left = line * cell_px + dot // 2, cell * cell_px + dot
            pixels[top : top + 7 * dot, left : left + 5 * dot][ink > 0] = 0
    return pixels


@torch.inference_mode()
def expect(model: PageModel, pixels: NDArray[np.uint8]) -> Expectation:
    """Read the page with the model, which is in float32."""
    tokens: list[int] = []
    sure: list[bool] = []
    cache, logits, start = _begin(model, [pixels])
    for number in range(NUM_TOKENS):
        best = logits[0].topk(2)
        tokens.append(int(best.indices[0]))
        sure.append(float(best.values[0] - best.values[1]) >= SURE_MARGIN)
        if tokens[-1] in model.ends:
            break
        logits = _show(model, cache, [tokens[-1]], [start[0] + number])
    return Expectation(tuple(tokens), tuple(sure))


@torch.inference_mode()
def fault(model: PageModel, pixels: NDArray[np.uint8], expected: Expectation) -> str | None:
    """What is wrong with the model in its precision, in a few words; None if nothing is."""
    others = [pixels[:, : pixels.shape[1] // 2], pixels[::-1], 255 - pixels]
    for company in ([], [np.ascontiguousarray(other) for other in others[:LATE_ROW]]):
        pages = [*company, pixels]
        cache, logits, starts = _begin(model, pages)
        where = "in a late row of a batch" if company else "alone"
        for number, (token, sure) in enumerate(zip(expected.tokens, expected.sure, strict=True)):
            if not logits.isfinite().all():
                return f"its numbers are not finite ({where})"
            if sure and int(logits[-1].argmax()) != token:
                return f"it reads other than float32 does ({where}, token {number + 1})"
            logits = _show(model, cache, [token] * len(pages), [start + number for start in starts])
    return None


def _begin(model: PageModel, pages: Sequence[NDArray[np.uint8]]) -> tuple[KeyValueCache, Tensor, list[int]]:
    """Pages read together: the cache, logits of each first token, and where it will stand."""
    patches = [model.patches(torch.from_numpy(pixels).to(model.device)) for pixels in pages]
    prompts = model.prompts(patches)
    lengths = [len(prompt) for prompt in prompts]
    shape, capacity = model.decoder.cache_shape, max(lengths) + NUM_TOKENS + 1
    cache = KeyValueCache(shape, num_slots=len(pages), capacity=capacity, device=model.device)
    embedded, places = [prompt.embedded for prompt in prompts], [prompt.places for prompt in prompts]
    return cache, model.decoder.prefill(cache, embedded, places, 0), lengths


def _show(model: PageModel, cache: KeyValueCache, tokens: list[int], positions: list[int]) -> Tensor:
    shown, places = (torch.tensor(values, device=model.device) for values in (tokens, positions))
    return model.decoder.step(cache, shown, places, max(positions) + 1)


def _pairs(digits: str) -> list[str]:
    return [digits[n : n + 2] for n in range(0, len(digits), 2)]
