"""Many files through one process that is started again when it dies, as Ray starts a worker again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from pipeline.page import RasterLimits

from .worker import LIMITS

ROOT = Path(__file__).resolve().parents[2]
ANSWER_S = 90.0
"""More than the limits of all the pages together: a process that is silent for so long hangs in spite of them."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was told of a file, and how the process ended that had it among others, if it did."""

    answer: dict[str, Any]
    died: str | None = None


@dataclass(slots=True)
class Examiner:
    """Asks a worker; what kills it is asked for again with each page in a process of its own, as a run does."""

    log: IO[bytes]
    limits: RasterLimits = LIMITS
    num_deaths: int = 0
    _worker: subprocess.Popen[str] | None = field(default=None)

    def examine(self, path: Path) -> Seen:
        """What became of the file.

        Raises:
            AssertionError: no answer, even with each page in a process of its own.
        """
        told = self._ask(path, alone=False)
        if isinstance(told, dict):
            return Seen(told)
        self.num_deaths += 1
        again = self._ask(path, alone=True)
        assert isinstance(again, dict), f"{path.name}: alone, too, {again}"
        return Seen(again, told)

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.kill()
            self._worker.communicate()
            self._worker = None

    def _ask(self, path: Path, *, alone: bool) -> dict[str, Any] | str:
        """The answer, or how the worker ended."""
        worker = self._worker or self._start()
        self._worker = worker
        assert worker.stdin is not None
        assert worker.stdout is not None
        asked = {"path": str(path), "alone": alone, "limits": asdict(self.limits)}
        watchdog = threading.Timer(ANSWER_S, worker.kill)
        watchdog.start()
        try:
            worker.stdin.write(json.dumps(asked) + "\n")
            worker.stdin.flush()
            line = worker.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watchdog.cancel()
        if line.endswith("\n"):
            return dict(json.loads(line))
        self._worker = None
        worker.communicate()
        return f"the process ended with {worker.returncode}"

    def _start(self) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        words = [sys.executable, "-m", "tests.fuzz.worker"]
        return subprocess.Popen(
            words, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True
        )
