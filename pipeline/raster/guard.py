"""Guard: bounds on a process that decodes, which hold even inside native code that never returns to Python."""

from __future__ import annotations

import faulthandler
import os
import resource
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TypeVar

from pipeline.page import RasterLimits

_Item = TypeVar("_Item")


@dataclass(slots=True)
class _Watch:
    """The watchdog of this process: how long an item may take, zero while nothing is watched."""

    timeout_s: float = 0.0
    file: IO[bytes] | None = None

    def begin(self, timeout_s: float, file: IO[bytes]) -> None:
        """Give the next item its time."""
        self.timeout_s, self.file = timeout_s, file
        faulthandler.dump_traceback_later(timeout_s, exit=True, file=file)

    def end(self) -> None:
        """Watch no more."""
        self.timeout_s, self.file = 0.0, None
        faulthandler.cancel_dump_traceback_later()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Time that does not count as a page's, such as that of fetching a document, which has bounds of its own.

        The watch begins anew afterwards.
        """
        if not self.timeout_s or self.file is None:
            yield
            return
        timeout_s, file = self.timeout_s, self.file
        self.end()
        try:
            yield
        finally:
            self.begin(timeout_s, file)


_watch = _Watch()
unwatched = _watch.paused


def guarded(items: Iterable[_Item], limits: RasterLimits) -> Iterator[_Item]:
    """The same items, but the process ends if one takes longer than a page may.

    The watchdog of `faulthandler` is a native thread: it needs no lock of the interpreter to end the process.
    """
    limit_memory(limits)
    iterator = iter(items)
    with open(os.devnull, "wb") as nowhere:
        while True:
            _watch.begin(limits.page_timeout_s, nowhere)
            try:
                item = next(iterator)
            except StopIteration:
                return
            finally:
                _watch.end()
            yield item


def limit_memory(limits: RasterLimits) -> None:
    """Let an allocation fail once this process holds more memory of its own than a rasterizer may.

    RLIMIT_DATA counts private memory and not what is mapped of Ray's object store (Linux 4.7 and newer).
    """
    if limits.memory_bytes:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        soft = limits.memory_bytes if hard == resource.RLIM_INFINITY else min(limits.memory_bytes, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
