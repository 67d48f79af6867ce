"""An output of a real run has no fault; broken in any way it has that one, and verify says so and ends with 1."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.cli import main
from pipeline.lease import Lease
from pipeline.store import Store
from tests import documents

ROOT = Path(__file__).parents[2]
QUICK = ("--engine", "fake", "--runner", "local", "--progress", "none", *documents.EVERY_PAGE_READ)


@dataclass
class Place:
    """A folder of documents, an output of them, and the two commands."""

    folder: Path
    out: Path
    capsys: pytest.CaptureFixture[str]

    def ends(self, *arguments: str | Path) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(list(map(str, arguments)))
        printed = self.capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    def run(self, *options: str) -> None:
        code, _, said = self.ends("run", self.folder, self.out, *QUICK, *options)
        assert code in (0, 1), said

    def verdict(self, *arguments: str | Path) -> dict[str, Any]:
        code, printed, said = self.ends("verify", self.out, *arguments, "--json")
        verdict: dict[str, Any] = json.loads(printed)
        assert (code, said) == (verdict["exit_code"], "")
        assert code == (1 if verdict["faults"] else 0)
        return verdict

    def faults(self, *arguments: str | Path) -> dict[str, int]:
        found: dict[str, int] = self.verdict(*arguments)["faults_by_code"]
        return found

    def parts(self, table: str) -> list[Path]:
        return sorted(self.out.glob(f"{table}/*/*.parquet"))


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Place]:
    """17 rows of nine documents in several parts."""
    place = Place(documents.strangers_folder(tmp_path / "in"), tmp_path / "out", capsys)
    (tmp_path / "in" / "sub folder" / "a again.pdf").unlink()
    place.run("--commit-pages", "5", "--engine-option", "batch_size=3")
    yield place
    if place.out.exists():
        shutil.rmtree(place.out)


def rewrite(part: Path, alter: Callable[[pa.Table], pa.Table], to: Path | None = None) -> None:
    pq.write_table(alter(pq.read_table(part, partitioning=None)), to or part)


def with_value(table: pa.Table, column: str, row: int, value: Any) -> pa.Table:
    values = table.column(column).to_pylist()
    values[row] = value
    field = table.schema.field(column).with_nullable(True)
    return table.set_column(table.schema.get_field_index(column), field, pa.array(values, field.type))


def without_rows(table: pa.Table, *numbers: int) -> pa.Table:
    return table.take([number for number in range(table.num_rows) if number not in numbers])


def row_where(place: Place, table: str, column: str, wanted: Callable[[Any], bool]) -> tuple[Path, int]:
    """The first part of a table with such a row, and which row it is."""
    for part in place.parts(table):
        values = pq.read_table(part, partitioning=None).column(column).to_pylist()
        for number, value in enumerate(values):
            if wanted(value):
                return part, number
    raise AssertionError(f"no such {column} in {table}")


# all is well


def test_what_a_run_has_left_has_no_fault_and_verify_says_what_it_looked_at(place: Place):
    verdict = place.verdict()
    assert verdict["faults"] == verdict["notes"] == []
    assert (verdict["documents"], verdict["pages"], verdict["inputs"]) == (9, 12, 9)
    code, printed, _ = place.ends("verify", place.out, "--no-hash")
    assert code == 0
    assert "faults     none" in printed
    assert "9 with 12 pages" in printed
    assert "9 compared (by size and time of change only)" in printed


@pytest.mark.parametrize(
    "later",
    [
        [],
        ["--overwrite"],
        ["--retry-failed", "all"],
        ["--dpi", "50"],
        ["--engine-option", "fail_pages=1", "--overwrite"],
    ],
)
def test_whatever_a_later_run_was_told_its_rows_beside_the_older_ones_are_no_fault(later: list[str], place: Place):
    place.run("--engine-option", "fail_pages=0")
    place.run("--engine-option", "fail_pages=0", *later)
    documents.pdf(place.folder / "a.pdf", 7, width_pt=210)
    (place.folder / "d.tif").unlink()
    place.run(*later)
    verdict = place.verdict()
    assert verdict["faults"] == []
    assert verdict["finished_runs"] == 4
    assert verdict["notes"] == ["1 document of the output no longer where it was found"]


def test_a_run_with_pages_that_fail_in_every_way_has_no_fault(place: Place):
    place.run("--overwrite", "--engine-option", "fail_pages=1,2", "--engine-option", "drop_pages=0")
    assert place.faults() == {}


def test_the_same_bytes_under_several_names_are_no_fault(place: Place):
    for name in ("a.pdf", "locked.pdf", "c.png"):
        shutil.copy(place.folder / name, place.folder / f"again {name}")
    place.run()
    verdict = place.verdict()
    assert verdict["faults"] == []
    assert (verdict["documents"], verdict["pages"]) == (9 + 3, 12 + 5 + 1)


def test_inputs_that_are_named_are_compared_instead_of_those_of_the_newest_run(place: Place, tmp_path: Path):
    assert place.faults(place.folder / "a.pdf") == {}
    assert place.faults(documents.pdf(tmp_path / "other.pdf", 1)) == {"unread": 1}
    code, _, said = place.ends("verify", place.out, tmp_path / "nothing.pdf")
    assert (code, "no such file" in said) == (2, True)


def test_an_inbox_that_was_emptied_or_removed_is_a_note(place: Place):
    shutil.rmtree(place.folder)
    verdict = place.verdict()
    assert verdict["faults"] == []
    assert "no such file or folder" in verdict["notes"][0]
    assert verdict["notes"][1] == "9 documents of the output no longer where it was found"


def test_what_the_run_was_told_to_leave_out_is_not_asked_for(place: Place):
    documents.pdf(place.folder / "draft.pdf", 1)
    place.run("--exclude", "draft*")
    assert place.faults() == place.faults(place.folder) == {}


# inputs


def test_a_byte_that_was_changed_is_found(place: Place):
    path = place.folder / "a.pdf"
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    (fault,) = place.verdict()["faults"]
    assert (fault["code"], fault["remedy"]) == (
        "changed",
        "run the same command again, with --rehash if its time of change is the same",
    )
    assert fault["where"].endswith("/a.pdf")
    assert place.faults("--no-hash") == {}  # it reads no content, and says so


def test_without_hashes_another_size_or_time_is_found(place: Place):
    os.utime(place.folder / "a.pdf", (1, 1))
    with (place.folder / "c.png").open("ab") as file:
        file.write(b"more")
    assert place.faults("--no-hash") == {"changed": 2}
    assert place.faults() == {"changed": 1}


def test_an_input_that_was_added_is_unread(place: Place):
    documents.pdf(place.folder / "new.pdf", 1)
    (place.folder / "new.txt").write_text("a letter")
    assert place.faults() == place.faults("--no-hash") == {"unread": 2}
    place.run()
    assert place.faults() == {}


def test_an_input_that_was_removed_is_a_note(place: Place):
    (place.folder / "a.pdf").unlink()
    verdict = place.verdict()
    assert verdict["faults"] == []
    assert verdict["notes"] == ["1 document of the output no longer where it was found"]


def test_without_a_finished_run_the_inputs_are_unknown_unless_they_are_named(place: Place):
    shutil.rmtree(place.out / "runs")
    assert place.faults() == {"no_finished_run": 1}
    assert place.faults(place.folder) == {}


# parts


def test_a_part_of_pages_that_was_deleted_is_missed_and_so_are_its_documents(place: Place):
    place.parts("pages")[0].unlink()
    assert place.faults().keys() == {"missing_part", "lost_pages", "unread"}


def test_the_only_part_of_pages_is_missed_by_the_totals(place: Place, tmp_path: Path):
    place.out = tmp_path / "single"
    place.run()
    place.parts("pages")[0].unlink()
    assert place.faults() == {"run_totals": 3 + 1, "batch_size": 2, "lost_pages": 9, "unread": 9}


def test_a_part_of_documents_that_was_deleted_leaves_documents_without_a_row(place: Place):
    place.parts("documents")[-1].unlink()
    faults = place.verdict()["faults"]
    assert {fault["code"] for fault in faults} == {"no_document_row"}
    assert faults[0]["remedy"] == "run the same command again"


def test_a_part_that_is_there_twice_doubles_its_rows(place: Place):
    first, last = place.parts("pages")[0], place.parts("pages")[-1]
    number = int(last.stem.rpartition("-")[2]) + 1
    shutil.copy(first, last.with_name(f"{last.stem.rpartition('-')[0]}-{number:05d}.parquet"))
    found = place.faults()
    assert found["duplicate_row"] == pq.read_table(first, partitioning=None).num_rows
    assert found.keys() <= {"duplicate_row", "run_totals", "batch_size"}


@pytest.mark.parametrize("table", ["pages", "documents", "batches", "runs"])
@pytest.mark.parametrize("size", [0, 4, -9])
def test_a_part_that_was_cut_is_one_fault_and_the_audit_goes_on(table: str, size: int, place: Place):
    part = place.parts(table)[0]
    part.write_bytes(part.read_bytes()[:size])
    found = place.faults()
    follows = {"pages": {"lost_pages", "unread"}, "documents": {"no_document_row"}, "runs": {"no_finished_run"}}
    assert found["damaged_part"] == 1
    assert found.keys() == {"damaged_part"} | follows.get(table, set())


def test_what_a_damaged_part_asks_for_cures_it(place: Place):
    place.run("--overwrite", "--engine-option", "fail_pages=1", "--commit-pages", "5")
    failing = place.verdict()["finished_runs"]
    place.run("--retry-failed", "all", "--engine-option", "fail_pages=1", "--commit-pages", "5")
    part, _ = row_where(place, "pages", "error_code", lambda code: code == "engine_error")
    part.write_bytes(part.read_bytes()[:100])
    (fault,) = (fault for fault in place.verdict()["faults"] if fault["code"] == "damaged_part")
    assert fault["remedy"].startswith("delete OUT/*/*/RUN-*.parquet of this run, ")
    run_id = part.stem.rpartition("-")[0]
    for path in place.out.glob(f"*/*/{run_id}-*.parquet"):
        path.unlink()
    place.run("--engine-option", "fail_pages=1")
    verdict = place.verdict()
    assert verdict["faults"] == []
    assert verdict["finished_runs"] == failing + 1


@pytest.mark.parametrize(("table", "doomed"), [("batches", ["batches", "runs"]), ("runs", ["runs"])])
def test_a_damaged_part_of_the_figures_asks_for_no_page_to_be_read_again(table: str, doomed: list[str], place: Place):
    place.run("--dpi", "50")
    part = place.parts(table)[-1]
    part.write_bytes(b"PAR1")
    (fault,) = (fault for fault in place.verdict()["faults"] if fault["code"] == "damaged_part")
    assert "no page is read twice" in fault["remedy"]
    for name in doomed:
        for path in place.out.glob(f"{name}/*/{part.stem.rpartition('-')[0]}-*.parquet"):
            path.unlink()
    num_rows = sum(pq.read_metadata(path).num_rows for path in place.parts("pages"))
    place.run("--dpi", "50")
    assert place.verdict()["faults"] == []
    assert sum(pq.read_metadata(path).num_rows for path in place.parts("pages")) == num_rows


def test_a_byte_turned_in_a_part_never_ends_in_a_traceback(place: Place):
    part = place.parts("pages")[0]
    content = part.read_bytes()
    for position in range(4, len(content), max(1, len(content) // 60)):
        part.write_bytes(content[:position] + bytes([content[position] ^ 255]) + content[position + 1 :])
        code, _, said = place.ends("verify", place.out)
        assert (code in (0, 1), said) == (True, "")


@pytest.mark.parametrize(
    ("alter", "said"),
    [
        (lambda t: t.drop_columns(["confidence"]), "lacks confidence"),
        (lambda t: t.append_column("extra", pa.nulls(t.num_rows)), "has extra besides"),
        (
            lambda t: t.set_column(t.schema.get_field_index("dpi"), "dpi", t["dpi"].cast("double")),
            "dpi is double, not float",
        ),
    ],
)
def test_another_schema_is_told_by_its_difference(alter: Callable[[pa.Table], pa.Table], said: str, place: Place):
    rewrite(place.parts("pages")[0], alter)
    (fault,) = place.verdict()["faults"]
    assert (fault["code"], fault["message"]) == ("wrong_schema", said)


def test_runs_of_a_version_before_the_fingerprint_are_read_nevertheless(place: Place):
    rewrite(place.parts("runs")[0], lambda table: table.drop_columns(["config_fingerprint"]))
    assert place.faults() == {"wrong_schema": 1}


@pytest.mark.parametrize("name", ["pages/run_date=2024-02-29/x-00000.parquet#1", "documents/notes.txt", "runs/.hidden"])
def test_a_file_that_is_no_part_is_an_orphan(name: str, place: Place):
    path = place.out / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"torn")
    (fault,) = place.verdict()["faults"]
    assert (fault["code"], fault["where"]) == ("orphan_file", name)


def test_rows_of_another_run_in_a_part_are_told(place: Place):
    part = place.parts("documents")[0]
    rewrite(part, lambda table: with_value(table, "run_id", 0, "20240101T000000Z-000000"))
    assert place.faults() == {"wrong_run_id": 1}


# rows


def test_a_page_that_was_taken_out_is_missed_everywhere(place: Place):
    part, number = row_where(place, "pages", "page_index", lambda index: index is not None and index > 0)
    rewrite(part, lambda table: without_rows(table, number))
    assert place.faults() == {"run_totals": 2, "batch_size": 1, "lost_pages": 1, "incomplete": 1}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("status", "fine"),
        ("text", None),
        ("error_code", "encrypted"),
        ("document_id", "abc"),
        ("page_count", None),
        ("page_index", 99),
        ("uri", None),
    ],
)
def test_a_row_that_contradicts_itself_is_told(column: str, value: Any, place: Place):
    part, number = row_where(place, "pages", "status", lambda status: status == "ok")
    rewrite(part, lambda table: with_value(table, column, number, value))
    assert place.faults()["broken_row"] == 1


def test_a_row_whose_status_alone_is_wrong_has_exactly_that_fault(place: Place):
    part, number = row_where(place, "pages", "status", lambda status: status == "ok")
    rewrite(part, lambda table: with_value(table, "text", number, None))
    assert place.faults() == {"broken_row": 1}


def test_a_text_that_is_not_utf8_is_damage(place: Place):
    part, _ = row_where(place, "pages", "text", bool)

    def spoil(table: pa.Table) -> pa.Table:
        spoilt = [b"\xff\xfe" if text is not None else None for text in table.column("text").to_pylist()]
        column = pa.array(spoilt, pa.large_binary()).view(pa.large_string())
        return table.set_column(table.schema.get_field_index("text"), "text", column)

    rewrite(part, spoil)
    verdict = place.verdict()
    assert verdict["faults_by_code"]["damaged_part"] == 1
    assert "UTF" in next(fault["message"] for fault in verdict["faults"] if fault["code"] == "damaged_part")


def test_a_box_beside_its_page_is_told_with_the_page(place: Place):
    part, number = row_where(place, "pages", "lines", bool)
    line = {"text": "far away", "bbox": [0.0, 0.0, 9999.0, 5.0], "score": 1.0}
    rewrite(part, lambda table: with_value(table, "lines", number, [line]))
    (fault,) = place.verdict()["faults"]
    assert fault["code"] == "box_outside"
    assert "#page=" in fault["where"]


def test_a_batch_that_is_not_there_is_told_with_how_many_pages_name_it(place: Place):
    part, number = row_where(place, "pages", "batch_id", lambda batch_id: batch_id is not None)
    rewrite(part, lambda table: with_value(table, "batch_id", number, "0" * 16))
    faults = place.verdict()["faults"]
    assert [fault["code"] for fault in faults] == ["orphan_batch", "batch_size"]
    assert faults[0]["remedy"] == faults[1]["remedy"]
    assert faults[0]["message"] == f"batch {'0' * 16} is not in batches; rows in pages that name it: 1"


def test_totals_that_were_altered_are_told(place: Place):
    def more(table: pa.Table) -> pa.Table:
        totals = json.loads(table.column("totals")[0].as_py())
        return with_value(table, "totals", 0, json.dumps({**totals, "pages": totals["pages"] + 1}))

    rewrite(place.parts("runs")[0], more)
    (fault,) = place.verdict()["faults"]
    assert (fault["code"], fault["message"]) == ("run_totals", "17 rows in pages; its totals say 18")


def test_counts_in_documents_that_were_altered_are_told(place: Place):
    part, number = row_where(place, "documents", "pages_ok", bool)
    rewrite(part, lambda table: with_value(table, "pages_blank", number, 1))
    assert place.faults() == {"document_counts": 1}


# how it is told


def test_every_fault_is_one_line_and_counted_before(place: Place):
    for number in range(250):
        (place.out / "pages" / f"stray {number}\n.bin").write_bytes(b"")
    documents.pdf(place.folder / "new.pdf", 1)
    code, printed, _ = place.ends("verify", place.out)
    assert code == 1
    lines = printed.splitlines()
    assert "faults     251" in lines
    assert "       250 orphan_file" in lines
    assert sum(line.startswith("orphan_file: pages/stray ") for line in lines) == 250
    unread = [line for line in lines if line.startswith("unread: ")]
    assert len(unread) == 1
    assert unread[0].endswith("/new.pdf: it has no row (run the same command again)")
    assert len(place.verdict()["faults"]) == 251


def test_what_is_no_output_is_refused_and_nothing_is_made(place: Place, tmp_path: Path):
    for path in (tmp_path / "nowhere", place.folder, place.folder / "a.pdf"):
        code, printed, said = place.ends("verify", path)
        assert (code, printed, said.count("\n")) == (2, "", 1)
    assert not (tmp_path / "nowhere").exists()


def test_a_part_that_cannot_be_fetched_ends_the_audit_with_3_and_one_line(place: Place):
    part = place.parts("batches")[0]
    part.unlink()
    part.symlink_to("nowhere")
    code, printed, said = place.ends("verify", place.out)
    assert (code, printed, said.count("\n")) == (3, "", 1)


def test_nothing_is_written_and_a_run_under_way_is_told_and_left_alone(place: Place):
    store = Store.open(str(place.out))
    part = place.parts("pages")[-1]
    with Lease.acquire(store, "20990101T000000Z-abcdef", lambda: datetime.now(UTC)):
        torn = part.with_name("20990101T000000Z-abcdef-00000.parquet#1")
        torn.write_bytes(b"on its way")
        before = {path: path.stat().st_mtime_ns for path in place.out.rglob("*") if path.suffix != ".alive"}
        verdict = place.verdict()
        after = {path: path.stat().st_mtime_ns for path in place.out.rglob("*") if path.suffix != ".alive"}
    assert before == after
    assert verdict["faults"] == []
    assert verdict["run_under_way"] == "20990101T000000Z-abcdef"
    assert "is under way" in verdict["notes"][0]
    assert place.faults() == {"orphan_file": 1}  # nobody is at it any more


def test_the_command_ends_with_1_in_a_process_of_its_own(place: Place):
    place.parts("documents")[-1].unlink()
    words = [sys.executable, "-c", "import sys; from jobs.cli import main; main(sys.argv[1:])", "verify", place.out]
    done = subprocess.run(list(map(str, words)), cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert "no_document_row: file://" in done.stdout
