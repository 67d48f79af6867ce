"""Static batches: `generate` of transformers over HunyuanOCR, where each row waits for the longest; the baseline."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor

from pipeline.engines.generated import Generated
from pipeline.engines.hunyuan.model import PageModel
from pipeline.engines.hunyuan.pixels import Patches, Uploader
from pipeline.engines.hunyuan.positions import rowwise
from pipeline.engines.hunyuan.rows import Clock, Ended, Reading
from pipeline.engines.static import generate


class StaticReader:
    """Reads pages in batches of the size given, in the order in which they came.

    A batch that finds no memory, or fails otherwise, is read in halves; a page that does so alone ends with the error.
    """

    def __init__(self, model: PageModel, batch_size: int) -> None:
        self._model, self._batch_size, self.clock = model, batch_size, Clock()
        self._uploader = Uploader(model.device)
        self._waiting: deque[Reading] = deque()
        rowwise(model.model.model)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to do."""
        return not self._waiting

    @property
    def owners(self) -> list[object]:
        """None: a batch is read from beginning to end."""
        return []

    def add(self, readings: Sequence[Reading]) -> None:
        """Let pages wait for their turn."""
        self._waiting.extend(readings)

    def reset(self) -> None:
        """Forget all pages."""
        self._waiting.clear()

    def widen(self, pages: int) -> None:
        """Read batches of so many pages from now on."""
        self._batch_size = pages

    def advance(self) -> list[Ended]:
        """Read the next batch: pages that are to be read in the same way."""
        first = self._waiting[0]
        alike = takewhile(lambda reading: reading.decoding == first.decoding, self._waiting)
        group = [reading for _, reading in zip(range(self._batch_size), alike, strict=False)]
        for _ in group:
            self._waiting.popleft()
        return self._read(group)

    def _read(self, group: Sequence[Reading]) -> list[Ended]:
        try:
            results = self._generated(group)
        except Exception as error:
            is_memory = isinstance(error, torch.OutOfMemoryError)
            self.clock.oom_splits += is_memory
            if len(group) == 1:
                return [Ended(group[0], error)]
            if is_memory:
                self._batch_size = max(1, len(group) // 2)
        else:
            return [Ended(reading, result) for reading, result in zip(group, results, strict=True)]
        middle = len(group) // 2
        return self._read(group[:middle]) + self._read(group[middle:])

    def _generated(self, group: Sequence[Reading]) -> list[Generated]:
        model, started = self._model, time.perf_counter()
        with torch.inference_mode():
            patches = [self._patches(reading) for reading in group]
            inputs = model_inputs(model, patches)
        looked = time.perf_counter()
        decoding, ends = group[0].decoding, sorted(model.ends)
        results = generate(model.model, inputs, decoding, end_tokens=ends, pad_token=model.pad)
        self.clock.vision_s += looked - started
        self.clock.decode_s += time.perf_counter() - looked
        longest = max(len(result.tokens) for result in results)
        self.clock.slots += longest * len(results)
        self.clock.idle += sum(longest - len(result.tokens) for result in results)
        return results

    def _patches(self, reading: Reading) -> Patches:
        pixels = self._uploader.send(reading.pixels)
        self._uploader.wait(pixels)
        return self._model.patches(pixels, reading.scale)


def model_inputs(model: PageModel, pages: Sequence[Patches]) -> dict[str, Any]:
    """What the processor of transformers would give for a batch: prompts padded on the left, pixels packed."""
    prompts = [model.prompt_tokens(page) for page in pages]
    longest = max(map(len, prompts))
    tokens = torch.stack([_padded(prompt, longest, model.pad) for prompt in prompts])
    mask = torch.stack([_padded(torch.ones_like(prompt), longest, 0) for prompt in prompts])
    grids = [[1, page.rows, page.columns] for page in pages]
    return {
        "input_ids": tokens,
        "attention_mask": mask,
        "mm_token_type_ids": (tokens == model.config.image_token_id).int(),
        "pixel_values": torch.cat([page.values for page in pages]).to(model.decoder.dtype),
        "image_grid_thw": torch.tensor(grids, device=model.device),
    }


def _padded(tokens: Tensor, length: int, filling: int) -> Tensor:
    return torch.nn.functional.pad(tokens, (length - len(tokens), 0), value=filling)
