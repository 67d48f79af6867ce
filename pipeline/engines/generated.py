"""What a model wrote for one page, token by token, and how it was asked to write. No torch here."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pipeline.result import Finish


@dataclass(frozen=True, slots=True)
class Decoding:
    """How to choose tokens: greedily, or at a `temperature` above zero with a fixed `seed`.

    `repetition_penalty` is that of transformers: what stands in the prompt or the answer already has its logit
    divided by it, or multiplied where that is negative.
    """

    max_new_tokens: int
    repetition_penalty: float = 1.0
    temperature: float = 0.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Generated:
    """The answer to one page. `tokens` are ids without the end token, `logprobs` the natural log-probability of each.

    Log-probabilities are the model's own, before penalty and temperature. `is_finite` is false if any logit of the
    page was infinite or not a number.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: Finish
    is_finite: bool = True

    @property
    def mean_logprob(self) -> float | None:
        """Mean over the tokens; None if there is none, or if the model's numbers were not finite."""
        return sum(self.logprobs) / len(self.logprobs) if self._is_known else None

    @property
    def min_logprob(self) -> float | None:
        """The lowest; None as above."""
        return min(self.logprobs) if self._is_known else None

    @property
    def _is_known(self) -> bool:
        return bool(self.logprobs) and all(map(math.isfinite, self.logprobs))
