"""The file of a night: a job file with tables for what happens around the run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, get_type_hints
from urllib.parse import urlsplit

from jobs.job_file import read_toml
from jobs.upkeep import KEEP_ALL, TARGET_MB, UpkeepOptions
from pipeline.config import JobConfig, from_mapping
from pipeline.errors import ConfigurationError
from pipeline.option import coerce, nearest
from pipeline.upkeep.retention import Retention


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """Whom to tell of a night that is over: a command, which gets the totals on stdin, or an address, or both.

    `webhook_env` names a variable of the environment that holds the address, for those with a secret in it. `when` is
    `always`, or `failure` for nights that do not end with 0.
    """

    command: tuple[str, ...] = ()
    webhook: str = ""
    webhook_env: str = ""
    timeout_s: float = 30.0
    attempts: int = 4
    when: str = "always"

    def __post_init__(self) -> None:
        if self.when not in ("always", "failure"):
            raise ConfigurationError(f"'when' must be 'always' or 'failure', not '{self.when}'")
        if self.webhook and self.webhook_env:
            raise ConfigurationError("'webhook' and 'webhook_env' are two ways to say the same: give one of them")
        if self.timeout_s <= 0 or self.attempts < 1:
            raise ConfigurationError("'timeout_s' must be more than 0 and 'attempts' at least 1")
        if self.webhook:
            _check_address(self.webhook)

    def address(self) -> str:
        """Where to send the totals; empty if nowhere.

        Raises:
            ConfigurationError: the variable that should hold it does not, or it is none.
        """
        address = os.environ.get(self.webhook_env, "") if self.webhook_env else self.webhook
        if self.webhook_env and not address:
            raise ConfigurationError(f"'webhook_env' names {self.webhook_env}, which is not set")
        if address:
            _check_address(address)
        return address


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """Whether and how small parts are put together after the run."""

    target_mb: int = TARGET_MB
    before_days: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retuning:
    """How often batch sizes are measured anew, and how long that may take."""

    every_days: int = 7
    minutes: float = 10.0

    def __post_init__(self) -> None:
        if self.every_days < 1:
            raise ConfigurationError("'every_days' must be at least 1")


_TABLES: dict[str, type[Any]] = {"hook": Hook, "compact": Compaction, "retention": Retention, "tune": Retuning}


@dataclass(frozen=True, slots=True)
class Night:
    """What is to be done: a run, and around it whatever has a table."""

    config: JobConfig
    hook: Hook | None = None
    compact: Compaction | None = None
    retention: Retention | None = None
    tune: Retuning | None = None

    @property
    def upkeep(self) -> UpkeepOptions | None:
        """What is to be done for the output after the run, if anything."""
        if self.compact is None and self.retention is None:
            return None
        compact = self.compact or Compaction()
        return UpkeepOptions(
            target_mb=compact.target_mb,
            min_age_days=compact.before_days,
            retention=self.retention or KEEP_ALL,
            merge=self.compact is not None,
        )


def read_night(path: str, flags: Mapping[str, Any]) -> Night:
    """Read a file; flags of a run, None where not given, beat its keys.

    With a time to stop at, and unless it is said otherwise, the oldest documents come first.

    Raises:
        ConfigurationError: it cannot be read, or holds an unknown key, table or value; one line that says which.
    """
    told = read_toml(path, "nightly file")
    try:
        tables = {name: _table(name, told.pop(name)) for name in _TABLES if name in told}
        for name in (name for name, value in told.items() if isinstance(value, dict)):
            raise ConfigurationError(f"unknown table [{name}]{nearest(name, list(_TABLES))}")
        values = {**from_mapping(told), **{key: value for key, value in flags.items() if value is not None}}
        if values.get("stop_at"):
            values.setdefault("order", "oldest")
        night = Night(JobConfig(**values), **tables)
        night.upkeep  # noqa: B018 (its values are checked as it is made)
        if night.hook is not None:
            night.hook.address()
    except ConfigurationError as error:
        raise ConfigurationError(f"nightly file {path}: {error}") from error
    return night


def _table(name: str, told: Any) -> Any:
    kind = _TABLES[name]
    if not isinstance(told, dict):
        raise ConfigurationError(f"'{name}' is a table: write [{name}]")
    hints = get_type_hints(kind)
    types = {item.name: hints[item.name] for item in fields(kind)}
    try:
        return kind(**{key: coerce(key, value, types) for key, value in told.items()})
    except ConfigurationError as error:
        raise ConfigurationError(f"[{name}] {error}") from error


def _check_address(address: str) -> None:
    try:
        parts = urlsplit(address)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError("the webhook is no http:// or https:// address")
