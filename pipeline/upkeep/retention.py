"""Retention: which rows nobody needs any more, by age. Pure.

What the newest rows of a document that exists are is never in doubt: rows of its present content under the newest
configuration that has read it, or under any that still runs, stay, however old they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeline.census import digest
from pipeline.errors import ConfigurationError, ErrorCode

_DAYS = ("telemetry_days", "superseded_days", "vanished_days")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """After how many days rows are dropped; None keeps them.

    `telemetry_days` is for `batches` and `runs`, `superseded_days` for rows that newer ones have replaced,
    `vanished_days` for all rows of documents that have vanished.
    """

    telemetry_days: int | None = None
    superseded_days: int | None = None
    vanished_days: int | None = None

    def __post_init__(self) -> None:
        for name in _DAYS:
            days = getattr(self, name)
            if days is not None and (type(days) is not int or days < 1):
                raise ConfigurationError(
                    f"{name.replace('_', ' ')} to keep must be a whole number from 1, not {days!r}"
                )
        if self.telemetry_days is not None and self.telemetry_days < (self.superseded_days or 0):
            raise ConfigurationError(
                f"telemetry must be kept for the {self.superseded_days} days of superseded rows at least: by the runs"
                " of that time it is known which configurations are in use"
            )

    @property
    def is_anything(self) -> bool:
        """Whether any row may be dropped."""
        return any(getattr(self, name) is not None for name in _DAYS)

    @property
    def drops_documents(self) -> bool:
        """Whether rows of pages and documents may be dropped."""
        return self.superseded_days is not None or self.vanished_days is not None


@dataclass(frozen=True, slots=True)
class RowKey:
    """What a row of `pages` or `documents` tells of itself; `day` is that of its run, counted from any day."""

    uri: str
    document_id: str | None
    config_fingerprint: str
    run_id: str
    day: int
    error_code: str | None = None
    page_index: int | None = None
    is_document: bool = False


@dataclass(slots=True)
class _Standing:
    """A URI: its newest content that is finished, its newest of any rows, the newest run, and whether it is gone."""

    finished: tuple[str, str, str] | None = None  # run, content, configuration
    newest: tuple[str, str] | None = None  # run, content
    gone: tuple[str, int] | None = None  # run, day
    is_partial: bool = False  # some page was not asked for: rows of another configuration may be all there is of it


_UriKey = bytes
_StateKey = bytes


@dataclass(slots=True)
class Keeper:
    """Says of each row whether it may go. `in_use` are configurations of late, whose rows are not replaced by others'.

    To be told of all rows of `documents` and of `pages` by `note`, in any order; then asked by `is_needless`, rows
    from the newest to the oldest, those of `pages` and those of `documents` apart.
    """

    retention: Retention
    today: int
    in_use: set[str]
    _standings: dict[_UriKey, _Standing] = field(default_factory=dict)
    _newest: dict[_StateKey, tuple[str, int]] = field(default_factory=dict)
    _seen: dict[_StateKey, int] = field(default_factory=dict)

    def note(self, row: RowKey) -> None:
        """Take note of a row."""
        key, content = digest(row.uri), row.document_id or ""
        standing = self._standings.setdefault(key, _Standing())
        if row.error_code == ErrorCode.VANISHED and row.is_document:
            standing.gone = max(filter(None, (standing.gone, (row.run_id, row.day))))
            return
        standing.is_partial |= row.error_code == ErrorCode.NOT_SELECTED
        state, mine = _state(row), (row.run_id, row.day)
        self._newest[state] = max(self._newest.get(state, mine), mine)
        if not self._is_older(row.day, self.retention.superseded_days or 0):
            self.in_use.add(row.config_fingerprint)
        standing.newest = max(filter(None, (standing.newest, (row.run_id, content))))
        if row.is_document and row.document_id:
            finished = (row.run_id, row.document_id, row.config_fingerprint)
            standing.finished = max(filter(None, (standing.finished, finished)))

    def is_needless(self, row: RowKey) -> bool:
        """Whether a row may be dropped."""
        standing = self._standings[digest(row.uri)]
        if self._is_forgotten(standing):
            return True
        is_repeated = self._is_repeated(row)
        days = self.retention.superseded_days
        if days is None:
            return False
        if row.error_code == ErrorCode.VANISHED and row.is_document:
            newest = standing.newest[0] if standing.newest else ""
            return newest > row.run_id and self._is_older(row.day, days)
        if is_repeated:
            return self._is_older(row.day, days)
        run_id, day = self._newest[_state(row)]
        return self._is_older(day, days) and self._is_replaced(row, run_id, standing)

    def _is_forgotten(self, standing: _Standing) -> bool:
        """Whether a document has been gone for long enough."""
        days, gone = self.retention.vanished_days, standing.gone
        if days is None or gone is None or (standing.newest is not None and standing.newest[0] > gone[0]):
            return False
        return self._is_older(gone[1], days)

    def _is_repeated(self, row: RowKey) -> bool:
        """Whether a newer row tells of the same page, content and configuration, and not that nobody asked for it."""
        state = _state(row) if not row.is_document else _state(row) + b"d"
        bit = 1 if row.page_index is None else 2 << row.page_index
        seen = self._seen.get(state, 0)
        if row.error_code != ErrorCode.NOT_SELECTED:
            self._seen[state] = seen | bit
        return bool(seen & bit)

    def _is_replaced(self, row: RowKey, run_id: str, standing: _Standing) -> bool:
        """Whether another content, or the same under another configuration, was finished after the newest such row."""
        finished = standing.finished
        if finished is None or finished[0] <= run_id:
            return False
        _, content, fingerprint = finished
        if row.document_id == content:
            return not standing.is_partial and row.config_fingerprint not in {fingerprint, *self.in_use}
        return row.document_id is None or standing.newest is None or standing.newest[1] != row.document_id

    def _is_older(self, day: int, days: int) -> bool:
        return self.today - day > days


def _state(row: RowKey) -> _StateKey:
    return digest(row.uri, f"{row.document_id or ''} {row.config_fingerprint}")
