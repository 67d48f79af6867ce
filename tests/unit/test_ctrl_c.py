"""Ctrl-C while batch sizes are measured: heeded at once, and also where the exception of it is lost."""

from __future__ import annotations

import signal

import pytest

from jobs.tune import heeding_ctrl_c


class Swallows:
    """Interrupted while it goes: Python says so on stderr and goes on."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def test_it_interrupts_at_once():
    with heeding_ctrl_c(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_that_was_lost_in_a_destructor_is_heeded_at_the_next_look():
    with heeding_ctrl_c() as check:
        check()
        Swallows()
        with pytest.raises(KeyboardInterrupt):
            check()


def test_afterwards_it_does_what_it_did_before():
    before = signal.getsignal(signal.SIGINT)
    with heeding_ctrl_c():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
