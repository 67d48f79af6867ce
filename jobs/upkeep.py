"""`pagemill compact`: many small parts of an output to few, and rows dropped that nobody needs any more."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pipeline.errors import ConfigurationError
from pipeline.journal import finish_all
from pipeline.lease import Lease
from pipeline.option import nearest
from pipeline.store import Store
from pipeline.table import SCHEMAS
from pipeline.upkeep.retention import Retention
from pipeline.upkeep.rewrite import Upkeep

TARGET_MB = 128

KEEP_ALL = Retention()


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepOptions:
    """What is asked for. `min_age_days` is the age of a run's date from which on its parts are put together."""

    tables: tuple[str, ...] = ()
    target_mb: int = TARGET_MB
    min_age_days: int = 0
    retention: Retention = KEEP_ALL
    merge: bool = True

    def __post_init__(self) -> None:
        for table in self.tables:
            if table not in SCHEMAS:
                raise ConfigurationError(f"there is no table '{table}'{nearest(table, list(SCHEMAS))}")
        for name, value, least in (
            ("--target-mb", self.target_mb, 1),
            ("--before", self.min_age_days, 0),
        ):
            if not least <= value < 1e9:
                raise ConfigurationError(f"{name} must be at least {least}, not {value}")


@dataclass(frozen=True, slots=True)
class UpkeepReport:
    """How many parts there were and are, how many rows went, and how many parts a dead process had left to be taken."""

    out: str
    parts_before: int
    parts_after: int
    rows_dropped: int
    parts_left_over: int
    seconds: float

    def as_json(self) -> str:
        """The report for a program to read."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    def as_text(self) -> str:
        """The report for a person to read."""
        lines = [f"output     {self.out}", f"parts      {self.parts_before} before, {self.parts_after} now"]
        if self.rows_dropped:
            lines.append(f"dropped    {self.rows_dropped} rows of pages and documents")
        if self.parts_left_over:
            lines.append(f"left over  {self.parts_left_over} parts of an interrupted compaction, taken away")
        return "\n".join([*lines, f"time       {self.seconds:.1f} s"])


def compact(out: str, told: UpkeepOptions) -> UpkeepReport:
    """Hold an output, and tend it.

    Raises:
        UsageError: there is no such folder.
        UnfinishedError: a run is under way there, or something could not be read or written.
    """
    store = Store.existing(out)
    now = datetime.now(UTC)
    name = f"{now:%Y%m%dT%H%M%S.%f}Z-compact-{secrets.token_hex(3)}"
    with Lease.acquire(store, name, lambda: datetime.now(UTC)) as lease:
        store.sweep()
        return tend(store, name, told, lease.check)


def tend(store: Store, name: str, told: UpkeepOptions, may_write: Callable[[], None]) -> UpkeepReport:
    """The same for who holds the output already."""
    started = time.monotonic()
    now = datetime.now(UTC)
    left_over = finish_all(store)
    upkeep = Upkeep(
        tables=_tables(told), target_bytes=told.target_mb << 20, today=now.date(),
        min_age_days=told.min_age_days, retention=told.retention,
    )  # fmt: skip
    upkeep.plan(store)
    upkeep.carry_out(store, name, may_write)
    return UpkeepReport(
        store.location, upkeep.parts_before, upkeep.parts_after, upkeep.rows_dropped, left_over,
        time.monotonic() - started,
    )  # fmt: skip


def _tables(told: UpkeepOptions) -> Sequence[str]:
    return (told.tables or tuple(SCHEMAS)) if told.merge else ()
