"""Scratch: the temporary folder of one run; those that killed runs have left are removed by the next."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_PREFIX = "pagemill-"

_MAX_ROOT_BYTES = 24
"""A socket's path has at most 107 bytes; ours is /pagemill-XXXXXXXX/session_DATE_TIME_MICROSECONDS_PID/sockets/..."""


@dataclass(frozen=True, slots=True)
class Scratch:
    """A folder whose lock this process holds for as long as it lives, by which others know that it is in use."""

    folder: Path
    _lock: IO[bytes]

    @classmethod
    def make(cls) -> Scratch:
        """Sweep what killed runs have left, and make a new folder."""
        root = _root()
        for lock in Path(root).glob(f"{_PREFIX}*/lock"):
            with contextlib.suppress(OSError), _locked(lock.parent):
                shutil.rmtree(lock.parent, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
        return cls(folder, _locked(folder))

    def remove(self) -> None:
        """Remove the folder and all that is in it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()


def _root() -> str:
    """The folder for temporary files, or /tmp if its name is too long for the sockets that Ray makes deep below."""
    root = tempfile.gettempdir()
    return root if len(os.fsencode(root)) <= _MAX_ROOT_BYTES else "/tmp"  # noqa: S108 (mkdtemp makes the folder)


def _locked(folder: Path) -> IO[bytes]:
    """Hold the lock of a folder until the file is closed or this process ends; OSError if another holds it."""
    file = (folder / "lock").open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise
    return file
