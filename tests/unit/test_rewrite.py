"""Parts put together: cut off after any step, no row is lost or doubled for good, and the next one finishes it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from pipeline.journal import Journal, finish_all, superseded
from pipeline.parquet import encode, merged, part_key, part_keys, read_part
from pipeline.store import Store
from pipeline.table import RunKeys, page_row
from pipeline.upkeep.retention import Retention
from pipeline.upkeep.rewrite import Upkeep

from .samples import KEYS, NOON, a_document, a_result

TODAY = date(2027, 1, 1)
COLUMNS = ("uri", "page_index", "run_id")
Rows = list[tuple[Any, ...]]


class Cut(Exception):
    """The process ends here."""


def _keys(run: int, hours: int = 0) -> RunKeys:
    return RunKeys(f"2026120{run}T120000.000000Z-ab", "f", NOON + timedelta(hours=hours), KEYS.engine)


def _fill(store: Store) -> None:
    """Three runs of one day, of one to four parts."""
    for run in range(3):
        for number in range(run + 2):
            result = a_result(number, uri=f"file:///{run}.pdf")
            rows = [page_row(_keys(run), result)]
            store.put_new(part_key("pages", _keys(run), number), encode("pages", rows))


def _rows(store: Store) -> Rows:
    keys = part_keys(store, "pages")
    left = [key for key in keys if key not in superseded(store, keys)]
    return [row for key in left for row in read_part(store, key, COLUMNS)]


def _tended(**options: Any) -> Upkeep:
    return Upkeep(**{"tables": ("pages",), "target_bytes": 1 << 20, "today": TODAY, **options})


def _carry_out(store: Store, upkeep: Upkeep, may_write: Callable[[], None] = lambda: None) -> None:
    upkeep.plan(store)
    upkeep.carry_out(store, "now", may_write)


@pytest.mark.parametrize("target", [1 << 20, 30_000])
def test_cut_off_after_any_step_the_rows_are_the_same_at_once_and_after_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: int
):
    steps = 0
    while True:
        store = Store.open(str(tmp_path / str(steps)))
        _fill(store)
        before, left = _rows(store), iter(range(steps))
        with monkeypatch.context() as patch:
            for name in ("put_new", "delete"):
                patch.setattr(Store, name, _cut(getattr(Store, name), left))
            try:
                _carry_out(store, _tended(target_bytes=target))
                is_through = True
            except Cut:
                is_through = False
        seen = {row for key in part_keys(store, "pages") for row in read_part(store, key, ("uri", "page_index"))}
        assert seen == {row[:2] for row in before}, "a reader sees every row at any moment"
        assert sorted(_rows(store)) == sorted(before)
        finish_all(store)
        _carry_out(store, _tended(target_bytes=target))
        found = [
            row for key in part_keys(store, "pages") for row in read_part(store, key, ("uri", "page_index", "run_id"))
        ]
        assert sorted(found) == sorted(before)
        assert [run_id for *_, run_id in found] == sorted(run_id for *_, run_id in before), "older runs first"
        assert Journal.read(store) == []
        if is_through:
            break
        steps += 1
    assert steps > 8


def _cut(step: Callable[..., Any], left: Any) -> Callable[..., Any]:
    def cut(*arguments: Any) -> Any:
        if next(left, None) is None:
            raise Cut
        return step(*arguments)

    return cut


def test_who_has_lost_the_output_writes_nothing_more(tmp_path: Path):
    store = Store.open(str(tmp_path))
    _fill(store)
    before = store.keys("pages")

    def lost() -> None:
        raise Cut

    with pytest.raises(Cut):
        _carry_out(store, _tended(), lost)
    assert store.keys("") == before


def test_only_old_dates_and_named_tables_are_put_together(tmp_path: Path):
    store = Store.open(str(tmp_path))
    _fill(store)
    upkeep = _tended(min_age_days=(TODAY - NOON.date()).days + 1)
    upkeep.plan(store)
    assert (upkeep.moves, upkeep.parts_before, upkeep.parts_after) == ([], 9, 9)
    upkeep = _tended(tables=("runs",))
    upkeep.plan(store)
    assert upkeep.moves == []
    upkeep = _tended(min_age_days=(TODAY - NOON.date()).days)
    upkeep.plan(store)
    assert (len(upkeep.moves), upkeep.parts_after) == (1, 1)


def test_what_an_earlier_version_wrote_gets_the_columns_of_now(tmp_path: Path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    store = Store.open(str(tmp_path))
    _fill(store)
    keys = store.keys("pages")
    table = pq.read_table(tmp_path / keys[0], partitioning=None).drop_columns(["mean_logprob", "min_logprob"])
    lines = pa.list_(
        pa.struct([("text", pa.large_string()), ("bbox", pa.list_(pa.float32())), ("score", pa.float32())])
    )
    values = pa.array([[{"text": "a", "bbox": [0.0, 0.0, 1.0, 1.0], "score": None}]], lines)
    older = table.set_column(table.schema.get_field_index("lines"), "lines", values)
    pq.write_table(older, tmp_path / keys[0])
    data = merged(store, "pages", keys[:2], {})
    assert data is not None
    (tmp_path / "whole.parquet").write_bytes(data)
    found = pq.read_table(tmp_path / "whole.parquet", partitioning=None).to_pylist()
    assert [row["mean_logprob"] for row in found] == [None, None]
    assert found[0]["lines"] == [{"text": "a", "bbox": [0.0, 0.0, 1.0, 1.0], "score": None, "min_logprob": None}]


def test_rows_are_dropped_by_their_numbers_and_an_empty_part_is_none(tmp_path: Path):
    store = Store.open(str(tmp_path))
    rows = [page_row(_keys(1), a_result(n)) for n in range(5)]
    key = part_key("pages", _keys(1), 0)
    store.put_new(key, encode("pages", rows, num_bytes=5 * (20 << 20)))  # a row group for each row
    data = merged(store, "pages", [key], {key: {0, 3}})
    assert data is not None
    store.put_new("pages/left.parquet", data)
    assert [index for (index,) in read_part(store, "pages/left.parquet", ["page_index"])] == [1, 2, 4]
    assert merged(store, "pages", [key], {key: range(5)}) is None


def test_dropped_rows_are_remembered_by_their_runs(tmp_path: Path):
    from pipeline.journal import trimmed_runs
    from pipeline.table import document_row

    store = Store.open(str(tmp_path))
    for run, code in ((1, "a" * 64), (2, "b" * 64)):
        document = a_document("file:///x", 1, code)
        row = page_row(_keys(run), a_result(uri="file:///x")) | {"document_id": code}
        store.put_new(part_key("pages", _keys(run), 0), encode("pages", [row]))
        told = document_row(_keys(run), document, {"ok": 1}, None)
        store.put_new(part_key("documents", _keys(run), 0), encode("documents", [told]))
    upkeep = _tended(tables=(), retention=Retention(superseded_days=3))
    _carry_out(store, upkeep)
    assert upkeep.rows_dropped == 2
    assert [run_id for *_, run_id in _rows(store)] == [_keys(2).run_id]
    assert trimmed_runs(store) == {_keys(1).run_id}
