"""Bench: an engine in a process of its own, which is given trials; what kills that process is survived here."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any

from pipeline.engines.engine import Engine
from pipeline.errors import EngineLostError
from pipeline.tuning.sheet import Sheet
from pipeline.tuning.trial import Trial
from pipeline.tuning.worker import Order, Read, Ready, Trouble, serve

KILLED_FOR_MEMORY = -int(signal.SIGKILL)
"""The kernel ends the largest process this way when memory is short; nothing else here does."""


class Bench:
    """Starts the process when it is needed, and again after it has died for memory."""

    def __init__(self, engine: type[Engine], options: Any, sheets: Sequence[Sheet], *, on_gpu: bool) -> None:
        self._engine, self._options, self._sheets, self._on_gpu = engine, options, sheets, on_gpu
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None
        self._order: Order | None = None
        self._loaded: Ready | None = None

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def start(self) -> None:
        """Begin to load the engine; `ready` waits for it."""
        context = multiprocessing.get_context("spawn")  # a fork would inherit threads and devices
        self._connection, theirs = context.Pipe()
        arguments = (theirs, self._engine, self._options, self._sheets, self._on_gpu)
        self._process = context.Process(target=serve, args=arguments, name="pagemill-tune", daemon=True)
        self._process.start()
        theirs.close()
        self._loaded = None

    def ready(self) -> Ready:
        """Wait until the engine has loaded.

        Raises:
            EngineLostError: it cannot be loaded, or its process died.
        """
        if self._process is None:
            self.start()
        if self._loaded is None:
            answer = self._answer()
            if not isinstance(answer, Ready):
                said = answer.text if isinstance(answer, Trouble) else f"its process died: {_how(answer)}"
                raise EngineLostError(f"engine {self._engine.name} cannot be loaded: {said}")
            self._loaded = answer
        return self._loaded

    def measure(self, order: Order) -> Read:
        """Carry out an order; an engine killed for memory gives a trial that says so.

        Raises:
            EngineLostError: the engine is broken, or died of something else.
        """
        self.begin(order)
        return self.end()

    def begin(self, order: Order) -> None:
        """Give an order; `end` waits for what comes of it."""
        self.ready()
        self._order = order
        try:
            if self._connection is not None:
                self._connection.send(order)
        except OSError:  # it died between two orders; `end` says of what
            return

    def end(self) -> Read:
        """What came of the order."""
        answer, order = self._answer(), self._order
        if isinstance(answer, Read):
            return answer
        self.close()
        if answer == KILLED_FOR_MEMORY and order is not None:
            return Read(Trial(order.ask, out_of_memory=True))
        said = answer.text if isinstance(answer, Trouble) else f"its process died: {_how(answer)}"
        size = order.ask.batch_size if order else 0
        raise EngineLostError(f"engine {self._engine.name} was lost in batches of {size}: {said}")

    def close(self) -> None:
        """End the process, if there is one."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._process = self._connection = None

    def _answer(self) -> Any:
        """What the process says, or the exit code it died with."""
        process, connection = self._process, self._connection
        if process is None or connection is None:
            raise EngineLostError(f"engine {self._engine.name} has no process")
        wait([connection, process.sentinel])
        try:
            if connection.poll():
                return connection.recv()
        except (EOFError, OSError):
            pass
        process.join()
        return process.exitcode


def _how(exit_code: Any) -> str:
    if isinstance(exit_code, int) and exit_code < 0:
        return signal.strsignal(-exit_code) or f"signal {-exit_code}"
    return f"exit code {exit_code}"
