"""Repetition: whether a model writes the same over and over, told at once, and what to keep of what it wrote.

A tail counts as a loop when it is at least `MIN_TOKENS` long and at least `MIN_COPIES` of a unit of 1 to `MAX_UNIT`
tokens. Why these numbers:

* Documents repeat themselves too. Of what was tried (see the tests) the longest runs of one unit are 25 empty rows of
  a table, 675 tokens if every character were one and 325 if every word and every run of marks is one, as about in a
  real tokenizer; a column of 60 zeros in HTML, 660 of such tokens; 30 labels of 25 tokens, 750. Leaders of a table of
  contents and rows of underscores stay below 200 even with a token for each character.
* A loop does not end. Stopped at 768 tokens (2,048 for the longest units) it costs about as much as a page of text,
  instead of the 8,192 tokens of the limit.
* Stopping a document falsely loses text, stopping a loop late loses seconds, so the numbers lean to the late side.

What trips nevertheless is a page with more than 768 tokens of the same: a blank ledger with 40 rows of 12 cells. Its
rows are cut to one, which says as much. What is not found are loops that count (``1. item``, ``2. item``): no two
units of them are the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MAX_UNIT, MIN_TOKENS, MIN_COPIES = 256, 768, 8


class TailWatch:
    """Watches the answer to one page while it is written; some 5 microseconds a token.

    For every unit up to `max_unit` it knows how many tokens in a row were the same as the one a unit earlier.
    """

    def __init__(self, max_unit: int = MAX_UNIT, min_tokens: int = MIN_TOKENS, min_copies: int = MIN_COPIES) -> None:
        self._num_same: NDArray[np.int64] = np.zeros(max_unit, np.int64)
        self._needed = _lengths_needed(max_unit, min_tokens, min_copies) - np.arange(1, max_unit + 1)
        self._newest = 0
        self._ring: NDArray[np.int64] = np.full(2 * max_unit, -1, np.int64)
        """The last tokens, newest first from `_newest` on; all stand twice, so that they always stand in one piece."""

    def feed(self, token: int) -> bool:
        """Take the next token, an id of zero or more; whether the tail repeats now."""
        max_unit, newest = len(self._num_same), self._newest
        self._num_same += 1
        self._num_same *= self._ring[newest : newest + max_unit] == token
        self._newest = newest = (newest or max_unit) - 1
        self._ring[newest] = self._ring[newest + max_unit] = token
        return bool((self._num_same >= self._needed).any())


def cut_repeats(
    tokens: Sequence[int], max_unit: int = MAX_UNIT, min_tokens: int = MIN_TOKENS, min_copies: int = MIN_COPIES
) -> int:
    """How many tokens to keep so that of a tail that repeats only the first copy of the unit is left.

    The last copy may be incomplete. A tail that `TailWatch` would not have stopped is kept whole.
    """
    written = np.asarray(tokens, np.int64)
    needed = _lengths_needed(max_unit, min_tokens, min_copies)
    for unit in range(1, min(max_unit, len(written) // max(min_copies, 1)) + 1):
        differs = np.flatnonzero(written[unit:] != written[:-unit])
        start = int(differs[-1]) + 1 if len(differs) else 0
        if len(written) - start >= needed[unit - 1]:
            return start + unit
    return len(written)


def _lengths_needed(max_unit: int, min_tokens: int, min_copies: int) -> NDArray[np.int64]:
    """For units of 1 to `max_unit` tokens, how long a tail of copies is a loop."""
    return np.maximum(min_tokens, min_copies * np.arange(1, max_unit + 1))
