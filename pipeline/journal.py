"""Journal: parts that are being put in the place of others, written down first, so that the next one can finish it.

A move puts one new part and takes the old ones away at once. For that moment readers see rows twice, never a row too
few. Once the new part is there the move will be finished, by this process or by the next that holds the output.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.errors import StorageError
from pipeline.store import Store

FOLDER = "_compact"
"""Below the output; readers of tables pass over names that start with an underscore."""

_FORMAT = "pagemill moves 1"
_TRIMMED = f"{FOLDER}/trimmed"


@dataclass(frozen=True, slots=True)
class Move:
    """`new` takes the place of `old`, all of them keys; None if nothing is left of these."""

    old: tuple[str, ...]
    new: str | None

    def is_settled(self, keys: Collection[str]) -> bool:
        """Whether the old parts count no more, given what is there."""
        return self.new is None or self.new in keys


@dataclass(frozen=True, slots=True)
class Journal:
    """Moves under way, and where that is written."""

    key: str
    moves: tuple[Move, ...]

    @classmethod
    def begin(cls, store: Store, name: str, moves: Sequence[Move]) -> Journal:
        """Write down what is about to be done.

        Raises:
            StorageError: it could not be written.
        """
        journal = cls(f"{FOLDER}/{name}.json", tuple(moves))
        told = {"format": _FORMAT, "moves": [{"old": list(move.old), "new": move.new} for move in moves]}
        if not store.put_new(journal.key, json.dumps(told).encode()):
            raise StorageError(f"{journal.key} is there already")
        return journal

    @classmethod
    def read(cls, store: Store) -> list[Journal]:
        """All that is under way, or was when its process ended; oldest first.

        Raises:
            StorageError: one cannot be read, or is none.
        """
        return [cls._of(key, store.get(key)) for key in store.keys(FOLDER) if key.endswith(".json")]

    @classmethod
    def _of(cls, key: str, data: bytes) -> Journal:
        try:
            told: Any = json.loads(data)
            if told["format"] != _FORMAT:
                raise ValueError(f"its format is {told['format']}")
            return cls(key, tuple(Move(tuple(move["old"]), move["new"]) for move in told["moves"]))
        except (ValueError, TypeError, KeyError) as error:
            raise StorageError(f"{key} is damaged, or of another version: {error}") from error

    def finish(self, store: Store) -> int:
        """Take away the old parts of all moves whose new part is there, then the journal: how many parts went.

        What was not begun is dropped. To be called by who holds the output.

        Raises:
            StorageError: a part cannot be taken away; the journal stays.
        """
        tables = sorted({key.partition("/")[0] for move in self.moves for key in move.old})
        keys = {key for table in tables for key in store.keys(table)}
        old = [key for move in self.moves if move.is_settled(keys) for key in move.old if key in keys]
        for key in old:
            store.delete(key)
        left = {key for table in tables for key in store.keys(table)}.intersection(old)
        if left:
            raise StorageError(f"{min(left)} cannot be taken away; it was put into another part")
        store.delete(self.key)
        return len(old)


def finish_all(store: Store) -> int:
    """Finish what dead processes have left under way: how many parts went; raises as `Journal.finish` does."""
    return sum(journal.finish(store) for journal in Journal.read(store))


def superseded(store: Store, keys: Collection[str]) -> set[str]:
    """Those of these parts that count no more, since the part that takes their place is among them, too.

    Raises:
        StorageError: a journal cannot be read.
    """
    moves = [move for journal in Journal.read(store) for move in journal.moves]
    return {key for move in moves if move.is_settled(keys) for key in move.old}


def trimmed_runs(store: Store) -> frozenset[str]:
    """The runs of which rows were dropped on purpose, so that their totals say more than there is.

    Raises:
        StorageError: they cannot be listed.
    """
    return frozenset(key.rpartition("/")[2] for key in store.keys(_TRIMMED))


def note_trimmed(store: Store, run_ids: Iterable[str]) -> None:
    """Note that rows of these runs are about to be dropped; raises `StorageError`."""
    for run_id in run_ids:
        store.put_new(f"{_TRIMMED}/{run_id}", b"")
