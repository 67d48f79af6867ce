"""The tree of exceptions: every one survives the way between processes, and ends with the right code."""

from __future__ import annotations

import errno
import pickle
import re

import pytest

from pipeline import errors
from pipeline.errors import (
    DeviceBusyError,
    DeviceOutOfMemoryError,
    EngineBrokenError,
    EngineLostError,
    MachineError,
    PageFault,
    PagemillError,
    StorageError,
    UnfinishedError,
    UsageError,
)


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


@pytest.mark.parametrize("held", [None, 0, 7])
def test_how_much_of_a_device_others_hold_survives_pickling(held: int | None):
    again = pickle.loads(pickle.dumps(DeviceOutOfMemoryError("no memory for 3 GiB", held)))
    assert (str(again), again.held_by_others_bytes) == ("no memory for 3 GiB", held)


class _SdkError(OSError):
    """Of an engine's own library."""


DOWN = EngineLostError("the endpoint is down")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (DOWN, EngineLostError),
        (StorageError("full"), StorageError),
        (DeviceOutOfMemoryError("no memory", 1), DeviceBusyError),
        (DeviceOutOfMemoryError("no memory", 0), None),
        (DeviceOutOfMemoryError("no memory"), None),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), EngineLostError),
        (ConnectionResetError("reset"), EngineLostError),
        (BrokenPipeError(), EngineLostError),
        (OSError(errno.EHOSTUNREACH, "no route"), EngineLostError),
        (TimeoutError(errno.ETIMEDOUT, "no answer to the first packet"), EngineLostError),
        (TimeoutError("the page took too long"), None),
        *((OSError(getattr(errno, n), "x"), MachineError) for n in ("ENOSPC", "EDQUOT", "EMFILE", "ENFILE", "ENOMEM")),
        (BlockingIOError(errno.EAGAIN, "no more processes"), MachineError),
        (_SdkError(errno.ENOSPC, "no space"), MachineError),
        (_SdkError("cannot identify image file"), None),
        (FileNotFoundError(errno.ENOENT, "gone"), None),
        (ModuleNotFoundError("No module named 'pymupdf'"), MachineError),
        (MemoryError("Unable to allocate 9 TiB"), None),
        (EngineBrokenError("device lost"), None),
        (PageFault(errors.ErrorCode.BROKEN_PAGE, "damaged"), None),
        (RuntimeError("anything else"), None),
        (ValueError(), None),
    ],
)
def test_what_says_nothing_about_a_page_ends_the_run_and_all_else_is_the_fault_of_the_page(
    error: Exception, kind: type[UnfinishedError] | None
):
    ending = errors.transient(error)
    assert type(ending) is (kind or type(None))
    assert ending is None or "\n" not in str(ending)


def test_an_error_that_ends_a_run_already_stays_what_it_is():
    assert errors.transient(DOWN) is DOWN


def test_an_ending_says_what_happened_and_what_to_do():
    ending = errors.transient(OSError(errno.ENOSPC, "No space left\non device"))
    assert str(ending) == (
        "a machine is short of disk, open files, processes or memory: free some and start again "
        "(OSError: [Errno 28] No space left)"
    )
    busy = errors.transient(DeviceOutOfMemoryError("tried to get 2 GiB", 3 << 30))
    assert "other processes hold 3.0 GiB: end them or wait for them, and start again" in str(busy)


def test_only_a_broken_engine_is_worth_another_process():
    assert EngineBrokenError.retryable
    assert not DeviceOutOfMemoryError.retryable


def test_the_tree_in_the_docstring_names_every_error():
    named = re.findall(r"^ *(?:[│├└─ ]+ )?(\w+(?:Error|Trouble|Fault))\b", errors.__doc__ or "", flags=re.MULTILINE)
    assert sorted(named) == sorted(kind.__name__ for kind in _all_below(PagemillError))
