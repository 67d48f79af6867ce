"""Guard: bounds on a process that decodes, which hold even inside native code that never returns to Python."""

from __future__ import annotations

import faulthandler
import os
import resource
from collections.abc import Iterable, Iterator
from typing import TypeVar

from pipeline.page import RasterLimits

_Item = TypeVar("_Item")


def guarded(items: Iterable[_Item], limits: RasterLimits) -> Iterator[_Item]:
    """The same items, but the process ends if one takes longer than a page may.

    The watchdog of `faulthandler` is a native thread: it needs no lock of the interpreter to end the process.
    """
    limit_memory(limits)
    iterator = iter(items)
    with open(os.devnull, "wb") as nowhere:
        while True:
            faulthandler.dump_traceback_later(limits.page_timeout_s, exit=True, file=nowhere)
            try:
                item = next(iterator)
            except StopIteration:
                return
            finally:
                faulthandler.cancel_dump_traceback_later()
            yield item


def limit_memory(limits: RasterLimits) -> None:
    """Let an allocation fail once this process holds more memory of its own than a rasterizer may.

    RLIMIT_DATA counts private memory and not what is mapped of Ray's object store (Linux 4.7 and newer).
    """
    if limits.memory_bytes:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        soft = limits.memory_bytes if hard == resource.RLIM_INFINITY else min(limits.memory_bytes, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
