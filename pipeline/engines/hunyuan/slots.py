"""The slots: the pages that are being written, with their keys and values, always in the first slots.

When a row ends, the last one moves into its place. So prompts are read into neighbouring slots, and no step is made
for slots that stand empty.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pipeline.engines.hunyuan.cache import GROWTH_TOKENS, KeyValueCache, rounded_up
from pipeline.engines.hunyuan.choose import Chooser
from pipeline.engines.hunyuan.model import PageModel, Prompt
from pipeline.engines.hunyuan.rows import Ended, Reading, Row
from pipeline.engines.hunyuan.stepper import Stepper

CAPACITY_STEP = 64


class Slots:
    """Rows in slots. What runs out of memory in `admit` and `step` has changed no row."""

    def __init__(self, model: PageModel, *, most: int, graphs: bool) -> None:
        self.rows: list[Row] = []
        self._model = model
        self._chooser = Chooser(most, model.decoder.vocabulary_size, model.device)
        self._stepper = Stepper(model.decoder, self._chooser, num_slots=most, graphs=graphs)
        self._cache: KeyValueCache | None = None

    @property
    def has_cache(self) -> bool:
        """Whether memory is held for keys and values."""
        return self._cache is not None

    @property
    def cache_bytes(self) -> int:
        """How much."""
        cache = self._cache
        return cache.shape.token_bytes * cache.capacity * cache.num_slots if cache else 0

    def admit(self, group: Sequence[tuple[Reading, Prompt]], *, num_slots: int) -> None:
        """Read prompts into the next slots, and choose the first token of each answer.

        Args:
            group: Pages and their prompts, which are read together.
            num_slots: For how many rows to make the cache if it has to be made now.
        """
        decoder, first = self._model.decoder, len(self.rows)
        prompts = [prompt for _, prompt in group]
        ahead = min(max(reading.decoding.max_new_tokens for reading, _ in group), GROWTH_TOKENS)
        cache = self._room(max(map(len, prompts)) + ahead, first + len(group), num_slots)
        embedded, places = [prompt.embedded for prompt in prompts], [prompt.places for prompt in prompts]
        logits = decoder.prefill(cache, embedded, places, first)
        rows = []
        for slot, (reading, prompt) in enumerate(group, first):
            self._chooser.start(slot, reading.decoding, prompt.tokens)
            room = min(reading.decoding.max_new_tokens, decoder.max_positions - len(prompt))
            rows.append(Row(reading, len(prompt), room))
        chosen = self._chooser.choose(logits, first)
        slots = slice(first, first + len(group))
        self._stepper.tokens[slots] = chosen.tokens
        self._stepper.positions[slots] = torch.tensor([len(prompt) for prompt in prompts], device=decoder.device)
        self._add(rows, chosen.tokens.tolist(), chosen.logprobs.tolist(), chosen.finite.tolist())
        self.rows += rows

    def step(self, num_steps: int) -> list[int]:
        """The next tokens of every row; for each step, how many rows went on into it."""
        highest = max(row.position for row in self.rows)
        cache = self._cache
        if cache is None or highest + num_steps >= cache.capacity:
            cache = self._room(highest + 1 + max(num_steps, GROWTH_TOKENS), len(self.rows), len(self.rows))
        written = self._stepper.run(cache, num_rows=len(self.rows), highest=highest, num_steps=num_steps)
        num_going = []
        for tokens, logprobs, finite in zip(written.tokens, written.logprobs, written.finite, strict=True):
            num_going.append(sum(row.finish is None for row in self.rows))
            self._add(self.rows, tokens, logprobs, finite)
        return num_going

    def leave(self) -> list[Ended]:
        """Rows that do not go on leave their slots, each to the last row."""
        ended = []
        for slot in reversed(range(len(self.rows))):
            row = self.rows[slot]
            if row.finish is None:
                continue
            ended.append(row.ended())
            if self._cache is not None and not row.is_finite:
                self._cache.clear(slot)
            last = self.rows.pop()
            if last is row:
                self._chooser.end(slot)
                continue
            self.rows[slot] = last
            if self._cache is not None:
                self._cache.move(len(self.rows), slot, last.position)
            self._stepper.move(len(self.rows), slot)
            self._chooser.move(len(self.rows), slot)
        return ended

    def give_up(self, kept: int) -> list[Reading]:
        """Give up all rows but the first, and what memory they hold; their readings, which have to start again.

        Where there is no memory to make the cache smaller, all go.
        """
        given_up = [row.reading for row in self.rows[kept:]]
        for slot in range(kept, len(self.rows)):
            self._chooser.end(slot)
        del self.rows[kept:]
        self._stepper.forget_graphs()
        try:
            if self._cache is not None and kept:
                self._cache.resize(num_slots=kept, capacity=self._cache.capacity)
        except torch.OutOfMemoryError:
            return self.give_up(0) + given_up
        if not kept:
            self.drop_cache()
        return given_up

    def drop_cache(self) -> None:
        """Give the memory back; there must be no row."""
        self._cache = None
        self._stepper.forget_graphs()

    def _room(self, tokens: int, num_rows: int, num_slots: int) -> KeyValueCache:
        """The cache, with room for so many rows and for sequences of so many tokens; larger than that if it is new."""
        tokens, num_slots = rounded_up(tokens, CAPACITY_STEP), max(num_rows, num_slots)
        if self._cache is None:
            shape, device = self._model.decoder.cache_shape, self._model.device
            self._cache = KeyValueCache(shape, num_slots=num_slots, capacity=tokens, device=device)
        elif tokens > self._cache.capacity or num_rows > self._cache.num_slots:
            longest = max([tokens, *(rounded_up(row.position + 1, CAPACITY_STEP) for row in self.rows)])
            self._stepper.forget_graphs()
            self._cache.resize(num_slots=num_slots, capacity=longest)
        return self._cache

    def _add(self, rows: Sequence[Row], tokens: list[int], logprobs: list[float], finite: list[bool]) -> None:
        """One token for each row that goes on."""
        for row, token, logprob, is_finite in zip(rows, tokens, logprobs, finite, strict=True):
            if row.finish is None:
                row.add(token, logprob, is_finite, self._model.ends)
