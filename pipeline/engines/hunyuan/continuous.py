"""Continuous batching: when a row ends, the next page takes its slot, so that no slot waits for the longest answer.

The rows in use are always the first slots: the last one moves into a hole. So prompts are read into neighbouring
slots, and at the end of a job no step is made for slots that stand empty.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from pipeline.bucket import bucket_of
from pipeline.engines.hunyuan.cache import GROWTH_TOKENS, KeyValueCache, rounded_up
from pipeline.engines.hunyuan.choose import Chooser
from pipeline.engines.hunyuan.model import PageModel, Prompt
from pipeline.engines.hunyuan.pixels import Uploader
from pipeline.engines.hunyuan.rows import Ended, Reading, Row
from pipeline.engines.hunyuan.stepper import Stepper

CAPACITY_STEP = 64
LIKE_LENGTH = 0.8
"""Prompts are read together if the shortest has this share of the longest one's tokens."""

_Looked = tuple[Reading, Prompt]


@dataclass(frozen=True, slots=True)
class Pace:
    """How wide and how long: slots, pages that the vision tower sees at once, steps between two looks of the host.

    `fits` says how many slots a card holds for prompts of so many tokens.
    """

    num_slots: int = 8
    vision_pages: int = 8
    steps_per_look: int = 1
    graphs: bool = False
    fits: Callable[[int], int] | None = None


@dataclass(slots=True)
class Clock:
    """Seconds by phase, slots in steps that were made and how many of them stood empty, and halvings for memory."""

    vision_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    slots: int = 0
    idle: int = 0
    oom_splits: int = 0


class ContinuousReader:
    """Reads pages as they are given. `advance` does the next piece of work and tells what has ended by it.

    When the device has no memory, what was tried is tried with fewer pages, and no more than fitted is tried again in
    its bucket for as long as the reader lives. A page that does not fit alone ends with the error.
    """

    def __init__(self, model: PageModel, pace: Pace) -> None:
        self._model, self._pace, self.clock = model, pace, Clock()
        self._uploader = Uploader(model.device)
        self._chooser = Chooser(pace.num_slots, model.decoder.vocabulary_size, model.device)
        self._stepper = Stepper(model.decoder, self._chooser, num_slots=pace.num_slots, graphs=pace.graphs)
        self._ceilings: dict[int, int] = {}
        self._vision_pages = pace.vision_pages
        self.reset()

    def reset(self) -> None:
        """Forget all pages and give the cache back; what was learned of memory stays."""
        self._waiting: deque[Reading] = deque()
        self._seen: deque[_Looked] = deque()
        self._rows: list[Row] = []
        self._cache: KeyValueCache | None = None
        self._hold = self._pace.num_slots
        self._stepper.forget_graphs()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to do."""
        return not (self._waiting or self._seen or self._rows)

    @property
    def owners(self) -> list[object]:
        """Whose pages are in slots now, one entry a page."""
        return [row.reading.owner for row in self._rows]

    def ceiling(self, num_tokens: int) -> int:
        """Slots that may be used while a page of so many prompt tokens is among them."""
        fits = self._pace.fits(num_tokens) if self._pace.fits else self._pace.num_slots
        return max(1, min(self._pace.num_slots, fits, self._ceilings.get(bucket_of(num_tokens), fits)))

    def add(self, readings: Sequence[Reading]) -> None:
        """Let pages wait for their turn."""
        self._waiting.extend(readings)

    @torch.inference_mode()
    def advance(self) -> list[Ended]:
        """Fill the free slots, looking at pages where none is ready, and make the next steps."""
        ended: list[Ended] = []
        while (self._seen or self._waiting) and len(self._rows) < self._hold:
            if not self._seen:
                group = [self._waiting.popleft() for _ in range(min(self._vision_pages, len(self._waiting)))]
                ended += self._timed("vision_s", lambda group=group: self._look(group))
            elif len(self._rows) < self._limit():
                looked = self._next_group()
                ended += self._timed("prefill_s", lambda looked=looked: self._read(looked))
            else:
                break
        if self._rows:
            ended += self._timed("decode_s", self._make_steps)
        return ended

    def _timed(self, phase: str, work: Callable[[], list[Ended]]) -> list[Ended]:
        started = time.perf_counter()
        ended = work()
        setattr(self.clock, phase, getattr(self.clock, phase) + time.perf_counter() - started)
        return ended

    # looking at pages

    def _look(self, group: Sequence[Reading]) -> list[Ended]:
        """Pixels to prompts; what fails, if not for memory, is looked at page by page."""
        try:
            sent = [self._uploader.send(reading.pixels) for reading in group]
            for pixels in sent:
                self._uploader.wait(pixels)
            scales = [reading.scale for reading in group]
            patches = [self._model.patches(pixels, scale) for pixels, scale in zip(sent, scales, strict=True)]
            self._seen.extend(zip(group, self._model.prompts(patches), strict=True))
        except torch.OutOfMemoryError as error:
            self._no_memory()
            if len(group) == 1:
                return self._alone(group[0], error)
            self._vision_pages = max(1, len(group) // 2)
        except Exception as error:
            if len(group) == 1:
                return [Ended(group[0], error)]
        else:
            return []
        middle = len(group) // 2
        return self._look(group[:middle]) + self._look(group[middle:])

    def _alone(self, reading: Reading, error: Exception) -> list[Ended]:
        """One page finds no memory: it waits until a row has ended, or the cache goes, or else it ends here."""
        if not self._rows and self._cache is None:
            return [Ended(reading, error)]
        if self._rows:
            self._hold = len(self._rows)
        else:
            self._cache = None
            self._stepper.forget_graphs()
        self._waiting.appendleft(reading)
        return []

    # reading prompts

    def _limit(self) -> int:
        """Slots that may be used if the next page is added to those in use."""
        lengths = [len(self._seen[0][1]), *(row.num_prompt for row in self._rows)]
        return min(self._hold, *(self.ceiling(length) for length in lengths))

    def _next_group(self) -> list[_Looked]:
        """Pages of like length for the free slots, in the order in which they wait."""
        free = self._limit() - len(self._rows)
        group = [self._seen.popleft()]
        while self._seen and len(group) < free:
            lengths = [len(prompt) for _, prompt in (*group, self._seen[0])]
            if min(lengths) < LIKE_LENGTH * max(lengths):
                break
            group.append(self._seen.popleft())
        return group

    def _read(self, group: Sequence[_Looked]) -> list[Ended]:
        """Prompts into slots, and the first token of each answer."""
        most = self._model.decoder.max_positions - 1
        if long := [reading for reading, prompt in group if len(prompt) > most]:
            self._seen.extendleft(reversed([item for item in group if len(item[1]) <= most]))
            problem = f"the page takes more tokens than the model has positions ({most + 1:,}): lower --max-page-pixels"
            return [Ended(reading, ValueError(problem)) for reading in long]
        try:
            return self._admit(group)
        except torch.OutOfMemoryError as error:
            self._no_memory()
            fewer = len(self._rows) + len(group) // 2
            if len(group) == 1:
                return self._alone(group[0][0], error)
            for _, prompt in group:
                self._lower(len(prompt), fewer)
            self._seen.extendleft(reversed(group))
            return []

    def _admit(self, group: Sequence[_Looked]) -> list[Ended]:
        decoder, first = self._model.decoder, len(self._rows)
        prompts = [prompt for _, prompt in group]
        longest = max(map(len, prompts))
        cache = self._room(longest + min(group[0][0].decoding.max_new_tokens, GROWTH_TOKENS), len(group))
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
        for row, *written in zip(
            rows, chosen.tokens.tolist(), chosen.logprobs.tolist(), chosen.finite.tolist(), strict=True
        ):
            row.add(*written, self._model.ends)
        self._rows += rows
        self._hold = self._pace.num_slots
        return self._leave()

    def _room(self, tokens: int, num_more: int = 0) -> KeyValueCache:
        """The cache, with room for sequences of so many tokens and for more rows."""
        tokens = rounded_up(tokens, CAPACITY_STEP)
        wanted = len(self._rows) + num_more
        if self._cache is None:
            shape, slots = self._model.decoder.cache_shape, self._limit_of(tokens, wanted)
            self._cache = KeyValueCache(shape, num_slots=slots, capacity=tokens, device=self._model.device)
        elif tokens > self._cache.capacity or wanted > self._cache.num_slots:
            longest = max([tokens, *(rounded_up(row.position + CAPACITY_STEP, CAPACITY_STEP) for row in self._rows)])
            self._stepper.forget_graphs()
            self._cache.resize(num_slots=self._limit_of(longest, wanted), capacity=longest)
        return self._cache

    def _limit_of(self, tokens: int, wanted: int) -> int:
        return max(wanted, self.ceiling(max(1, tokens - GROWTH_TOKENS)))

    # writing answers

    def _make_steps(self) -> list[Ended]:
        """The next tokens of every row."""
        num_rows, steps = len(self._rows), self._pace.steps_per_look
        highest = max(row.position for row in self._rows)
        try:
            cache = self._cache
            if cache is None or highest + steps + 1 > cache.capacity:
                cache = self._room(highest + 1 + max(steps, GROWTH_TOKENS))
            written = self._stepper.run(cache, num_rows=num_rows, highest=highest, num_steps=steps)
        except torch.OutOfMemoryError as error:
            self._no_memory()
            return self._give_up_half(error)
        for tokens, logprobs, finite in zip(written.tokens, written.logprobs, written.finite, strict=True):
            going = [row for row in self._rows if row.finish is None]
            self.clock.slots += self._pace.num_slots
            self.clock.idle += self._pace.num_slots - len(going)
            for row, *one in zip(self._rows, tokens, logprobs, finite, strict=True):
                if row.finish is None:
                    row.add(*one, self._model.ends)
        return self._leave()

    def _leave(self) -> list[Ended]:
        """Rows that do not go on leave their slots, each to the last row."""
        ended = []
        for slot in reversed(range(len(self._rows))):
            row = self._rows[slot]
            if row.finish is None:
                continue
            ended.append(row.ended())
            last = self._rows.pop()
            if last is not row:
                self._rows[slot] = last
                self._move(len(self._rows), slot, last.position)
            else:
                self._chooser.end(slot)
        return ended

    def _move(self, source: int, target: int, length: int) -> None:
        if self._cache is not None:
            self._cache.move(source, target, length)
        self._stepper.move(source, target)
        self._chooser.move(source, target)

    # memory

    def _no_memory(self) -> None:
        self.clock.oom_splits += 1
        if self._model.device.type == "cuda":
            torch.cuda.empty_cache()

    def _lower(self, num_tokens: int, slots: int) -> None:
        bucket = bucket_of(num_tokens)
        self._ceilings[bucket] = max(1, min(slots, self._ceilings.get(bucket, slots)))

    def _give_up_half(self, error: Exception) -> list[Ended]:
        """A step finds no memory: the younger half of the rows is read again later, and the cache becomes smaller."""
        if len(self._rows) == 1:
            row = self._rows.pop()
            self._cache = None
            self._stepper.forget_graphs()
            return [Ended(row.reading, error)]
        kept = len(self._rows) // 2
        for row in self._rows:
            self._lower(row.num_prompt, kept)
        self._waiting.extendleft(row.reading for row in reversed(self._rows[kept:]))
        for slot in range(kept, len(self._rows)):
            self._chooser.end(slot)
        del self._rows[kept:]
        self._stepper.forget_graphs()
        try:
            if self._cache is not None:
                self._cache.resize(num_slots=kept, capacity=self._cache.capacity)
        except torch.OutOfMemoryError:
            self._waiting.extendleft(row.reading for row in reversed(self._rows))
            self._rows.clear()
            self._cache = None
        return []
