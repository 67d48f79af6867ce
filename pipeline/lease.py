"""Lease: one run at a time writes to an output, and what is left by a dead one can be taken over.

Each holder has an epoch, a number that only grows: claiming it is a create-only put, so two can never have the
same. The holder beats (overwrites a small object) every few seconds. Who finds the newest epoch neither released
nor beating claims the next one; a holder that was thought dead sees the newer epoch before its next commit.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType

from pipeline.errors import OutputInUseError, StorageError
from pipeline.listing import LEASE_FOLDER, LEASE_NAME
from pipeline.store import Store

BEAT_S = 10.0
DEAD_AFTER_S = 60.0
"""A holder on another machine counts as dead after this long without a beat; on this one its process is asked."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds an output: enough to tell a person, and to see on the same machine whether the process lives."""

    run_id: str
    host: str
    boot_id: str
    pid: int
    process_started: str
    since: str

    @classmethod
    def this_process(cls, run_id: str, now: datetime) -> Holder:
        """This process, from now on."""
        pid = os.getpid()
        return cls(run_id, socket.gethostname(), _boot_id(), pid, _process_started(pid), now.isoformat())

    def is_gone(self) -> bool:
        """Whether the process is surely dead: this machine, and no process with its number and birth."""
        here = self.host == socket.gethostname() and self.boot_id == _boot_id()
        rebooted = self.host == socket.gethostname() and self.boot_id != _boot_id()
        return rebooted or (here and _process_started(self.pid) != self.process_started)


@dataclass(slots=True)
class Lease:
    """Holds an output from `acquire` to the end of the `with` block."""

    store: Store
    epoch: int
    now: Callable[[], datetime]
    _stop: threading.Event
    _thread: threading.Thread | None = None

    @classmethod
    def acquire(cls, store: Store, run_id: str, now: Callable[[], datetime]) -> Lease:
        """Claim the output.

        Raises:
            OutputInUseError: a living run holds it; the message says which, since when, and where.
            StorageError: the output cannot be read or written.
        """
        while True:
            epochs = _epochs(store)
            if epochs:
                _must_be_free(store, epochs[-1], now())
            epoch = epochs[-1] + 1 if epochs else 1
            holder = Holder.this_process(run_id, now())
            if store.put_new(_key(epoch, "json"), json.dumps(asdict(holder)).encode()):
                for old in epochs:
                    _forget(store, old)
                return cls(store, epoch, now, threading.Event())

    def __enter__(self) -> Lease:
        self.beat()
        self._thread = threading.Thread(target=self._beat_on, name="pagemill-lease", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        try:
            self.store.put_new(_key(self.epoch, "released"), b"")
        except StorageError:
            return  # the next run finds a dead process, or waits for the beat to grow old

    def beat(self) -> None:
        """Say that this run is alive.

        Raises:
            StorageError: it could not be said.
        """
        self.store.put_over(_key(self.epoch, "alive"), self.now().isoformat().encode())

    def check(self) -> None:
        """Make sure that nobody has taken the output over, before something is committed to it.

        Raises:
            OutputInUseError: somebody has; this run must not commit any more.
            StorageError: the output cannot be read, or is not there any more.
        """
        epochs = _epochs(self.store)
        if epochs and epochs[-1] > self.epoch:
            raise OutputInUseError(
                f"another run has taken over {self.store.location}: this one was silent for too long"
            )
        if self.epoch not in epochs:
            raise StorageError(f"{self.store.location} was removed or moved away while this run wrote to it")

    def _beat_on(self) -> None:
        while not self._stop.wait(BEAT_S):
            try:
                self.beat()
            except StorageError:
                continue  # a commit will meet the same fault and say so


def writer(store: Store, now: datetime) -> Holder | None:
    """Who writes to an output at this moment, if anyone; only looks, and claims nothing.

    Raises:
        StorageError: the output cannot be read, or what is written of its holder is damaged.
    """
    epochs = _epochs(store)
    found = _living(store, epochs[-1], now) if epochs else None
    return found[0] if found else None


def _living(store: Store, epoch: int, now: datetime) -> tuple[Holder, timedelta] | None:
    """The holder of this epoch and how long it has been silent, unless it has released the output or is dead."""
    keys = set(store.keys(LEASE_FOLDER))
    if _key(epoch, "released") in keys:
        return None
    try:
        holder = Holder(**json.loads(store.get(_key(epoch, "json"))))
        silent = now - datetime.fromisoformat(holder.since)
    except (ValueError, TypeError) as error:
        raise StorageError(f"{LEASE_FOLDER} of {store.location} is damaged: {error}") from error
    if _key(epoch, "alive") in keys:
        with contextlib.suppress(ValueError, TypeError):  # a power cut may leave an empty file: beats are not synced
            silent = now - datetime.fromisoformat(store.get(_key(epoch, "alive")).decode())
    if holder.is_gone() or silent > timedelta(seconds=DEAD_AFTER_S):
        return None
    return holder, silent


def _must_be_free(store: Store, epoch: int, now: datetime) -> None:
    found = _living(store, epoch, now)
    if found is None:
        return
    holder, silent = found
    raise OutputInUseError(
        f"{store.location} is in use by run {holder.run_id} on {holder.host} (process {holder.pid}) since "
        f"{holder.since[:19]} UTC, last heard of {max(0.0, silent.total_seconds()):.0f} s ago"
    )


def _epochs(store: Store) -> list[int]:
    names = [key.rpartition("/")[2] for key in store.keys(LEASE_FOLDER)]
    return sorted(
        int(name.partition(".")[0]) for name in names if name.endswith(".json") and LEASE_NAME.fullmatch(name)
    )


def _forget(store: Store, epoch: int) -> None:
    for kind in ("json", "alive", "released"):
        store.delete(_key(epoch, kind))


def _key(epoch: int, kind: str) -> str:
    return f"{LEASE_FOLDER}/{epoch:08d}.{kind}"


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _process_started(pid: int) -> str:
    """When a process began, in ticks since the boot; empty if there is none of this number."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    state, *fields = text.rpartition(")")[2].split()
    return "" if state in "ZX" else fields[18]
