"""Scratch: the temporary folder of one run; those that killed runs have left are removed by the next."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_PREFIX = "pagemill-"


@dataclass(frozen=True, slots=True)
class Scratch:
    """A folder whose lock this process holds for as long as it lives, by which others know that it is in use."""

    folder: Path
    _lock: IO[bytes]

    @classmethod
    def make(cls) -> Scratch:
        """Sweep what killed runs have left, and make a new folder."""
        for lock in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/lock"):
            with contextlib.suppress(OSError), _locked(lock.parent):
                shutil.rmtree(lock.parent, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        return cls(folder, _locked(folder))

    def remove(self) -> None:
        """Remove the folder and all that is in it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()


def _locked(folder: Path) -> IO[bytes]:
    """Hold the lock of a folder until the file is closed or this process ends; OSError if another holds it."""
    file = (folder / "lock").open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise
    return file
