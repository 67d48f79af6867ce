"""Parquet: tables as files, written and read; the only pyarrow.parquet import.

Files are Hive-partitioned by ``run_date`` alone: the column is in the path and not in the file, so that
DuckDB, Polars, pandas, Spark and Arrow all agree about it. ``run_id`` is in the rows and in the file names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.errors import StorageError
from pipeline.result import one_line
from pipeline.store import Store
from pipeline.table import PAGES, SCHEMAS, Row, RunKeys

ROW_GROUP_BYTES = 32 << 20
"""Aim for row groups of this size before compression: large enough to scan fast, small enough to skip."""

_WRITING = {"compression": "zstd", "use_dictionary": True, "write_page_index": True, "write_page_checksum": True}


def encode(table: str, rows: Sequence[Row], num_bytes: int | None = None) -> bytes:
    """Rows as one Parquet file in memory, zstd, with row groups of about `ROW_GROUP_BYTES`.

    Args:
        table: A key of `SCHEMAS`.
        rows: At least one.
        num_bytes: What the rows hold, if known; otherwise Arrow is asked.
    """
    data = pa.Table.from_pylist(list(rows), schema=SCHEMAS[table])
    per_row = max(1, (num_bytes or data.nbytes) // len(rows))
    sink = pa.BufferOutputStream()
    pq.write_table(
        data,
        sink,
        row_group_size=max(1, ROW_GROUP_BYTES // per_row),
        **_WRITING,
    )
    return bytes(sink.getvalue())


def merged(store: Store, table: str, keys: Sequence[str], dropped: Mapping[str, Collection[int]]) -> bytes | None:
    """Parts as one Parquet file in memory, rows in their order and without those `dropped` (numbers by key).

    Columns are those of the table as it is now. One row group of a part is decoded at a time beside the file itself.

    Returns:
        The file, or None if no row is left.

    Raises:
        StorageError: a part cannot be read, or is none of ours.
    """
    sink, num_rows = pa.BufferOutputStream(), 0
    with pq.ParquetWriter(sink, SCHEMAS[table], **_WRITING) as writer:
        for rows in _gathered(_kept(store, table, keys, dropped)):
            per_row = max(1, rows.nbytes // rows.num_rows)
            writer.write_table(rows, row_group_size=max(1, ROW_GROUP_BYTES // per_row))
            num_rows += rows.num_rows
    return bytes(sink.getvalue()) if num_rows else None


def _kept(store: Store, table: str, keys: Sequence[str], dropped: Mapping[str, Collection[int]]) -> Iterator[Any]:
    """What is left of parts, row group by row group, in the columns of now."""
    for key in keys:
        first, without = 0, frozenset(dropped.get(key, ()))
        with _opened(store, key) as file:
            names = [name for name in SCHEMAS[table].names if name in file.schema_arrow.names]
            for number in range(file.num_row_groups):
                rows = _groups(file, [number], names)
                numbers = range(first, first + rows.num_rows)
                first += rows.num_rows
                if without:
                    rows = rows.filter(pa.array([number not in without for number in numbers], pa.bool_()))
                yield _as_now(table, rows)


def _gathered(tables: Iterable[Any]) -> Iterator[Any]:
    """Rows put together until they are worth a row group."""
    some: list[Any] = []
    for rows in tables:
        some.append(rows)
        if sum(each.nbytes for each in some) >= ROW_GROUP_BYTES:
            yield pa.concat_tables(some)
            some = []
    if sum(each.num_rows for each in some):
        yield pa.concat_tables(some)


def _as_now(table: str, rows: Any) -> Any:
    """Rows of any version with the columns of this one; what was not written then is null."""
    columns = [
        rows.column(item.name).cast(item.type) if item.name in rows.column_names else pa.nulls(rows.num_rows, item.type)
        for item in SCHEMAS[table]
    ]
    return pa.table(columns, schema=SCHEMAS[table])


def part_key(table: str, keys: RunKeys, number: int) -> str:
    """Where the part of this number goes (zero-based): the same for the same run and number, always."""
    return f"{table}/run_date={keys.started_at:%Y-%m-%d}/{keys.run_id}-{number:05d}.parquet"


def part_keys(store: Store, table: str) -> list[str]:
    """The keys of all parts of a table, oldest run first.

    Raises:
        StorageError: the output cannot be listed.
    """
    return [key for key in store.keys(table) if key.endswith(".parquet")]


def read_part(store: Store, key: str, columns: Sequence[str]) -> Iterable[tuple[Any, ...]]:
    """The named columns of one part as tuples; nothing else of it is fetched or decoded.

    Raises:
        StorageError: the part cannot be read, or is none of ours.
    """
    with _opened(store, key) as file:
        found = _groups(file, list(range(file.num_row_groups)), columns)
    return zip(*(found.column(name).to_pylist() for name in columns), strict=True)


def read_columns(store: Store, table: str, columns: Sequence[str]) -> Iterator[Iterable[tuple[Any, ...]]]:
    """The named columns of a whole table, part by part, as tuples; raises as `read_part` does."""
    return (read_part(store, key, columns) for key in part_keys(store, table))


def rows_of_documents(store: Store, key: str, document_ids: Collection[str], config_fingerprint: str) -> Iterator[Row]:
    """The whole rows of some documents' pages in one part of `pages`, in their order; raises as `read_part` does.

    Only row groups that hold one of them are fetched whole. Rows of an earlier version lack what it did not write.
    """
    wanted = pa.array(sorted(document_ids), pa.string())
    with _opened(store, key) as file:
        names = [name for name in PAGES.names if name in file.schema_arrow.names]
        for number in range(file.num_row_groups):
            ids = _groups(file, [number], ["document_id"]).column("document_id")
            if pc.any(pc.is_in(ids, wanted)).as_py():
                group = _groups(file, [number], names)
                ours = pc.equal(group.column("config_fingerprint"), config_fingerprint)
                yield from group.filter(pc.and_(pc.is_in(ids, wanted), ours)).to_pylist()


def first_rows(store: Store, key: str, columns: Sequence[str]) -> list[Row]:
    """The rows of the first row group of one part, with the named columns; raises as `read_part` does."""
    with _opened(store, key) as file:
        return list(_groups(file, [0][: file.num_row_groups], columns).to_pylist())


def decode(key: str, data: bytes) -> Any:
    """The bytes of a part as an Arrow table, with whatever columns it has.

    Raises:
        StorageError: they are damaged.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False, page_checksum_verification=True)
        return file.read_row_groups(list(range(file.num_row_groups)), use_threads=False)
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:  # ValueError: names that are not UTF-8
        raise StorageError(f"{key} is damaged, or no part of this table: {one_line(str(error))}") from error


@contextmanager
def _opened(store: Store, key: str) -> Iterator[Any]:
    """A part as a file of which ranges are fetched as they are asked for."""
    try:
        yield pq.ParquetFile(store.open_object(key), pre_buffer=False, page_checksum_verification=True)
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:  # ValueError: names that are not UTF-8
        raise StorageError(f"{key} is damaged, or no part of this table: {one_line(str(error))}") from error


def _groups(file: Any, numbers: list[int], columns: Sequence[str]) -> Any:
    """Row groups of a part, decoded in this thread alone.

    Arrow's pools let go of a file's bytes late; one that does so while the interpreter ends aborts the process.
    """
    return file.read_row_groups(numbers, columns=list(columns), use_threads=False).select(list(columns))
