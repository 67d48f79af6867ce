"""Which tokens wrote which characters, and how sure the model was of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engines.certainty import Certainty, score_of, token_ends
from pipeline.engines.generated import Generated
from pipeline.result import Finish


def decode_bytes(tokens: Sequence[int]) -> str:
    """A byte-level vocabulary without merges: the hardest for the ends of tokens."""
    return bytes(tokens).decode("utf-8", errors="replace")


def decode_words(tokens: Sequence[int]) -> str:
    """A vocabulary of words that drops the space before the first, as SentencePiece does; 0 is a special token."""
    return "".join(f" w{token}" if token else "" for token in tokens).removeprefix(" ")


@given(st.text(max_size=30))
def test_every_character_ends_with_its_last_byte(text: str):
    ends = token_ends(decode_bytes, list(text.encode("utf-8", errors="ignore")))
    whole = text.encode("utf-8", errors="ignore").decode()
    expected = [i + (k == n) for i, c in enumerate(whole) for n in [len(c.encode())] for k in range(1, n + 1)]
    assert ends == expected


@given(st.lists(st.integers(0, 255), max_size=40))
def test_ends_rise_to_the_length_of_the_text_whatever_the_bytes(tokens: list[int]):
    ends = token_ends(decode_bytes, tokens)
    assert len(ends) == len(tokens)
    assert ends == sorted(ends)
    assert not tokens or ends[-1] == len(decode_bytes(tokens))


@given(st.lists(st.integers(0, 30), max_size=20))
def test_decoders_that_drop_a_space_are_heard_in_context(tokens: list[int]):
    assert token_ends(decode_words, tokens) == [len(decode_words(tokens[: i + 1])) for i in range(len(tokens))]


def test_the_work_grows_with_the_tokens_and_not_with_their_square():
    decoded = 0

    def decode(tokens: Sequence[int]) -> str:
        nonlocal decoded
        decoded += len(tokens)
        return decode_bytes(tokens)

    token_ends(decode, list("€ä".encode() * 800))
    assert decoded < 20 * 4000


def test_a_span_counts_the_tokens_that_have_a_part_in_it():
    sure = Certainty([2, 2, 3, 6], [-1.0, -2.0, -4.0, -8.0])
    assert sure.score(0, 1) == (math.exp(-1.0), -1.0)
    assert sure.score(2, 3) == (math.exp(-3.0), -4.0), "the first bytes of a character belong to it"
    assert sure.score(3, 6) == (math.exp(-8.0), -8.0)
    assert sure.score(0, 6) == (math.exp(-3.75), -8.0)


def test_the_first_bytes_of_the_first_character_count():
    assert Certainty([0, 1], [-1.0, -3.0]).score(0, 1) == (math.exp(-2.0), -3.0)


@pytest.mark.parametrize("span", [(2, 2), (3, 2), (9, 12)])
def test_a_span_without_tokens_has_no_score(span: tuple[int, int]):
    assert Certainty([2, 4], [-1.0, -1.0]).score(*span) == (None, None)


def test_numbers_that_are_not_finite_give_no_score():
    assert Certainty([1, 2], [-1.0, math.nan]).score(0, 2) == (None, None)


def test_the_certainty_of_an_answer_is_that_of_its_tokens():
    written = Generated(tuple("é".encode()), (-1.0, -2.0), Finish.STOP)
    assert Certainty.of(written, decode_bytes).score(0, 1) == (math.exp(-1.5), -2.0)


def test_a_score_is_from_zero_to_one():
    assert score_of(None) is None
    assert score_of(-800.0) == 0.0
    assert score_of(1e-9) == 1.0
