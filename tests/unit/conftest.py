"""Guards of the unit tests: one that imports Ray, sleeps or opens a socket fails at once, and says so."""

from __future__ import annotations

import socket
import sys
import time
from importlib.abc import MetaPathFinder
from typing import Any, NoReturn

import pytest


class _NoRay(MetaPathFinder):
    """Stands before all other finders and refuses Ray, also to code that would live with an ImportError."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        if fullname.partition(".")[0] == "ray":
            pytest.fail("a unit test must not import ray: put it into tests/cluster")


class _NoSocket(socket.socket):
    def __init__(self, *args: Any, **options: Any) -> None:
        pytest.fail("a unit test must not open a socket")


def _no_sleep(_seconds: float) -> NoReturn:
    pytest.fail("a unit test must not sleep: give the code a clock")


@pytest.fixture(autouse=True)
def _no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    # Another folder's tests may have imported it in this process before.
    for name in [n for n in sys.modules if f"{n}.".startswith(("ray.", "pipeline.cluster."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_NoRay(), *sys.meta_path])


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", _no_sleep)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "socket", _NoSocket)
