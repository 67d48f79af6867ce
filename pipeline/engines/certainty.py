"""Certainty: how sure a model was of a stretch of what it wrote, from the log-probabilities of its tokens. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from pipeline.engines.generated import Generated

MAX_TOKENS_A_CHARACTER = 4
"""UTF-8 takes up to four bytes for a character, and a byte is the least a token stands for."""

INCOMPLETE = "\ufffd"
"""What decoders give for bytes that are no character yet."""


def token_ends(decode: Callable[[Sequence[int]], str], tokens: Sequence[int]) -> list[int]:
    """Where in the decoded text each token ends, in characters; takes time in proportion to the tokens.

    A token that gives only a part of a character ends where that character begins; the token that completes it ends
    behind it. Each token is decoded after the few before it, so decoders that drop or join spaces are heard in context.

    Args:
        decode: Token ids to text.
        tokens: The ids of the whole answer.
    """
    ends: list[int] = []
    length = context = read = 0
    before = ""
    for index in range(len(tokens)):
        after = decode(tokens[context : index + 1])
        if not after.endswith(INCOMPLETE) or index + 1 - read >= MAX_TOKENS_A_CHARACTER:
            length += len(after) - len(before)
            latest = decode(tokens[read : index + 1])
            context, before = (read, latest) if latest else (context, after)
            read = index + 1
        ends.append(length)
    whole = len(decode(tokens)) if tokens else 0
    return [min(max(end, 0), whole) for end in ends[:-1]] + [whole] * bool(ends)


@dataclass(frozen=True, slots=True)
class Certainty:
    """For each token the natural log-probability and where it ends in the text, in characters, in rising order."""

    ends: Sequence[int]
    logprobs: Sequence[float]

    @classmethod
    def of(cls, generated: Generated, decode: Callable[[Sequence[int]], str]) -> Self:
        """That of an answer, the text of which is `decode` of its tokens."""
        return cls(token_ends(decode, generated.tokens), generated.logprobs)

    def score(self, start: int, end: int) -> tuple[float | None, float | None]:
        """The exponential of the mean log-probability over characters `start` to `end`, and the lowest one.

        Counts the tokens that have any part in these characters. Both are None if there are none, or if the model's
        numbers were not finite.
        """
        first = bisect_left(self.ends, start)
        if first < len(self.ends) and self.ends[first] == start and self._start(first) < start:
            first += 1
        found = self.logprobs[first : bisect_left(self.ends, end) + 1] if start < end else ()
        if not found or not all(map(math.isfinite, found)):
            return None, None
        return score_of(math.fsum(found) / len(found)), min(found)

    def _start(self, index: int) -> int:
        return self.ends[index - 1] if index else 0


def score_of(mean_logprob: float | None) -> float | None:
    """A mean log-probability as a confidence from 0 to 1; None if it is not known."""
    return None if mean_logprob is None else min(1.0, math.exp(mean_logprob))
