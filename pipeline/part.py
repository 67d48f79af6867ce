"""Part: one committed file of a table as an auditor looks at it: its name, schema, values, and boxes of lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.parquet import decode
from pipeline.result import one_line
from pipeline.table import EARLIER, SCHEMAS

_NAME = re.compile(r"([a-z]+)/run_date=(\d{4}-\d\d-\d\d)/([\w.-]+)-(\d{5,})\.parquet", re.ASCII)

_MERGED = "-compact"


@dataclass(frozen=True, slots=True, order=True)
class PartName:
    """What the key of a part says; parts sort as their keys do, which is by date, run and number."""

    table: str
    run_date: str
    run_id: str
    number: int

    @classmethod
    def of_key(cls, key: str) -> PartName | None:
        """Read a key as `pipeline.parquet.part_key` writes it; None for anything else."""
        match = _NAME.fullmatch(key)
        if match is None or match[1] not in SCHEMAS:
            return None
        name = cls(match[1], match[2], match[3], int(match[4]))
        return name if name.key == key else None

    @property
    def key(self) -> str:
        """Where the part lies."""
        return f"{self.table}/run_date={self.run_date}/{self.run_id}-{self.number:05d}.parquet"

    @property
    def is_merged(self) -> bool:
        """Whether the part was put together of others, maybe of several runs."""
        return self.run_id.endswith(_MERGED)

    @property
    def newest_run(self) -> str:
        """The run of its rows, or of the newest of them."""
        return self.run_id.removesuffix(_MERGED)

    @staticmethod
    def merged_run_id(newest_run: str) -> str:
        """What stands in the name of a merged part for a run: it sorts after all parts of that and before the next."""
        return newest_run + _MERGED


@dataclass(frozen=True, slots=True)
class Part:
    """A part, decoded whole."""

    name: PartName
    _data: Any

    @classmethod
    def decode(cls, name: PartName, data: bytes) -> Part:
        """Decode the bytes of a part.

        Raises:
            StorageError: they are damaged.
        """
        return cls(name, decode(name.key, data))

    @property
    def num_rows(self) -> int:
        """Rows of the part."""
        return int(self._data.num_rows)

    def of_run(self, run_id: str) -> Part:
        """Its rows of one run alone."""
        return Part(self.name, self._data.filter(pc.equal(self._data.column("run_id"), run_id)))

    def schema_difference(self) -> str | None:
        """How the columns differ from those of the table, now or earlier, in one line; None if they do not."""
        wanted, found = SCHEMAS[self.name.table], self._data.schema
        earlier = EARLIER.get(self.name.table, {})
        lacking = [name for name in wanted.names if name not in found.names]
        said = [f"lacks {name}" for name in lacking if earlier.get(name, wanted) is not None]
        said += [f"has {one_line(name)} besides" for name in found.names if name not in wanted.names]
        for name in wanted.names:
            kinds = found.field(name).type if found.names.count(name) == 1 else None
            if kinds is not None and kinds not in (wanted.field(name).type, earlier.get(name)):
                said.append(f"{name} is {kinds}, not {wanted.field(name).type}")
        if not said and found.names != [name for name in wanted.names if name not in lacking]:
            said.append("the columns stand in another order")
        return "; ".join(said) or None

    def has(self, columns: Sequence[str]) -> bool:
        """Whether each of these columns is there once, with the type that it has in the table or had earlier."""
        schema, wanted, earlier = self._data.schema, SCHEMAS[self.name.table], EARLIER.get(self.name.table, {})
        return all(
            schema.names.count(c) == 1 and schema.field(c).type in (wanted.field(c).type, earlier.get(c))
            for c in columns
        )

    def damage(self) -> str | None:
        """What Arrow finds wrong with the values (text that is not UTF-8, offsets out of range), if anything."""
        try:
            self._data.validate(full=True)
        except pa.ArrowException as error:
            return one_line(str(error))
        return None

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """The values of these columns, row by row."""
        return zip(*(self._data.column(name).to_pylist() for name in columns), strict=True)

    def has_value(self, column: str) -> list[bool]:
        """Whether each row has a value in a column, without making one of it."""
        return list(self._data.column(column).is_valid().to_pylist())

    def rows_with_boxes_outside(self, tolerance_px: float) -> Iterator[int]:
        """Numbers (zero-based) of the rows in which a line's box is not four finite numbers within the raster."""
        first = 0
        for batch in self._data.select(["lines", "width_px", "height_px"]).to_batches():
            for row in sorted(set(_rows_outside(batch, tolerance_px))):
                yield first + row
            first += batch.num_rows


def _rows_outside(batch: Any, tolerance_px: float) -> list[int]:
    lines = batch.column("lines")
    owners, boxes = pc.list_parent_indices(lines), pc.struct_field(lines.flatten(), "bbox")
    whole = pc.fill_null(pc.equal(pc.list_value_length(boxes), 4), False)
    bad: list[int] = pc.filter(owners, pc.invert(whole)).to_pylist()
    owners, boxes = pc.filter(owners, whole), pc.filter(boxes, whole)
    within = pa.scalar(True)
    for position in range(4):
        side = batch.column("width_px" if position % 2 == 0 else "height_px").take(owners)
        value = pc.cast(pc.list_element(boxes, position), pa.float64())
        limit = pc.add(pc.cast(side, pa.float64()), tolerance_px)
        within = pc.and_(within, pc.and_(pc.greater_equal(value, -tolerance_px), pc.less_equal(value, limit)))
    return bad + list(pc.filter(owners, pc.invert(pc.fill_null(within, False))).to_pylist())
