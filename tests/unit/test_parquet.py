"""The tables: what is encoded has the schema that was promised, and reads back as what was written."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pipeline.parquet
from pipeline.errors import ErrorCode, StorageError
from pipeline.parquet import encode, first_rows, part_key, read_columns, read_part
from pipeline.result import Finish, GpuUse, Line, PageResult, Recognition, Status
from pipeline.store import Store
from pipeline.table import PAGES, SCHEMAS, batch_row, clean, document_row, page_row

from .samples import KEYS, NOON, a_document, a_failure, a_page, a_report, a_result, a_sized_page

FAILED = PageResult(a_document(), a_page(), Status.FAILED, failure=a_failure())
UNOPENED = PageResult(a_document(page_count=None, document_id=None), None, Status.FAILED, failure=a_failure())
RUN = {
    "run_id": "r",
    "config_fingerprint": "f",
    "started_at": NOON,
    "finished_at": NOON,
    "outcome": "done",
    "config": "{}",
    "versions": "{}",
    "machine": "{}",
    "totals": "{}",
}
ROWS: dict[str, list[dict[str, Any]]] = {
    "pages": [page_row(KEYS, a_result())],
    "documents": [document_row(KEYS, a_document(), {"ok": 3}, None)],
    "batches": [batch_row(KEYS, a_report())],
    "runs": [RUN],
}


def _read(data: bytes) -> pa.Table:
    return pq.ParquetFile(pa.BufferReader(data)).read()


@pytest.mark.parametrize("table", SCHEMAS)
def test_a_file_has_the_schema_of_its_table(table: str):
    assert _read(encode(table, ROWS[table])).schema.equals(SCHEMAS[table])


@pytest.mark.parametrize("table", SCHEMAS)
def test_a_row_has_a_value_for_every_column_and_no_other(table: str):
    assert set(ROWS[table][0]) == set(SCHEMAS[table].names)


@pytest.mark.parametrize("table", SCHEMAS)
def test_columns_without_a_value_keep_their_type(table: str):
    optional = {field.name for field in SCHEMAS[table] if field.nullable}
    rows = [{name: None if name in optional else value for name, value in row.items()} for row in ROWS[table]]
    made = _read(encode(table, rows))
    assert made.schema.equals(SCHEMAS[table])
    assert all(made.column(name).null_count == 1 for name in optional)


@pytest.mark.parametrize("table", SCHEMAS)
def test_rows_read_back_as_they_were_written(table: str):
    (row,) = _read(encode(table, ROWS[table])).to_pylist()
    assert row == {name: list(v) if isinstance(v, tuple) else v for name, v in ROWS[table][0].items()}


def test_a_page_that_was_read_says_by_whom_and_where():
    lines = (Line("first", (0.0, 1.0, 2.0, 3.0), 0.5, -1.5), Line("second", (4.0, 5.0, 6.0, 7.0), None))
    result = replace(a_result(), recognition=Recognition("text", lines=lines, confidence=0.75, output_tokens=4))
    (row,) = _read(encode("pages", [page_row(KEYS, result)])).to_pylist()
    assert (row["engine"], row["model"], row["model_revision"], row["task"]) == ("fake", "m", "r", "name")
    assert (row["status"], row["text"], row["format"], row["output_tokens"]) == ("ok", "text", "text", 4)
    assert row["lines"] == [
        {"text": "first", "bbox": [0.0, 1.0, 2.0, 3.0], "score": 0.5, "min_logprob": -1.5},
        {"text": "second", "bbox": [4.0, 5.0, 6.0, 7.0], "score": None, "min_logprob": None},
    ]
    assert (row["width_px"], row["height_px"], row["length"]) == (320, 320, 100)


def test_a_page_that_failed_says_why_and_nothing_of_a_model():
    row = page_row(KEYS, FAILED)
    assert (row["status"], row["error_code"]) == ("failed", "broken_page")
    assert row["error_message"] == "made to fail: broken_page"
    assert row["engine"] is row["model"] is row["text"] is row["lines"] is row["width_px"] is None
    assert (row["page_index"], row["page_count"]) == (0, 1)


def test_a_page_that_the_engine_failed_on_names_the_engine():
    failed = replace(FAILED, failure=a_failure(ErrorCode.ENGINE_ERROR), sized=a_sized_page(), batch_id="b")
    assert page_row(KEYS, failed)["engine"] == "fake"


def test_an_unopened_document_has_neither_index_nor_count():
    row = page_row(KEYS, UNOPENED)
    assert row["page_index"] is row["page_count"] is row["document_id"] is None
    assert row["uri"] == "file:///a.pdf"


def test_a_complaint_of_the_renderer_stands_beside_the_text():
    sized = replace(a_sized_page(), warning="bad font")
    assert page_row(KEYS, replace(a_result(), sized=sized))["error_message"] == "bad font"


def test_what_a_model_that_writes_token_by_token_says_stands_in_the_row():
    sure = Recognition("text", confidence=0.5, mean_logprob=-0.75, min_logprob=-3.0, output_tokens=8192)
    cut = replace(sure, finish_reason=Finish.LENGTH, tries=3, note="read again in bf16")
    sized = replace(a_sized_page(), warning="bad font")
    result = replace(a_result(), status=cut.status, recognition=cut, sized=sized, attempts=2)
    (row,) = _read(encode("pages", [page_row(KEYS, result)])).to_pylist()
    assert (row["status"], row["finish_reason"], row["output_tokens"]) == ("truncated", "length", 8192)
    assert (row["confidence"], row["mean_logprob"], row["min_logprob"]) == (0.5, -0.75, -3.0)
    assert (row["attempts"], row["error_code"]) == (4, None)
    assert row["error_message"] == "bad font; read again in bf16"


def test_a_batch_tells_of_its_gpu_and_one_that_was_cut_short_of_what_was_told():
    row = batch_row(KEYS, replace(a_report(), gpu=GpuUse(1 << 33, 1 << 34, 0.5), oom_splits=3))
    assert (row["gpu_memory_allocated_bytes"], row["gpu_memory_reserved_bytes"]) == (1 << 33, 1 << 34)
    assert (row["gpu_utilization"], row["oom_splits"]) == (0.5, 3)
    pages = tuple(a_sized_page(index) for index in range(4))
    cut = replace(a_report(pages), node=None, device=None, actor=None, queue_s=None, num_told=3)
    (row,) = _read(encode("batches", [batch_row(KEYS, cut)])).to_pylist()
    assert (row["batch_size"], row["node"], row["pages_per_s"], row["length_sum"]) == (3, None, 6.0, 400)
    assert batch_row(KEYS, replace(cut, total_s=None))["pages_per_s"] is None


def test_a_document_counts_its_pages_by_status():
    row = document_row(KEYS, a_document(page_count=5), {"ok": 3, "failed": 2}, None)
    assert {name: n for name, n in row.items() if name.startswith("pages_") and n} == {"pages_ok": 3, "pages_failed": 2}


def test_a_batch_tells_its_padding_and_its_speed():
    row = batch_row(KEYS, a_report((a_sized_page(0, length=100), a_sized_page(1, length=90)), total_s=0.5))
    assert (row["batch_size"], row["length_min"], row["length_max"], row["length_sum"]) == (2, 90, 100, 190)
    assert (row["padded_tokens"], row["padding_ratio"]) == (10, 0.05)
    assert (row["pages_per_s"], row["tokens_per_s"]) == (4.0, 6.0)
    assert (row["queue_s"], row["decode_s"], row["prefill_s"]) == (0.25, 0.125, None)
    assert batch_row(KEYS, replace(a_report(), total_s=0.0))["pages_per_s"] > 0


any_text = st.text(st.characters(), max_size=60)  # lone surrogates among them


@given(any_text)
def test_cleaned_text_fits_a_column_and_cleaning_it_again_changes_nothing(text: str):
    cleaned = clean(text)
    assert "\0" not in cleaned
    assert cleaned.encode() is not None
    assert clean(cleaned) == cleaned
    assert pa.array([cleaned], pa.large_string()).to_pylist() == [cleaned]


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60))
def test_text_that_is_clean_stays_as_it_is(text: str):
    assert clean(text) == text


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\ud800b", "a\ufffdb"),
        ("\udc80", "\ufffd"),
        ("caf\xe9\ud83d", "caf\xe9\ufffd"),
        ("\ud83d\ude00", "\U0001f600"),
        ("\ufeffx\udfff", "\ufeffx\ufffd"),
        ("a\0b\0", "ab"),
    ],
)
def test_half_a_character_becomes_the_replacement_character_and_nuls_go(text: str, cleaned: str):
    assert clean(text) == cleaned


def test_dirty_text_is_cleaned_wherever_an_engine_can_put_it():
    lines = (Line("x\ud800\0", (0, 0, 1, 1), 1.0),)
    result = replace(a_result(), recognition=Recognition("t\ud800\0", lines=lines))
    failed = replace(FAILED, failure=replace(a_failure(), message="m\ud800\0"))
    read, not_read = _read(encode("pages", [page_row(KEYS, result), page_row(KEYS, failed)])).to_pylist()
    assert read["text"] == "t\ufffd"
    assert read["lines"][0]["text"] == "x\ufffd"
    assert not_read["error_message"] == "m\ufffd"


@settings(max_examples=25)
@given(st.integers(1, 300), st.integers(1, 2000))
def test_row_groups_are_bounded(num_rows: int, text_bytes: int):
    rows = [page_row(KEYS, a_result(0, "x" * text_bytes))] * num_rows
    limit = 20_000
    original, pipeline.parquet.ROW_GROUP_BYTES = pipeline.parquet.ROW_GROUP_BYTES, limit
    try:
        known = pq.ParquetFile(pa.BufferReader(encode("pages", rows, num_rows * text_bytes)))
        asked = pq.ParquetFile(pa.BufferReader(encode("pages", rows)))
    finally:
        pipeline.parquet.ROW_GROUP_BYTES = original
    for file in (known, asked):
        sizes = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
        assert sum(sizes) == num_rows
        assert max(sizes) * text_bytes <= max(limit, text_bytes)


@pytest.mark.parametrize("table", SCHEMAS)
def test_files_are_compressed_and_can_be_skipped_by_page(table: str):
    metadata = pq.ParquetFile(pa.BufferReader(encode(table, ROWS[table]))).metadata
    column = metadata.row_group(0).column(0)
    assert column.compression == "ZSTD"
    assert column.has_column_index


def test_a_part_is_named_by_its_run_and_number():
    key = part_key("pages", KEYS, 7)
    assert key == "pages/run_date=2024-02-29/20240229T120000Z-abc123-00007.parquet"
    assert part_key("pages", KEYS, 7) == key


def test_a_table_is_read_part_by_part_and_column_by_column(tmp_path: Path):
    store = Store.open(str(tmp_path))
    for number in range(2):
        rows = [page_row(KEYS, a_result(index, f"text {index}")) for index in range(3 * number, 3 * number + 3)]
        store.put_new(part_key("pages", KEYS, number), encode("pages", rows))
    store.put_new("pages/run_date=2024-02-29/_notes.txt", b"no part")
    parts = [list(part) for part in read_columns(store, "pages", ("page_index", "text"))]
    assert parts == [[(n, f"text {n}") for n in range(3)], [(n, f"text {n}") for n in range(3, 6)]]
    assert first_rows(store, part_key("pages", KEYS, 1), ["text"]) == [{"text": f"text {n}"} for n in range(3, 6)]
    assert list(read_columns(store, "batches", ("batch_id",))) == []


@pytest.mark.parametrize("damage", ["cut", "empty", "foreign", "rotten"])
def test_a_part_that_cannot_be_read_is_told_by_its_name(damage: str, tmp_path: Path):
    store, key = Store.open(str(tmp_path)), part_key("pages", KEYS, 0)
    data = encode("pages", [page_row(KEYS, a_result())])
    foreign = pa.BufferOutputStream()
    pq.write_table(pa.table({"x": [1]}), foreign)
    rotten = data[:4] + bytes(400) + data[404:]
    damaged = {"cut": data[:-9], "empty": b"", "foreign": bytes(foreign.getvalue()), "rotten": rotten}
    store.put_new(key, damaged[damage])
    with pytest.raises(StorageError, match=f"^{key} is damaged, or no part of this table: [^\n]+$"):
        list(read_columns(store, "pages", ["uri"]))
    with pytest.raises(StorageError, match="damaged"):
        first_rows(store, key, ["uri"])


def test_a_reader_that_knows_only_a_glob_finds_the_date_as_a_column(tmp_path: Path):
    store = Store.open(str(tmp_path))
    store.put_new(part_key("pages", KEYS, 0), encode("pages", ROWS["pages"]))
    table = ds.dataset(tmp_path / "pages", format="parquet", partitioning="hive").to_table(use_threads=False)
    assert str(table.column("run_date")[0]) == "2024-02-29"
    assert "run_date" not in SCHEMAS["pages"].names


def test_times_are_in_utc():
    row = page_row(KEYS, replace(a_result(), started_at=datetime(2024, 1, 1, tzinfo=UTC)))
    assert _read(encode("pages", [row])).column("started_at").type == pa.timestamp("us", tz="UTC")


def test_a_run_keeps_its_configuration_as_json():
    (row,) = _read(encode("runs", [{**RUN, "config": json.dumps({"dpi": 72.0})}])).to_pylist()
    assert json.loads(row["config"]) == {"dpi": 72.0}


def test_one_bit_that_has_turned_in_the_data_is_noticed(tmp_path: Path):
    store, columns = Store.open(str(tmp_path)), ("uri", "status")
    data = bytearray(encode("pages", [page_row(KEYS, a_result(index)) for index in range(50)]))
    column = pq.ParquetFile(pa.BufferReader(bytes(data))).metadata.row_group(0).column(PAGES.get_field_index("uri"))
    data[column.dictionary_page_offset + column.total_compressed_size // 2] ^= 1
    store.put_new("pages/a.parquet", bytes(data))
    with pytest.raises(StorageError, match=r"^pages/a\.parquet is damaged"):
        list(read_part(store, "pages/a.parquet", columns))
