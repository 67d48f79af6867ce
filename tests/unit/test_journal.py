"""Moves of parts: whatever is cut off, the next one finishes it, and rows are never too few."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.errors import StorageError
from pipeline.journal import FOLDER, Journal, Move, finish_all, note_trimmed, superseded, trimmed_runs
from pipeline.store import Store

MOVES = (Move(("pages/a", "pages/b"), "pages/ab"), Move(("runs/c",), None), Move(("pages/d", "pages/e"), "pages/de"))
OLD = ("pages/a", "pages/b", "pages/d", "pages/e", "runs/c")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.open(str(tmp_path))
    for key in OLD:
        store.put_new(key, b"old")
    return store


def _keys(store: Store) -> list[str]:
    return [*store.keys("pages"), *store.keys("runs")]


def test_only_what_has_its_new_part_loses_the_old_ones(store: Store):
    Journal.begin(store, "x", MOVES)
    store.put_new("pages/ab", b"new")
    assert superseded(store, _keys(store)) == {"pages/a", "pages/b", "runs/c"}
    assert finish_all(store) == 3
    assert _keys(store) == ["pages/ab", "pages/d", "pages/e"]
    assert store.keys(FOLDER) == []
    assert superseded(store, _keys(store)) == set()
    assert finish_all(store) == 0


def test_a_move_that_is_cut_off_anywhere_is_finished_once_by_the_next(store: Store):
    journal = Journal.begin(store, "x", MOVES)
    for key in ("pages/ab", "pages/de"):
        store.put_new(key, b"new")
    store.delete("pages/a")
    assert finish_all(store) == 4
    assert _keys(store) == ["pages/ab", "pages/de"]
    assert journal.finish(store) == 0


def test_a_part_that_cannot_be_taken_away_keeps_the_journal(store: Store, monkeypatch: pytest.MonkeyPatch):
    Journal.begin(store, "x", MOVES)
    store.put_new("pages/ab", b"new")
    with monkeypatch.context() as patch:
        patch.setattr(Store, "delete", lambda self, key: None)
        with pytest.raises(StorageError, match="pages/a cannot be taken away; it was put into another part"):
            finish_all(store)
    assert superseded(store, _keys(store)) == {"pages/a", "pages/b", "runs/c"}
    assert finish_all(store) == 3


@pytest.mark.parametrize("data", [b"", b"[]", b'{"format": "moves 9", "moves": []}', b'{"format": 1}', b"\xff"])
def test_a_journal_that_is_none_is_told_in_one_line(store: Store, data: bytes):
    store.put_new(f"{FOLDER}/x.json", data)
    with pytest.raises(StorageError, match=r"_compact/x\.json is damaged, or of another version: [^\n]+$"):
        finish_all(store)


def test_two_journals_have_two_names(store: Store):
    Journal.begin(store, "x", ())
    with pytest.raises(StorageError, match="is there already"):
        Journal.begin(store, "x", ())
    assert json.loads(store.get(f"{FOLDER}/x.json"))["moves"] == []


def test_runs_of_which_rows_were_dropped_are_remembered(store: Store):
    assert trimmed_runs(store) == frozenset()
    note_trimmed(store, ["r1", "r2"])
    note_trimmed(store, ["r2"])
    assert trimmed_runs(store) == {"r1", "r2"}
    assert Journal.read(store) == []
