"""The tree of exceptions: every one survives the way between processes, and ends with the right code."""

from __future__ import annotations

import pickle

import pytest

from pipeline import errors
from pipeline.errors import PageFault, PagemillError, UnfinishedError, UsageError


def _all_below(kind: type[PagemillError]) -> list[type[PagemillError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in _all_below(child))]


@pytest.mark.parametrize("kind", [k for k in _all_below(PagemillError) if k is not PageFault])
def test_every_error_survives_pickling(kind: type[PagemillError]):
    again = pickle.loads(pickle.dumps(kind("what to do next")))
    assert type(again) is kind
    assert str(again) == "what to do next"


def test_a_page_fault_survives_pickling_with_its_code():
    fault = pickle.loads(pickle.dumps(PageFault(errors.ErrorCode.ENCRYPTED, "a password is needed")))
    assert fault.code is errors.ErrorCode.ENCRYPTED
    assert str(fault) == "encrypted: a password is needed"


@pytest.mark.parametrize("kind", _all_below(UsageError))
def test_a_wrong_command_ends_with_2_and_is_not_worth_trying_again(kind: type[PagemillError]):
    assert kind.exit_code == 2
    assert not kind.retryable


@pytest.mark.parametrize("kind", _all_below(UnfinishedError))
def test_an_unfinished_run_ends_with_3_and_is_worth_trying_again(kind: type[PagemillError]):
    assert kind.exit_code == 3
    assert kind.retryable


def test_codes_of_failures_are_words_for_a_column():
    assert all(str(code).replace("_", "").isalpha() and str(code).islower() for code in errors.ErrorCode)
    assert not errors.RETRYABLE_CODES & errors.SKIPPED_CODES
