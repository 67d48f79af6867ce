"""Rewrite: many parts to few, and without the rows that may go, so that a reader at any moment finds no row too few."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import groupby

from pipeline.errors import StorageError
from pipeline.journal import Journal, Move, note_trimmed
from pipeline.parquet import merged, part_keys, read_part
from pipeline.part import PartName
from pipeline.store import Store
from pipeline.table import SCHEMAS
from pipeline.upkeep.groups import SizedPart, groups, merged_name
from pipeline.upkeep.retention import Keeper, Retention, RowKey

_KEYS = ("uri", "document_id", "config_fingerprint", "run_id", "error_code")
_TELEMETRY = ("batches", "runs")


@dataclass(slots=True)
class Upkeep:
    """What was done, or what is to be done: `moves` by table, and rows that go, by the key of their part."""

    tables: Sequence[str]
    target_bytes: int
    today: date
    min_age_days: int = 0
    retention: Retention = field(default_factory=Retention)
    parts_before: int = 0
    parts_after: int = 0
    rows_dropped: int = 0
    moves: list[Move] = field(default_factory=list)
    trimmed: set[str] = field(default_factory=set)
    _dropped: dict[str, frozenset[int]] = field(default_factory=dict)
    _gone: set[str] = field(default_factory=set)

    def plan(self, store: Store) -> None:
        """Look at all parts, and decide which are put together and which rows go.

        Raises:
            StorageError: the output cannot be listed or read.
        """
        names = {table: [*filter(None, map(PartName.of_key, part_keys(store, table)))] for table in SCHEMAS}
        if self.retention.drops_documents:
            self._find_needless(store, names)
        self._find_old_telemetry(names)
        for table in SCHEMAS:
            self.parts_before += len(names[table])
            moves = list(self._moves(store, names[table], merge=table in self.tables))
            self.moves += moves
            self.parts_after += len(names[table]) - sum(len(move.old) - (move.new is not None) for move in moves)

    def _moves(self, store: Store, names: Sequence[PartName], *, merge: bool) -> Iterator[Move]:
        """The moves of one table: groups of parts of a date, then parts alone that lose rows or go altogether."""
        for run_date, of_date in groupby(names, lambda name: name.run_date):
            there = list(of_date)
            taken, placed = list(there), set[str]()
            left = [name for name in there if name.key not in self._gone]
            is_due = merge and len(left) > 1 and self._age(run_date) >= self.min_age_days
            found = groups(_sized(store, left), self.target_bytes) if is_due else iter(())
            for group in [*found, *((SizedPart(name, 0),) for name in left if name.key in self._dropped)]:
                old = tuple(part.name.key for part in group)
                if placed.isdisjoint(old):
                    placed.update(old)
                    new = merged_name(group, taken)
                    taken.append(new)
                    yield Move(old, new.key)
            if gone := tuple(name.key for name in there if name.key in self._gone):
                yield Move(gone, None)

    def carry_out(self, store: Store, name: str, may_write: Callable[[], None]) -> None:
        """Put new parts and take the old ones away, one move after the other.

        Args:
            store: The output, which this process holds.
            name: What the journal is to be called.
            may_write: Raises if somebody else holds the output by now.

        Raises:
            StorageError: something could not be read or written; what was begun is finished by whoever comes next.
        """
        if not self.moves:
            return
        may_write()
        note_trimmed(store, sorted(self.trimmed))
        journal = Journal.begin(store, name, self.moves)
        for move in self.moves:
            data = merged(store, move.new.partition("/")[0], move.old, self._dropped) if move.new else None
            may_write()
            if move.new is not None and (data is None or not store.put_new(move.new, data)):
                raise StorageError(f"{move.new} is there already, or nothing is left for it")
            for key in move.old:
                store.delete(key)
        journal.finish(store)

    # what may go

    def _find_old_telemetry(self, names: Mapping[str, Sequence[PartName]]) -> None:
        days = self.retention.telemetry_days
        newest = max((name.run_date for name in names["runs"]), default="")
        for table in _TELEMETRY if days is not None else ():
            for name in names[table]:
                if name.run_date < newest and self._age(name.run_date) > (days or 0):
                    self._gone.add(name.key)

    def _find_needless(self, store: Store, names: Mapping[str, Sequence[PartName]]) -> None:
        keeper = Keeper(self.retention, self.today.toordinal(), self._in_use(store, names["runs"]))
        tables = ("documents", "pages")
        for table in tables:
            for name in names[table]:
                for row in _rows(store, name):
                    keeper.note(row)
        for table in tables:
            for name in reversed(names[table]):
                rows = list(_rows(store, name))
                needless = [n for n in reversed(range(len(rows))) if keeper.is_needless(rows[n])]
                self._drop(name, needless, len(rows))
                if table == "pages":
                    self.trimmed.update(rows[n].run_id for n in needless)

    def _drop(self, name: PartName, needless: Collection[int], num_rows: int) -> None:
        self.rows_dropped += len(needless)
        if len(needless) == num_rows:
            self._gone.add(name.key)
        elif needless:
            self._dropped[name.key] = frozenset(needless)

    def _in_use(self, store: Store, names: Sequence[PartName]) -> set[str]:
        """The configurations of runs that are not older than superseded rows may be, and of the newest run."""
        days = self.retention.superseded_days or 0
        newest = names[-1:]
        late = [name for name in names if self._age(name.run_date) <= days]
        keys = {name.key for name in (*newest, *late)}
        return {fingerprint for key in sorted(keys) for (fingerprint,) in read_part(store, key, ["config_fingerprint"])}

    def _age(self, run_date: str) -> int:
        return (self.today - date.fromisoformat(run_date)).days


def _rows(store: Store, name: PartName) -> Iterator[RowKey]:
    """What the rows of a part of `pages` or `documents` say of themselves, in their order."""
    day = date.fromisoformat(name.run_date).toordinal()
    if name.table == "documents":
        for uri, document_id, fingerprint, run_id, code in read_part(store, name.key, _KEYS):
            yield RowKey(uri, document_id, fingerprint, run_id, day, code, is_document=True)
        return
    for uri, document_id, fingerprint, run_id, code, page_index in read_part(store, name.key, (*_KEYS, "page_index")):
        yield RowKey(uri, document_id, fingerprint, run_id, day, code, page_index)


def _sized(store: Store, names: Sequence[PartName]) -> Iterator[SizedPart]:
    for name in names:
        with store.open_object(name.key) as reader:
            yield SizedPart(name, reader.seek(0, 2))
