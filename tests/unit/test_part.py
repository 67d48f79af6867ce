"""A part as an auditor sees it: its name, its columns, and the boxes on its pages."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import StorageError
from pipeline.parquet import encode, part_key
from pipeline.part import Part, PartName
from pipeline.table import SCHEMAS, Row, page_row

from .samples import KEYS, a_result

NAME = PartName.of_key(part_key("pages", KEYS, 0))
WIDTH_PX, HEIGHT_PX = 320, 320


def a_part(rows: Sequence[Row]) -> Part:
    assert NAME is not None
    return Part.decode(NAME, encode("pages", rows))


def a_row(*boxes: Sequence[float] | None) -> Row:
    lines = [{"text": "a", "bbox": box, "score": None} for box in boxes]
    return {**page_row(KEYS, a_result()), "lines": lines, "width_px": WIDTH_PX, "height_px": HEIGHT_PX}


@pytest.mark.parametrize("table", SCHEMAS)
@given(number=st.integers(0, 10**6))
def test_a_key_is_read_as_it_was_written(table: str, number: int):
    name = PartName.of_key(part_key(table, KEYS, number))
    assert name is not None
    assert (name.table, name.run_id, name.number) == (table, KEYS.run_id, number)
    assert name.key == part_key(table, KEYS, number)


@pytest.mark.parametrize(
    "key",
    [
        "pages/run_date=2024-02-29/run-00000.parquet#1",
        "pages/run_date=2024-02-29/run-0000.parquet",
        "pages/run_date=2024-02-29/run-000001.parquet",
        "pages/run_date=20240229/run-00000.parquet",
        "pages/run-00000.parquet",
        "texts/run_date=2024-02-29/run-00000.parquet",
        "pages/run_date=2024-02-29/deeper/run-00000.parquet",
    ],
)
def test_anything_else_is_the_name_of_no_part(key: str):
    assert PartName.of_key(key) is None


def test_a_part_that_was_written_here_has_the_columns_of_its_table_and_no_damage():
    part = a_part([a_row([0, 0, 5, 5]), page_row(KEYS, a_result())])
    assert (part.schema_difference(), part.damage(), part.num_rows) == (None, None, 2)
    assert part.has(SCHEMAS["pages"].names)
    assert part.has_value("text") == [True, True]
    assert list(part.rows(["uri", "page_index"])) == [("file:///a.pdf", 0)] * 2


def test_a_part_of_another_table_is_told_in_one_line():
    name = PartName.of_key(part_key("batches", KEYS, 0))
    assert name is not None
    part = Part.decode(name, encode("pages", [a_row()]))
    said = part.schema_difference()
    assert said is not None
    assert "\n" not in said
    assert "lacks bucket" in said
    assert "has uri besides" in said
    assert not part.has(["bucket"])


def test_bytes_that_are_no_parquet_are_refused():
    assert NAME is not None
    with pytest.raises(StorageError, match="damaged"):
        Part.decode(NAME, b"PAR1 torn")


numbers = st.floats(-400, 800, width=32) | st.sampled_from([0.0, 320.0, -8.0, 328.0, math.inf, -math.inf, math.nan])
boxes = st.none() | st.lists(numbers, min_size=3, max_size=5) | st.lists(numbers, min_size=4, max_size=4)


@given(st.lists(st.lists(boxes, max_size=4), max_size=6))
def test_the_rows_told_are_those_with_a_box_that_is_not_four_numbers_within_the_raster(
    pages: list[list[list[float] | None]],
):
    def is_within(box: list[float] | None) -> bool:
        return box is not None and len(box) == 4 and all(-8 <= value <= WIDTH_PX + 8 for value in box)

    expected = [number for number, page in enumerate(pages) if not all(map(is_within, page))]
    part = a_part([a_row(*page) for page in [*pages, []]])
    assert list(part.rows_with_boxes_outside(8.0)) == expected


def test_a_page_without_lines_or_without_lines_column_values_has_no_box_outside():
    assert list(a_part([page_row(KEYS, a_result())]).rows_with_boxes_outside(0.0)) == []
    assert list(a_part([{**a_row([0, 0, 1, 1]), "width_px": None}]).rows_with_boxes_outside(0.0)) == [0]
