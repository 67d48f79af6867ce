"""Claim: an output that this process holds, with the id of the run that goes into it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeline.journal import finish_all
from pipeline.lease import Lease
from pipeline.parquet import part_keys
from pipeline.part import PartName
from pipeline.store import Store
from pipeline.table import SCHEMAS

_STAMP = "%Y%m%dT%H%M%S.%f"
"""What a run id begins with, so that ids sort by age."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What `claimed` has got."""

    run_id: str
    started_at: datetime
    lease: Lease


@contextmanager
def claimed(store: Store, now: Callable[[], datetime]) -> Iterator[Claim]:
    """Hold an output, with all that a killed process has left in it swept up or finished.

    Raises:
        OutputInUseError: somebody else holds it.
        StorageError: it cannot be read or written.
    """
    started_at = _after_all(store, now())
    run_id = f"{started_at:{_STAMP}}Z-{secrets.token_hex(3)}"
    with Lease.acquire(store, run_id, now) as lease:
        store.sweep()
        finish_all(store)
        yield Claim(run_id, started_at, lease)


def _after_all(store: Store, now: datetime) -> datetime:
    """Now, or a moment after the newest run of an output: of two rows of a page that of the later run id counts.

    A clock that was set back, or that of another machine, would let old rows count.
    """
    for table in SCHEMAS:
        for name in filter(None, map(PartName.of_key, part_keys(store, table)[-1:])):
            with suppress(ValueError):
                then = datetime.strptime(f"{name.run_id[:22]}Z", f"{_STAMP}%z")
                now = max(now, then + timedelta(microseconds=1))
    return now
