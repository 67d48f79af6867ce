"""Laws of results: one line for a person, and failures told from faults."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import RETRYABLE_CODES, ErrorCode, PageFault
from pipeline.result import Failure, Stage, one_line

any_text = st.text(st.characters(), max_size=700)  # lone surrogates among them


@given(any_text, st.integers(1, 600))
def test_one_line_is_one_printable_line_within_the_limit(text: str, limit: int):
    line = one_line(text, limit)
    assert len(line) <= limit
    assert line.isprintable()
    assert line == line.strip()
    assert "  " not in line


@given(any_text)
def test_one_line_of_one_line_changes_nothing(text: str):
    assert one_line(one_line(text)) == one_line(text)


@given(st.text("ab ", max_size=500))
def test_one_line_loses_no_word_of_a_short_text(text: str):
    assert one_line(text).split() == text.split()


def test_a_text_that_was_cut_says_so():
    assert one_line("x" * 501) == "x" * 499 + "…"
    assert one_line("x" * 500) == "x" * 500


@pytest.mark.parametrize("code", list(ErrorCode))
def test_a_failure_is_retryable_if_its_code_is(code: ErrorCode):
    failure = Failure.of(Stage.RASTERIZE, PageFault(code, "one\ntwo"))
    assert failure == Failure(Stage.RASTERIZE, code, "one two")
    assert failure.retryable == (code in RETRYABLE_CODES)
