"""Archives are folders in one file: each file in them is a document, whatever its name, and bombs are bounded."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from jobs.plan import make_plan
from jobs.run import run
from jobs.verify import verify
from pipeline.config import JobConfig
from pipeline.document import Source, member_of_uri, path_of_uri, uri_of_member, uri_of_path
from pipeline.errors import ErrorCode
from pipeline.page import Raster, RasterLimits, RasterRule
from pipeline.parquet import read_columns
from pipeline.raster import archive, bounds, probe, render_pages
from pipeline.store import Store
from tests import documents

from .rasters import xps

AS_IS = RasterRule(72, 10**7)


def _pdf(tmp_path: Path, num_pages: int = 1, name: str = "m.pdf") -> bytes:
    return documents.pdf(tmp_path / name, num_pages).read_bytes()


def tar_of(path: Path, members: dict[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as file:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1_700_000_000
            file.addfile(info, io.BytesIO(data))
    return path


def _members(path: Path, limits: RasterLimits | None = None) -> list[str]:
    found = probe(Source(uri_of_path(str(path))), limits=limits or RasterLimits())
    assert found.failure is None, found.failure
    return [member_of_uri(source.uri) for source in found.members]


def _failure(path: Path, key: str = "", limits: RasterLimits | None = None) -> tuple[str, str]:
    uri = uri_of_path(str(path))
    found = probe(Source(uri_of_member(uri, key) if key else uri), limits=limits or RasterLimits())
    assert found.failure is not None
    return str(found.failure.code), found.failure.message


def _job(*inputs: Path, out: Path, **options: Any) -> JobConfig:
    fixed: dict[str, Any] = {"engine": "fake", "runner": "local", "progress": "none", **documents.READ_EVERY_PAGE}
    return JobConfig(inputs=tuple(map(str, inputs)), out=str(out), **{**fixed, **options})


def _rows(out: Path, *columns: str, table: str = "pages") -> list[tuple[Any, ...]]:
    return [row for part in read_columns(Store.open(str(out)), table, columns) for row in part]


# names

NAMES = ["a.pdf", "deep/er/b c.pdf", "Ünïcode/漢.pdf", "100%.pdf", "what?.pdf", "a#1.pdf", "semi;2.pdf", "x!/y.pdf"]


@pytest.mark.parametrize("suffix", ["zip", "tar", "tar.gz", "tar.bz2", "tar.xz"])
def test_every_file_in_an_archive_is_a_document_under_its_own_uri(suffix: str, tmp_path: Path):
    members = dict.fromkeys(NAMES, _pdf(tmp_path, 2))
    path = tmp_path / f"named.anyhow.{suffix[-3:]}x"
    if suffix == "zip":
        documents.zip_of(path, members)
    else:
        tar_of(path, members, "w" if suffix == "tar" else f"w:{suffix[4:]}")
    found = probe(Source(uri_of_path(str(path)), etag="as listed"))
    assert found.failure is None
    uris = [source.uri for source in found.members]
    assert len(set(uris)) == len(NAMES)
    assert uris[1].endswith("!/deep/er/b%20c.pdf")
    assert {source.etag for source in found.members} == {"as listed"}
    for source in found.members:
        assert path_of_uri(source.uri) == str(path)
        member = probe(source)
        assert member.failure is None
        assert member.document.page_count == 2
        assert member.document.size_bytes == len(members["a.pdf"])
        made = list(render_pages(member.document, 0, 2, AS_IS))
        assert all(isinstance(item, Raster) for item in made)


def test_a_member_is_known_by_its_bytes(tmp_path: Path):
    data = _pdf(tmp_path)
    documents.zip_of(tmp_path / "a.zip", {"m.pdf": data})
    outside = probe(Source(uri_of_path(str(tmp_path / "m.pdf")))).document
    inside = probe(Source(uri_of_member(uri_of_path(str(tmp_path / "a.zip")), "m.pdf"))).document
    assert inside.document_id == outside.document_id
    assert inside.media_type == "application/pdf"


def test_a_folder_whose_name_ends_like_the_way_into_an_archive_is_a_folder(tmp_path: Path):
    folder = tmp_path / "a.zip!"
    folder.mkdir()
    path = documents.pdf(folder / "b.pdf", 1)
    uri = uri_of_path(str(path))
    assert (path_of_uri(uri), member_of_uri(uri)) == (str(path), "")
    assert probe(Source(uri)).failure is None
    documents.zip_of(tmp_path / "a.zip", {"b.pdf": b"x"})
    assert uri != uri_of_member(uri_of_path(str(tmp_path / "a.zip")), "b.pdf")


def test_two_files_of_one_name_are_two_documents(tmp_path: Path):
    one, two = _pdf(tmp_path, 1, "one.pdf"), _pdf(tmp_path, 2, "two.pdf")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("m.pdf", one)
        with pytest.warns(UserWarning, match="Duplicate name"):
            file.writestr("m.pdf", two)
        file.writestr("m.pdf#2", one)
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for data in (one, two):
            info = tarfile.TarInfo("m.pdf")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    assert _members(tmp_path / "a.zip") == ["m.pdf", "m.pdf#2", "m.pdf%232"]
    assert _members(tmp_path / "a.tar") == ["m.pdf", "m.pdf#2"]
    for name in ("a.zip", "a.tar"):
        uri = uri_of_path(str(tmp_path / name))
        counts = [probe(Source(uri_of_member(uri, key))).document.page_count for key in ("m.pdf", "m.pdf#2")]
        assert counts == [1, 2]


def test_folders_and_litter_are_left_out_and_what_is_no_file_has_a_row(tmp_path: Path):
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for name, kind in (
            ("d", tarfile.DIRTYPE),
            ("l", tarfile.SYMTYPE),
            ("p", tarfile.FIFOTYPE),
            ("c", tarfile.CHRTYPE),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            tar.addfile(info)
        for name in ("a.pdf", ".hidden/b.pdf", "../c.pdf", "/abs.pdf", "__MACOSX/._a.pdf", "x/Thumbs.db", "~$d.docx"):
            tar.addfile(tarfile.TarInfo(name))
    assert _members(tmp_path / "a.tar") == ["l", "p", "c", "a.pdf", "c.pdf", "abs.pdf"]
    assert _failure(tmp_path / "a.tar", "p") == ("not_a_file", "not a regular file in the archive")
    assert _failure(tmp_path / "a.tar", "l")[0] == "not_a_file"
    assert "link in the archive to /etc/passwd" in _failure(tmp_path / "a.tar", "l")[1]
    names = ["d/", ".x", "a.pdf", "e/.DS_Store", "b.pdf.part"]
    documents.zip_of(tmp_path / "a.zip", dict.fromkeys(names, b""))
    assert _members(tmp_path / "a.zip") == ["a.pdf"]


# what an archive is


def test_office_files_xps_and_programs_are_no_archives(tmp_path: Path):
    documents.zip_of(tmp_path / "a", {"[Content_Types].xml": b"", "word/document.xml": b""})
    assert _failure(tmp_path / "a")[0] == "office_document"
    documents.zip_of(tmp_path / "b.pdf", {"[Content_Types].xml": b"", "xl/workbook.xml": b""})
    code, message = _failure(tmp_path / "b.pdf")
    assert code == "not_a_document"
    assert message.startswith("named like a document, but the content is an Excel workbook: convert it to PDF")
    xps(tmp_path / "c.zip", 96, 96)
    assert probe(Source(uri_of_path(str(tmp_path / "c.zip")))).document.page_count == 1


def test_an_archive_within_an_archive_and_one_that_cannot_be_read_say_what_to_do(tmp_path: Path):
    inner = documents.zip_of(tmp_path / "inner.zip", {"m.pdf": _pdf(tmp_path)}).read_bytes()
    documents.zip_of(tmp_path / "a.zip", {"inner.zip": inner})
    assert _members(tmp_path / "a.zip") == ["inner.zip"]
    code, message = _failure(tmp_path / "a.zip", "inner.zip")
    assert (code, message) == ("unsupported_archive", "an archive within an archive: unpack the outer one first")
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"no tar" * 500))
    assert _failure(tmp_path / "b.gz")[0] == "unsupported_archive"


def test_an_empty_archive_has_no_pages(tmp_path: Path):
    assert _failure(documents.zip_of(tmp_path / "a.zip", {}))[0] == "no_pages"
    assert _failure(documents.zip_of(tmp_path / "b.zip", {"d/": b"", ".x": b""})) == (
        "no_pages",
        "the archive holds no file",
    )


def _damaged(path: Path) -> tuple[Source, ...]:
    """The members of an archive of which a row of its own says that they are not all."""
    found = probe(Source(uri_of_path(str(path)), etag="e"))
    assert found.failure is not None
    assert found.failure.code == ErrorCode.BROKEN_DOCUMENT
    assert found.failure.message.startswith("the archive is damaged, ")
    assert found.document.etag is None
    return found.members


def test_a_damaged_header_in_the_middle_costs_its_own_file_and_is_told(tmp_path: Path):
    names = [f"{n}.pdf" for n in range(5)]
    path = tar_of(tmp_path / "a.tar", {name: bytes(700) for name in names})
    data = bytearray(path.read_bytes())
    data[2 * 1536 : 2 * 1536 + 40] = b"x" * 40
    path.write_bytes(data)
    assert [member_of_uri(source.uri) for source in _damaged(path)] == ["0.pdf", "1.pdf", "3.pdf", "4.pdf"]


def test_two_tars_one_after_the_other_are_one(tmp_path: Path):
    both = b"".join(tar_of(tmp_path / "x.tar", {name: b"x"}).read_bytes() for name in ("a.pdf", "b.pdf"))
    (tmp_path / "a.tar").write_bytes(both)
    assert _members(tmp_path / "a.tar") == ["a.pdf", "b.pdf"]


def test_a_job_tells_what_is_lost_of_an_archive_once(tmp_path: Path):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    path = tar_of(folder / "a.tar", {"a.pdf": _pdf(tmp_path, 2), "b.pdf": bytes(40_000)})
    path.write_bytes(path.read_bytes()[:-30_000])
    run(_job(folder, out=out))
    ends = {(uri.rpartition("/")[2], index): code for uri, index, code in _rows(out, "uri", "page_index", "error_code")}
    assert ends[("a.tar", None)] == "broken_document"
    assert ends[("a.pdf", 0)] is None
    again = run(_job(folder, out=out))
    assert (again.totals.pages, again.exit_code) == (0, 1)
    assert verify(str(out), ()).faults == []


def test_of_a_damaged_archive_what_can_be_read_is_read(tmp_path: Path):
    data = _pdf(tmp_path)
    path = documents.zip_of(tmp_path / "a.zip", {"a.pdf": data, "b.pdf": data[:-1] + b"x"})
    damaged = bytearray(path.read_bytes())
    damaged[len(data) // 4] ^= 0xFF
    path.write_bytes(damaged)
    assert _members(path) == ["a.pdf", "b.pdf"]
    code, message = _failure(path, "a.pdf")
    assert code == "broken_document"
    assert message.startswith("damaged in the archive: ")
    assert probe(Source(uri_of_member(uri_of_path(str(path)), "b.pdf"))).document.page_count == 1

    tar = tar_of(tmp_path / "a.tar.gz", {"a.pdf": data, "b.pdf": bytes(300_000)}, "w:gz")
    tar.write_bytes(tar.read_bytes()[:-60])
    assert next(member_of_uri(source.uri) for source in _damaged(tar)) == "a.pdf"
    assert probe(Source(uri_of_member(uri_of_path(str(tar)), "a.pdf"))).document.page_count == 1


def test_a_member_that_is_not_there_is_not_found_and_a_changed_archive_is_noticed(tmp_path: Path):
    path = documents.zip_of(tmp_path / "a.zip", {"m.pdf": _pdf(tmp_path)})
    assert _failure(path, "other.pdf") == ("not_found", "no such file in the archive")
    tar = tar_of(tmp_path / "a.tar", {"m.pdf": _pdf(tmp_path)})
    assert _failure(tar, "other.pdf")[0] == "not_found"
    document = probe(Source(uri_of_member(uri_of_path(str(path)), "m.pdf"))).document
    documents.zip_of(path, {"m.pdf": _pdf(tmp_path, 3)})
    (made,) = render_pages(document, 0, 1, AS_IS)
    assert not isinstance(made, Raster)
    assert made.failure.code == ErrorCode.DOCUMENT_CHANGED  # type: ignore[union-attr]
    path.write_bytes(b"no archive any more")
    (made,) = render_pages(document, 0, 1, AS_IS)
    assert made.failure.code == ErrorCode.DOCUMENT_CHANGED  # type: ignore[union-attr]


# passwords


def _encrypted_zip(path: Path) -> Path:
    """A ZIP with the member 'a.txt', which is 'hello', encrypted by PKWARE's old way with the password 'user'."""
    crc_table = [0] * 256
    for number in range(256):
        value = number
        for _ in range(8):
            value = value >> 1 ^ (0xEDB88320 if value & 1 else 0)
        crc_table[number] = value

    def crc(byte: int, value: int) -> int:
        return value >> 8 ^ crc_table[(value ^ byte) & 0xFF]

    keys = [0x12345678, 0x23456789, 0x34567890]

    def feed(byte: int) -> None:
        keys[0] = crc(byte, keys[0])
        keys[1] = ((keys[1] + (keys[0] & 0xFF)) * 134775813 + 1) & 0xFFFFFFFF
        keys[2] = crc(keys[1] >> 24, keys[2])

    for byte in b"user":
        feed(byte)
    plain = b"hello"
    checksum = zipfile.crc32(plain)  # type: ignore[attr-defined]
    out = bytearray()
    for byte in bytes(11) + bytes([checksum >> 24]) + plain:
        mixed = keys[2] | 2
        out.append(byte ^ (mixed * (mixed ^ 1) >> 8 & 0xFF))
        feed(byte)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        file.writestr("a.txt", bytes(out))
    data = bytearray(path.read_bytes())
    for signature, flags, crc_at, size_at in ((b"PK\3\4", 6, 14, 22), (b"PK\1\2", 8, 16, 24)):
        start = data.index(signature)
        data[start + flags] |= 1
        data[start + crc_at : start + crc_at + 4] = checksum.to_bytes(4, "little")
        data[start + size_at : start + size_at + 4] = len(plain).to_bytes(4, "little")
    path.write_bytes(data)
    return path


def test_an_encrypted_member_is_read_with_a_password_that_fits(tmp_path: Path):
    path = _encrypted_zip(tmp_path / "a.zip")
    assert _failure(path, "a.txt")[0] == "encrypted"
    assert _failure(path, "a.txt", RasterLimits(passwords=("wrong", "also")))[0] == "encrypted"
    with archive.opened_member(str(path), archive.ZIP, "a.txt", RasterLimits(passwords=("wrong", "user"))) as inner:
        assert Path(inner).read_bytes() == b"hello"


# bombs


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_a_member_is_unpacked_no_further_than_a_document_may_be_large(kind: str, tmp_path: Path):
    path = tmp_path / f"a.{kind}"
    members = {"bomb.pdf": bytes(5_000_000), "m.pdf": _pdf(tmp_path)}
    documents.zip_of(path, members) if kind == "zip" else tar_of(path, members, "w:gz")
    assert path.stat().st_size < 10_000
    limits = RasterLimits(max_document_bytes=1_000_000)
    assert _members(path, limits) == ["bomb.pdf", "m.pdf"]
    assert _failure(path, "bomb.pdf", limits)[0] == "document_too_large"
    assert probe(Source(uri_of_member(uri_of_path(str(path)), "m.pdf")), limits=limits).failure is None


def test_an_archive_of_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bounds, "MAX_MEMBERS", 3)
    path = documents.zip_of(tmp_path / "a.zip", {f"{n}.pdf": b"x" for n in range(4)})
    assert _failure(path) == ("document_too_large", "more than 3 files in the archive: unpack it first")


def test_many_members_of_a_compressed_archive_are_read_in_one_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tar_of(tmp_path / "a.tar.gz", {f"{n}.txt": b"%d" % n for n in range(50)}, "w:gz")
    opened = []
    real = tarfile.open
    monkeypatch.setattr(tarfile, "open", lambda *args, **kw: opened.append(args) or real(*args, **kw))
    for number in range(50):
        with archive.opened_member(str(path), archive.TAR, f"{number}.txt", RasterLimits()) as inner:
            assert Path(inner).read_bytes() == b"%d" % number
    assert len(opened) == 1
    for number in (7, 40, 8, 41, 9):  # some probe ahead, some render behind
        with archive.opened_member(str(path), archive.TAR, f"{number}.txt", RasterLimits()) as inner:
            assert Path(inner).read_bytes() == b"%d" % number
    assert len(opened) <= 3


# a whole job


def test_a_job_reads_what_is_in_archives_once_and_passes_over_it_then(tmp_path: Path):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    data = _pdf(tmp_path, 3)
    documents.zip_of(folder / "a.zip", {"m.pdf": data, "notes.txt": b"text", "locked/n.tiff": b"no picture"})
    tar_of(folder / "b.tgz", {"other/m.pdf": data, "p.pdf": _pdf(tmp_path, 2, "p.pdf")}, "w:gz")
    (folder / "m.pdf").write_bytes(data)
    report = run(_job(folder, out=out))
    assert report.totals.pages_copied == 6
    ends = Counter((status, code) for status, code in _rows(out, "status", "error_code"))
    assert ends == {("ok", None): 11, ("skipped", "unsupported_type"): 1, ("failed", "not_a_document"): 1}
    uris = {uri.partition("/in/")[2] for (uri,) in _rows(out, "uri")}
    assert uris == {
        "a.zip!/m.pdf",
        "a.zip!/notes.txt",
        "a.zip!/locked/n.tiff",
        "b.tgz!/other/m.pdf",
        "b.tgz!/p.pdf",
        "m.pdf",
    }
    assert verify(str(out), ()).faults == []
    again = run(_job(folder, out=out))
    assert (again.totals.pages, again.totals.documents_already_done) == (0, 6)
    plan = make_plan(_job(folder, out=out))
    assert (plan.pages, plan.pages_copied, len(plan.unreadable)) == (5, 6, 2)
    documents.zip_of(folder / "a.zip", {"m.pdf": data, "new.pdf": _pdf(tmp_path, 1, "new.pdf")})
    assert run(_job(folder, out=out)).totals.pages == 1


def test_verify_misses_a_member_that_has_no_row(tmp_path: Path):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    data = _pdf(tmp_path)
    documents.zip_of(folder / "a.zip", {"m.pdf": data})
    run(_job(folder, out=out))
    documents.zip_of(folder / "a.zip", {"m.pdf": data, "n.pdf": _pdf(tmp_path, 2, "n.pdf")})
    faults = verify(str(out), (str(folder),)).faults
    assert [fault.where.rpartition("/")[2] for fault in faults] == ["n.pdf"]
