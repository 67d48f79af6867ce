"""Several steps without a look: tokens stay on the device, and on a GPU a step is one recorded CUDA graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pipeline.engines.hunyuan.cache import KeyValueCache, rounded_up
from pipeline.engines.hunyuan.choose import Chooser, Snapshot
from pipeline.engines.hunyuan.decoder import Decoder

SPAN_STEP = {"cuda": 256, "cpu": 16}
"""Tokens of the cache to look at are rounded up to this: on a GPU each number of them needs a graph of its own."""


@dataclass(frozen=True, slots=True)
class Written:
    """What was written since the last look, on the host, each of shape (steps, slots in use)."""

    tokens: list[list[int]]
    logprobs: list[list[float]]
    finite: list[list[bool]]


class Stepper:
    """Makes steps over the first slots of a cache. `tokens` and `positions` say where each slot is, on the device."""

    def __init__(self, decoder: Decoder, chooser: Chooser, *, num_slots: int, graphs: bool) -> None:
        self._decoder, self._chooser = decoder, chooser
        self.tokens = torch.zeros(num_slots, dtype=torch.long, device=decoder.device)
        self.positions = torch.zeros_like(self.tokens)
        self._logprobs = torch.zeros(num_slots, device=decoder.device)
        self._finite = torch.ones(num_slots, dtype=torch.bool, device=decoder.device)
        self._graphs: dict[tuple[int, int, bool], torch.cuda.CUDAGraph] | None = {} if graphs else None
        self._pool: Any = None

    def forget_graphs(self) -> None:
        """The cache lies elsewhere now."""
        if self._graphs:
            self._graphs.clear()

    def move(self, source: int, target: int) -> None:
        """A page goes to another slot."""
        self.tokens[target], self.positions[target] = self.tokens[source], self.positions[source]

    def run(self, cache: KeyValueCache, *, num_rows: int, highest: int, num_steps: int) -> Written:
        """Make steps with the slots in use, and bring what was written to the host in one piece.

        Args:
            cache: What was read before; `forget_graphs` must be called whenever it came to lie elsewhere.
            num_rows: Slots in use, the first ones.
            highest: The highest position of any of them; the cache has room for that and `num_steps` more.
            num_steps: How many.

        Raises:
            torch.OutOfMemoryError: the device has no memory; all is as if no step had been made.
        """
        span = min(cache.capacity, rounded_up(highest + num_steps + 1, SPAN_STEP[self._decoder.device.type]))
        self.positions[num_rows:] = 0  # a graph steps on with slots that stand empty, and must stay in the cache
        written, before = [], self._snapshot()
        try:
            for _ in range(num_steps):
                self._step(cache, num_rows, span)
                written.append(torch.stack([part[:num_rows].double() for part in self._state()]))
            tokens, logprobs, finite = torch.stack(written, 1).cpu()
            return Written(tokens.long().tolist(), logprobs.tolist(), finite.bool().tolist())
        except torch.OutOfMemoryError:
            self._restore(before)
            raise

    def _snapshot(self) -> tuple[Tensor, Tensor, Snapshot]:
        return self.tokens.clone(), self.positions.clone(), self._chooser.snapshot()

    def _restore(self, before: tuple[Tensor, Tensor, Snapshot]) -> None:
        self.tokens.copy_(before[0])
        self.positions.copy_(before[1])
        self._chooser.restore(before[2])

    def _state(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.tokens, self._logprobs, self._finite

    def _step(self, cache: KeyValueCache, num_rows: int, span: int) -> None:
        if self._graphs is None or self._chooser.samples:
            self._body(cache, num_rows, span)
            return
        # A graph for each power of two: what the rows beyond write, the next page in their slots overwrites.
        num_rows = min(cache.num_slots, 1 << (num_rows - 1).bit_length())
        key = (num_rows, span, self._chooser.penalizes)
        if key not in self._graphs:
            self._graphs[key] = self._recorded(cache, num_rows, span)
        self._graphs[key].replay()

    def _body(self, cache: KeyValueCache, num_rows: int, span: int) -> None:
        """One step: every result is written where the next step reads it."""
        tokens, positions = self.tokens[:num_rows], self.positions[:num_rows]
        chosen = self._chooser.choose(self._decoder.step(cache, tokens, positions, span))
        tokens.copy_(chosen.tokens)
        positions.add_(1)
        self._logprobs[:num_rows] = chosen.logprobs
        self._finite[:num_rows] = chosen.finite

    def _recorded(self, cache: KeyValueCache, num_rows: int, span: int) -> torch.cuda.CUDAGraph:
        """A graph of one step. The step on trial before the recording is taken back."""
        device, before = self._decoder.device, self._snapshot()
        aside: Any = torch.cuda.Stream(device)
        aside.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(aside):
            self._body(cache, num_rows, span)
        torch.cuda.current_stream(device).wait_stream(aside)
        self._restore(before)
        graph = torch.cuda.CUDAGraph()
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        with torch.cuda.graph(graph, pool=self._pool):
            self._body(cache, num_rows, span)
        return graph
