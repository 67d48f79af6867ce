"""A folder that tells of every file in it that is opened, made or changed, by whatever code: inotify, through libc."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

_OPEN, _MODIFY, _CREATE, _ACCESS = 0x20, 0x2, 0x100, 0x1
_HEAD = struct.Struct("iIII")


class Watched:
    """Watches one folder, not what lies deeper."""

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._queue: int = libc.inotify_init1(os.O_NONBLOCK)
        assert self._queue >= 0, os.strerror(ctypes.get_errno())
        mask = _OPEN | _MODIFY | _CREATE | _ACCESS
        assert libc.inotify_add_watch(self._queue, os.fsencode(folder), mask) >= 0, os.strerror(ctypes.get_errno())

    def touched(self) -> list[str]:
        """The names of files that something was done to since this was asked last."""
        try:
            data = os.read(self._queue, 1 << 16)
        except BlockingIOError:
            return []
        names, at = [], 0
        while at < len(data):
            _, _, _, length = _HEAD.unpack_from(data, at)
            at += _HEAD.size
            name = data[at : at + length].rstrip(b"\0").decode()
            at += length
            if name:
                names.append(name)
        return names

    def close(self) -> None:
        """Stop watching."""
        os.close(self._queue)
