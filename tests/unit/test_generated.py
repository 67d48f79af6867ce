"""What a model wrote, and how sure it was of it."""

from __future__ import annotations

import math

import pytest

from pipeline.engines.generated import Generated
from pipeline.result import Finish


def test_an_answer_knows_its_mean_and_its_lowest_log_probability():
    written = Generated((4, 5), (-0.5, -1.5), Finish.STOP)
    assert (written.mean_logprob, written.min_logprob) == (-1.0, -1.5)


@pytest.mark.parametrize("logprobs", [(), (-1.0, math.nan), (-math.inf,)])
def test_an_answer_without_tokens_or_with_broken_numbers_knows_neither(logprobs: tuple[float, ...]):
    written = Generated(tuple(range(len(logprobs))), logprobs, Finish.STOP)
    assert written.mean_logprob is None
    assert written.min_logprob is None
