"""Continuous batching: when a row ends, the next page takes its slot, so that no slot waits for the longest answer."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice

import torch
from torch import Tensor

from pipeline.bucket import bucket_of
from pipeline.engines.hunyuan.model import PageModel, Prompt
from pipeline.engines.hunyuan.pixels import Uploader
from pipeline.engines.hunyuan.rows import Clock, Ended, Reading
from pipeline.engines.hunyuan.slots import Slots

LIKE_LENGTH = 0.8
"""Prompts are read together if the shortest has this share of the longest one's tokens."""


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


class ContinuousReader:
    """Reads pages as they are given. `advance` does the next piece of work and tells what has ended by it.

    When the device has no memory, what was tried is tried with fewer pages, and no more than fitted is tried again in
    its bucket for as long as the reader lives. A page that finds none although it is alone has the device to itself
    once, all else being put back; if that does not help, it ends with the error.
    """

    def __init__(self, model: PageModel, pace: Pace) -> None:
        self._model, self._pace, self.clock = model, pace, Clock()
        self._uploader = Uploader(model.device)
        self._ceilings: dict[int, int] = {}
        self._vision_pages = pace.vision_pages
        self.reset()

    def reset(self) -> None:
        """Forget all pages and give the cache back; what was learned of memory stays."""
        self._waiting: deque[Reading] = deque()
        self._sent: dict[Reading, Tensor] = {}
        self._seen: deque[tuple[Reading, Prompt]] = deque()
        self._slots = Slots(self._model, most=self._pace.num_slots, graphs=self._pace.graphs)
        self._hold = self._pace.num_slots
        self._solo: Reading | None = None

    def widen(self, pages: int) -> None:
        """Use so many slots from now on, and forget what was learned or reckoned of memory."""
        self._pace = replace(self._pace, num_slots=pages, fits=None)
        self._ceilings, self._vision_pages = {}, self._pace.vision_pages
        self.reset()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to do."""
        return not (self._waiting or self._seen or self._slots.rows)

    @property
    def owners(self) -> list[object]:
        """Whose pages are in slots now, one entry a page."""
        return [row.reading.owner for row in self._slots.rows]

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
        rows = self._slots.rows
        self._send_ahead()
        while (self._seen or self._waiting) and len(rows) < self._hold:
            self._release(ended)
            if self._solo in self._waiting and not rows:
                self._make_way()
            if not self._seen:
                with self._timed("vision_s"):
                    ended += self._look(self._next_to_look_at())
            elif len(rows) < self._limit():
                with self._timed("prefill_s"):
                    ended += self._read(self._next_group())
            else:
                break
        if rows:
            with self._timed("decode_s"):
                ended += self._write()
        self._release(ended)
        return ended

    def _send_ahead(self) -> None:
        """Pixels travel while others are written. What cannot be sent is told of when it is its turn."""
        with suppress(Exception):
            for reading in islice(self._waiting, self._pace.vision_pages if self._solo is None else 0):
                if reading not in self._sent:
                    self._sent[reading] = self._uploader.send(reading.pixels)

    def _next_to_look_at(self) -> list[Reading]:
        if self._solo is not None:
            self._waiting.remove(self._solo)
            return [self._solo]
        return [self._waiting.popleft() for _ in range(min(self._vision_pages, len(self._waiting)))]

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        setattr(self.clock, phase, getattr(self.clock, phase) + time.perf_counter() - started)

    def _look(self, group: list[Reading]) -> list[Ended]:
        """Pixels to prompts. What finds no memory waits, to go in halves; what fails otherwise goes so at once."""
        try:
            sent = [self._pixels(reading) for reading in group]
            scales = [reading.scale for reading in group]
            patches = [self._model.patches(pixels, scale) for pixels, scale in zip(sent, scales, strict=True)]
            self._seen.extend(zip(group, self._model.prompts(patches), strict=True))
            return []
        except torch.OutOfMemoryError as error:
            self._no_memory()
            if len(group) == 1:
                return self._alone(group[0], error)
            self._vision_pages = len(group) // 2
            self._waiting.extendleft(reversed(group))
            return []
        except Exception as error:
            if len(group) == 1:
                return [Ended(group[0], error)]
        middle = len(group) // 2
        return self._look(group[:middle]) + self._look(group[middle:])

    def _pixels(self, reading: Reading) -> Tensor:
        """The raster on the device, sent now if that was not done before."""
        sent = self._sent.pop(reading, None)
        sent = self._uploader.send(reading.pixels) if sent is None else sent
        self._uploader.wait(sent)
        return sent

    def _limit(self) -> int:
        """Slots that may be used if the next page is added to those in use."""
        lengths = [len(self._seen[0][1]), *(row.num_prompt for row in self._slots.rows)]
        return min(self._hold, *(self.ceiling(length) for length in lengths))

    def _next_group(self) -> list[tuple[Reading, Prompt]]:
        """Pages of like length for the free slots, in the order in which they wait."""
        free = self._limit() - len(self._slots.rows)
        group = [self._seen.popleft()]
        while self._seen and len(group) < free:
            lengths = [len(prompt) for _, prompt in (*group, self._seen[0])]
            if min(lengths) < LIKE_LENGTH * max(lengths):
                break
            group.append(self._seen.popleft())
        return group

    def _read(self, group: list[tuple[Reading, Prompt]]) -> list[Ended]:
        """Prompts into slots, and the first token of each answer."""
        most = self._model.decoder.max_positions - 1
        if long := [reading for reading, prompt in group if len(prompt) > most]:
            self._seen.extendleft(reversed([item for item in group if len(item[1]) <= most]))
            problem = f"the page takes more tokens than the model has positions ({most + 1:,}): lower --max-page-pixels"
            return [Ended(reading, ValueError(problem)) for reading in long]
        longest = max(len(prompt) for _, prompt in group)
        try:
            self._slots.admit(group, num_slots=min(self._hold, self.ceiling(longest)))
        except torch.OutOfMemoryError as error:
            self._no_memory()
            if len(group) == 1:
                return self._alone(group[0][0], error)
            self._lower([len(prompt) for _, prompt in group], len(self._slots.rows) + len(group) // 2)
            self._seen.extendleft(reversed(group))
            return []
        self._hold = self._pace.num_slots if self._solo is None else 1
        return self._slots.leave()

    def _write(self) -> list[Ended]:
        """The next tokens of every row. Without memory for that, the younger half starts again later."""
        rows = self._slots.rows
        try:
            num_going = self._slots.step(self._pace.steps_per_look)
        except torch.OutOfMemoryError as error:
            self._no_memory()
            kept = len(rows) // 2
            self._lower([row.num_prompt for row in rows], kept)
            given_up = self._slots.give_up(kept)
            if not kept:
                return self._alone(given_up[0], error)
            self._waiting.extendleft(reversed(given_up))
            return []
        self.clock.slots += len(num_going) * self._pace.num_slots
        self.clock.idle += sum(self._pace.num_slots - going for going in num_going)
        return self._slots.leave()

    # memory

    def _alone(self, reading: Reading, error: Exception) -> list[Ended]:
        """One page finds no memory: it waits until a row has ended, then has the device to itself, or else ends."""
        if reading is self._solo:
            return [Ended(reading, error.with_traceback(None))]  # in its frames are tensors
        if self._slots.rows:
            self._hold = len(self._slots.rows)
        elif self._solo is None:
            self._solo = reading
        self._waiting.appendleft(reading)
        return []

    def _release(self, ended: Sequence[Ended]) -> None:
        """The page that had the device to itself has ended: others may come again."""
        if any(one.reading is self._solo for one in ended):
            self._solo, self._hold = None, self._pace.num_slots

    def _make_way(self) -> None:
        """All that holds memory but is no row goes back to where it waits."""
        self._waiting.extendleft(reading for reading, _ in reversed(self._seen))
        self._seen.clear()
        self._sent.clear()
        self._slots.drop_cache()
        self._hold = 1

    def _no_memory(self) -> None:
        self.clock.oom_splits += 1
        if self._model.device.type == "cuda":
            torch.cuda.empty_cache()

    def _lower(self, lengths: Sequence[int], slots: int) -> None:
        for bucket in map(bucket_of, lengths):
            self._ceilings[bucket] = max(1, min(slots, self._ceilings.get(bucket, slots)))
