"""A page while it is read: what was asked, and what has been written so far. No torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from pipeline.engines.generated import Decoding, Generated
from pipeline.engines.repetition import TailWatch
from pipeline.result import Finish


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """One reading of one page that is asked for.

    `pixels` are uint8, shape (height, width) or (height, width, 3); both sides are multiplied by `scale` first. `owner`
    is whatever the asker wants to know it by. An answer that `is_forced` has all the tokens it may have, whatever they
    are: for measurements.
    """

    owner: Any
    pixels: NDArray[Any]
    decoding: Decoding
    scale: float = 1.0
    is_forced: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Ended:
    """What came of a reading: an answer, or why there is none."""

    reading: Reading
    result: Generated | Exception


@dataclass(slots=True)
class Clock:
    """Seconds by phase, slots in steps that were made and how many of them stood empty, and halvings for memory."""

    vision_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    slots: int = 0
    idle: int = 0
    oom_splits: int = 0


@dataclass(slots=True, eq=False)
class Row:
    """A reading in a slot: `num_prompt` tokens were read, and at most `room` can be written."""

    reading: Reading
    num_prompt: int
    room: int
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish: Finish | None = None
    is_finite: bool = True
    _watch: TailWatch = field(default_factory=TailWatch)

    @property
    def position(self) -> int:
        """Where the last token written stands, which the model has not been shown yet."""
        return self.num_prompt + len(self.tokens) - 1

    def add(self, token: int, logprob: float, is_finite: bool, ends: frozenset[int]) -> None:
        """Take the next token; `finish` is set if the row does not go on."""
        if not is_finite:
            self.is_finite, self.finish = False, Finish.STOP
        elif token in ends and not self.reading.is_forced:
            self.finish = Finish.STOP
        else:
            self.tokens.append(token)
            self.logprobs.append(logprob)
            if not self.reading.is_forced and self._watch.feed(token):
                self.finish = Finish.REPETITION
            elif len(self.tokens) >= self.room:
                self.finish = Finish.LENGTH

    def ended(self) -> Ended:
        """What has been written, now that the row does not go on."""
        finish = self.finish or Finish.LENGTH
        return Ended(self.reading, Generated(tuple(self.tokens), tuple(self.logprobs), finish, self.is_finite))
