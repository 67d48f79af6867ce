"""Archives as strangers make them: names in any encoding, cut off, joined, in front of them a program, bombs, links."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest

from jobs.plan import make_plan
from jobs.run import run
from jobs.verify import verify
from pipeline.document import Source, member_of_uri, uri_of_member, uri_of_path
from pipeline.page import RasterLimits
from pipeline.raster import archive, bounds, probe
from pipeline.raster.zip_directory import ZipEntry
from tests import documents

from .test_archive import _failure, _job, _members, _pdf, _rows, tar_of

UTF_8 = 1 << 11


def _zip(
    path: Path,
    *members: tuple[bytes, bytes],
    flags: int = 0,
    method: int = 0,
    extra: bytes = b"",
    mode: int = 0,
    described: bool = False,
) -> Path:
    """A ZIP of these names and contents, its headers written byte by byte; the contents are stored as they are."""
    out, directory = bytearray(), bytearray()
    flags |= described << 3
    for name, data in members:
        sizes = (zlib.crc32(data), len(data), len(data))
        at = len(out)
        here = (0, 0, 0) if described else sizes
        out += struct.pack("<4s5H3L2H", b"PK\3\4", 20, flags, method, 0, 33, *here, len(name), 0) + name + data
        out += struct.pack("<4s3L", b"PK\7\x08", *sizes) if described else b""
        lengths = (len(name), len(extra), 0, 0, 0, mode << 16, at)
        directory += struct.pack("<4s6H3L5H2L", b"PK\1\2", 3 << 8, 20, flags, method, 0, 33, *sizes, *lengths)
        directory += name + extra
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, len(members), len(members), len(directory), len(out), 0)
    path.write_bytes(bytes(out + directory) + end)
    return path


def _read(path: Path, key: str, kind: str = archive.ZIP, **limits: object) -> bytes:
    with archive.opened_member(str(path), kind, key, RasterLimits(**limits)) as inner:  # type: ignore[arg-type]
        return Path(inner).read_bytes()


def _told(path: Path) -> tuple[list[str], str, str]:
    """The members of an archive of which not all can be read, and what its own row says."""
    found = probe(Source(uri_of_path(str(path))))
    assert found.failure is not None
    return [member_of_uri(source.uri) for source in found.members], str(found.failure.code), found.failure.message


# names


def test_a_name_that_is_no_utf_8_though_it_says_so_costs_nothing(tmp_path: Path):
    path = _zip(tmp_path / "a.zip", (b"f\xfcr.pdf", b"one"), (b"b.pdf", b"two"), flags=UTF_8)
    assert _members(path) == ["f%FCr.pdf", "b.pdf"]
    assert [_read(path, key) for key in ("f%FCr.pdf", "b.pdf")] == [b"one", b"two"]


def test_a_name_that_says_no_encoding_is_read_in_the_one_that_fits(tmp_path: Path):
    assert _members(_zip(tmp_path / "a.zip", (b"\x81.pdf", b""), ("é.pdf".encode(), b""))) == ["ü.pdf", "é.pdf"]


def test_the_unicode_path_of_info_zip_counts_if_it_is_of_this_name(tmp_path: Path):
    name = "漢.pdf".encode()
    for crc, key in ((zlib.crc32(b"_.pdf"), "漢.pdf"), (1, "_.pdf")):
        extra = struct.pack("<HHBL", 0x7075, 5 + len(name), 1, crc) + name
        path = _zip(tmp_path / f"{crc}.zip", (b"_.pdf", b"x"), extra=extra)
        assert _members(path) == [key]
        assert _read(path, key) == b"x"


def test_no_name_leads_out_of_an_archive_or_nowhere(tmp_path: Path):
    names = ["../../a.pdf", "/etc/b.pdf", "./x/../c.pdf", "a.pdf", ".", ""]
    path = _zip(tmp_path / "a.zip", *((name.encode(), name.encode() or b"empty") for name in names))
    keys = ["a.pdf", "etc/b.pdf", "x/c.pdf", "a.pdf#2", "unnamed", "unnamed#2"]
    assert _members(path) == keys
    assert [_read(path, key) for key in keys] == [name.encode() or b"empty" for name in names]
    tar = tar_of(tmp_path / "a.tar", {name: b"x" for name in names if name})
    assert _members(tar) == keys[:-1]


def test_long_names_of_gnu_and_of_pax_are_whole(tmp_path: Path):
    names = ["d" * 90 + "/" + "ü" * 80 + ".pdf", "short.pdf"]
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        with tarfile.open(tmp_path / f"{form}.tar", "w", format=form) as file:
            for name in names:
                file.addfile(tarfile.TarInfo(name))
        assert _members(tmp_path / f"{form}.tar") == names


# bombs


def test_of_files_that_lie_over_each_other_one_is_read(tmp_path: Path):
    """As D. Fifield's: each file has the headers and data of those after it within its own bytes."""
    path = _zip(tmp_path / "a.zip", *((b"%d.pdf" % n, b"x" * 50) for n in range(4)), (b"b.pdf", b"apart"))
    data = bytearray(path.read_bytes())
    start, each = data.index(b"PK\1\2"), 30 + 5 + 50
    for number in range(3):
        at = start + number * (46 + 5)
        data[at + 20 : at + 24] = struct.pack("<L", 50 + (3 - number) * each)
    path.write_bytes(data)
    assert _members(path) == ["0.pdf", "1.pdf", "2.pdf", "3.pdf", "b.pdf"]
    for number in range(3):
        code, message = _failure(path, f"{number}.pdf")
        assert code == "broken_document"
        assert message.startswith("its bytes in the archive overlap those of another file")
    assert (_read(path, "3.pdf"), _read(path, "b.pdf")) == (b"x" * 50, b"apart")


def test_what_comes_out_of_a_zip_in_all_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bounds, "MAX_UNPACKED_BYTES", 250_000)
    path = documents.zip_of(tmp_path / "a.zip", {f"{n}.txt": bytes(100_000) for n in range(4)})
    assert path.stat().st_size * bounds.MAX_RATIO < 250_000
    assert [len(_read(path, f"{n}.txt")) for n in range(2)] == [100_000] * 2
    code, message = _failure(path, "3.txt")
    assert (code, message.split(",")[0]) == ("document_too_large", "more than 250")
    assert message.endswith("bytes in the archive in all, as in a bomb: unpack it first")


@pytest.mark.parametrize("form", ["gz", "bz2", "xz"])
def test_what_comes_out_of_a_tar_in_all_is_bounded(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bounds, "MAX_UNPACKED_BYTES", 1_000_000)
    members = {"a.pdf": b"x", "b.txt": bytes(700_000), "c.txt": bytes(700_000), "d.txt": b"y"}
    path = tar_of(tmp_path / f"a.tar.{form}", members, f"w:{form}")
    keys, code, message = _told(path)
    assert (keys, code) == (["a.pdf", "b.txt", "c.txt"], "document_too_large")
    assert message.endswith("bytes in the archive in all, as in a bomb: unpack it first")
    assert len(_read(path, "b.txt", archive.TAR)) == 700_000


def test_a_directory_that_claims_millions_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = _zip(tmp_path / "a.zip", *((b"%d" % n, b"") for n in range(500)))
    monkeypatch.setattr(bounds, "MAX_MEMBERS", 20)
    made: list[ZipEntry] = []
    monkeypatch.setattr(
        "pipeline.raster.zip_directory.ZipEntry", lambda *args: made.append(ZipEntry(*args)) or made[-1]
    )
    assert _failure(path) == ("document_too_large", "more than 20 files in the archive: unpack it first")
    assert len(made) <= 3 * 21


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_is_packed_beyond_measure_comes_out_in_pieces(method: int, tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as file:
        file.writestr("a.txt", bytes(20_000_000))
    assert _failure(tmp_path / "a.zip", "a.txt", RasterLimits(max_document_bytes=10_000_000)) == (
        "document_too_large",
        "more than 10,000,000 bytes in the archive (--max-document-bytes)",
    )
    assert len(_read(tmp_path / "a.zip", "a.txt")) == 20_000_000


def test_a_sparse_file_is_read_and_one_of_terabytes_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def sparse(name: str, size: int) -> bytes:
        info = tarfile.TarInfo(name)
        info.type, info.size = tarfile.GNUTYPE_SPARSE, 512
        head = bytearray(info.tobuf(tarfile.GNU_FORMAT))
        head[386:410] = b"%011o\0%011o\0" % (0, 512)
        head[483:495] = (b"%011o\0" % size) if size < 8**11 else b"\x80" + size.to_bytes(11, "big")
        head[148:156] = b" " * 8
        head[148:156] = b"%06o\0 " % sum(head)
        return bytes(head) + b"x" * 512

    (tmp_path / "a.tar").write_bytes(sparse("a.txt", 2000) + sparse("b.txt", 1 << 42) + bytes(1024))
    assert _members(tmp_path / "a.tar") == ["a.txt", "b.txt"]
    assert _read(tmp_path / "a.tar", "a.txt", archive.TAR) == b"x" * 512 + bytes(1488)
    assert _failure(tmp_path / "a.tar", "b.txt")[0] == "document_too_large"
    monkeypatch.setattr(bounds, "MAX_UNPACKED_BYTES", 0)
    files = [sparse(f"{n}.txt", 400_000) for n in range(3)]
    tar_of(tmp_path / "last.tar", {"a.pdf": b"x"})
    (tmp_path / "b.tar").write_bytes(b"".join(files) + (tmp_path / "last.tar").read_bytes())
    assert _members(tmp_path / "b.tar") == ["0.txt", "1.txt", "2.txt", "a.pdf"]
    monkeypatch.setattr(bounds, "MAX_RATIO", 70)
    assert [len(_read(tmp_path / "b.tar", f"{n}.txt", archive.TAR)) for n in (0, 1)] == [400_000] * 2
    assert _failure(tmp_path / "b.tar", "2.txt")[1].endswith("in all, as in a bomb: unpack it first")
    assert _read(tmp_path / "b.tar", "a.pdf", archive.TAR) == b"x"


def test_a_name_of_gigabytes_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pipeline.raster.tarred._MAX_NAME_BYTES", 1000)
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.GNU_FORMAT) as file:
        file.addfile(tarfile.TarInfo("a.pdf"))
        file.addfile(tarfile.TarInfo("n" * 1200))
        file.addfile(tarfile.TarInfo("b.pdf"))
    keys, code, _ = _told(tmp_path / "a.tar")
    assert (keys[0], keys[-1], code) == ("a.pdf", "b.pdf", "broken_document")


# in front, behind, cut off


def test_a_zip_behind_a_program_or_rubbish_is_one(tmp_path: Path):
    data = documents.zip_of(tmp_path / "x.zip", {"a.pdf": b"one", "b.pdf": b"two"}).read_bytes()
    (tmp_path / "a.exe").write_bytes(b"MZ" + bytes(5000) + data)
    (tmp_path / "b.zip").write_bytes(data + b"rubbish" * 100)
    (tmp_path / "c.bin").write_bytes(bytes(5000) + b"PK\5\6" + bytes(200))
    for name in ("a.exe", "b.zip"):
        assert _members(tmp_path / name) == ["a.pdf", "b.pdf"]
        assert _read(tmp_path / name, "b.pdf") == b"two"
    assert _failure(tmp_path / "c.bin")[0] == "unsupported_type"


def test_two_zips_one_after_the_other_are_one(tmp_path: Path):
    one = documents.zip_of(tmp_path / "1.zip", {"a.pdf": b"one"}).read_bytes()
    two = documents.zip_of(tmp_path / "2.zip", {"a.pdf": b"two", "b.pdf": b"three"}).read_bytes()
    (tmp_path / "a.zip").write_bytes(one + two)
    assert _members(tmp_path / "a.zip") == ["a.pdf", "a.pdf#2", "b.pdf"]
    assert [_read(tmp_path / "a.zip", key) for key in ("a.pdf", "a.pdf#2", "b.pdf")] == [b"one", b"two", b"three"]
    (tmp_path / "b.zip").write_bytes(one[: one.index(b"PK\1\2")] + two)
    keys, code, message = _told(tmp_path / "b.zip")
    assert (keys, code) == (["a.pdf", "b.pdf"], "broken_document")
    assert message.endswith("bytes is missing")


@pytest.mark.parametrize("described", [False, True])
def test_a_zip_that_is_cut_off_is_read_as_far_as_it_goes(described: bool, tmp_path: Path):
    whole = _zip(tmp_path / "w.zip", (b"a.pdf", b"PK" * 50), (b"d/", b""), (b"b.pdf", b"y" * 90), described=described)
    data = whole.read_bytes()
    (tmp_path / "a.zip").write_bytes(data[: data.index(b"PK\1\2") + 70])
    keys, code, message = _told(tmp_path / "a.zip")
    assert (keys, code) == (["a.pdf", "b.pdf"], "broken_document")
    assert message == (
        "the archive is damaged, 2 of its files can be told: its directory, which should be at its end, is missing"
    )
    assert [_read(tmp_path / "a.zip", key) for key in keys] == [b"PK" * 50, b"y" * 90]
    (tmp_path / "b.zip").write_bytes(data[: data.index(b"y" * 90) + 40])
    assert _told(tmp_path / "b.zip")[0] == ["a.pdf", "b.pdf"]
    assert _failure(tmp_path / "b.zip", "b.pdf")[0] == "broken_document"


def test_a_damaged_directory_costs_no_file(tmp_path: Path):
    path = documents.zip_of(tmp_path / "a.zip", {"a.pdf": b"one", "b.pdf": b"two"})
    data = bytearray(path.read_bytes())
    data[data.rindex(b"PK\1\2")] ^= 0xFF
    path.write_bytes(data)
    keys, code, _ = _told(path)
    assert (keys, code) == (["a.pdf", "b.pdf"], "broken_document")
    assert _read(path, "b.pdf") == b"two"


def test_an_office_file_that_is_cut_off_is_no_archive(tmp_path: Path):
    path = documents.zip_of(tmp_path / "a", {"[Content_Types].xml": b"x" * 100, "word/document.xml": b"y" * 1000})
    path.write_bytes(path.read_bytes()[:-40])
    assert _failure(path)[0] == "office_document"


def test_what_a_zip_says_of_its_kind_may_be_damaged(tmp_path: Path):
    path = _zip(tmp_path / "a.zip", (b"mimetype", b"application/epub+zip"), (b"a.pdf", b"one"))
    assert _failure(path)[0] == "office_document"
    path.write_bytes(path.read_bytes().replace(b"epub", b"equb"))
    assert _members(path) == ["mimetype", "a.pdf"]


def test_a_zip_with_large_fields_is_read(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file, file.open("a.pdf", "w", force_zip64=True) as member:
        member.write(b"one")
    data = (tmp_path / "a.zip").read_bytes()
    at, end = data.index(b"PK\1\2"), data.index(b"PK\5\6")
    large = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, end - at, at)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, end, 1)
    last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    (tmp_path / "a.zip").write_bytes(data[:end] + large + locator + last)
    assert _members(tmp_path / "a.zip") == ["a.pdf"]
    assert _read(tmp_path / "a.zip", "a.pdf") == b"one"


def test_a_tar_of_unix_v7_is_known_by_its_checksum(tmp_path: Path):
    data = _pdf(tmp_path)
    out = b""
    for name in (b"a.pdf", b"b.pdf"):
        head = bytearray(512)
        head[: len(name)] = name
        head[100:108], head[124:136], head[136:148] = b"000644 \0", b"%011o " % len(data), b"%011o " % 0
        head[148:156] = b" " * 8
        head[148:156] = b"%06o\0 " % sum(head)
        out += bytes(head) + data + bytes(-len(data) % 512)
    (tmp_path / "a").write_bytes(out + bytes(1024))
    assert _members(tmp_path / "a") == ["a.pdf", "b.pdf"]
    assert _read(tmp_path / "a", "b.pdf", archive.TAR) == data


@pytest.mark.parametrize("form", ["gz", "bz2", "xz"])
def test_rubbish_behind_a_compressed_tar_is_passed_over(form: str, tmp_path: Path):
    path = tar_of(tmp_path / "a", {"a.pdf": b"one", "b.pdf": b"two"}, f"w:{form}")
    path.write_bytes(path.read_bytes() + b"rubbish" * 300)
    assert _members(path) == ["a.pdf", "b.pdf"]


def test_a_tar_compressed_in_pieces_is_whole(tmp_path: Path):
    data = tar_of(tmp_path / "x.tar", {"a.pdf": b"a" * 3000, "b.pdf": b"b" * 3000}).read_bytes()
    (tmp_path / "a.tgz").write_bytes(b"".join(gzip.compress(data[n : n + 700]) for n in range(0, len(data), 700)))
    assert _members(tmp_path / "a.tgz") == ["a.pdf", "b.pdf"]
    assert _read(tmp_path / "a.tgz", "b.pdf", archive.TAR) == b"b" * 3000


@pytest.mark.parametrize("form", ["gz", "bz2", "xz"])
def test_of_a_compressed_tar_that_is_cut_off_what_lies_before_is_read(form: str, tmp_path: Path):
    noise = b"".join(zlib.crc32(b"%d" % n).to_bytes(4, "big") for n in range(400_000))
    members = {"a.pdf": b"one", "b.txt": noise[:1_000_000], "c.txt": noise[1_000_000:]}
    path = tar_of(tmp_path / "a", members, f"w:{form}")
    path.write_bytes(path.read_bytes()[:-100_000])
    keys, code, message = _told(path)
    assert (keys[0], code) == ("a.pdf", "broken_document")
    assert message.startswith("the archive is damaged, ")
    assert _read(path, "a.pdf", archive.TAR) == b"one"


# links


def test_links_have_rows_that_say_where_they_lead_and_those_to_folders_none(tmp_path: Path):
    with tarfile.open(tmp_path / "a.tar", "w") as file:
        file.addfile(tarfile.TarInfo("d/a.pdf"))
        for name, kind, target in (
            ("d/hard.pdf", tarfile.LNKTYPE, "d/a.pdf"),
            ("d/soft.pdf", tarfile.SYMTYPE, "a.pdf"),
            ("folder", tarfile.SYMTYPE, "./d"),
            ("d/top", tarfile.SYMTYPE, ".."),
            ("out.pdf", tarfile.SYMTYPE, "../../etc/passwd"),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            file.addfile(info)
    keys = ["d/a.pdf", "d/hard.pdf", "d/soft.pdf", "out.pdf"]
    assert _members(tmp_path / "a.tar") == keys
    said = dict(_failure(tmp_path / "a.tar", key) for key in keys[1:])
    assert list(said) == ["not_a_file"]
    assert _failure(tmp_path / "a.tar", "d/hard.pdf")[1] == (
        "a hard link in the archive to d/a.pdf: only what it leads to is read, if it is in there"
    )


def test_a_link_in_a_zip_has_a_row_and_what_came_through_a_pipe_is_a_file(tmp_path: Path):
    path = _zip(tmp_path / "a.zip", (b"l.pdf", b"a.pdf"), mode=0o120777)
    assert _failure(path, "l.pdf")[0] == "not_a_file"
    assert _read(_zip(tmp_path / "b.zip", (b"-", b"one"), mode=0o010600), "-") == b"one"


# encrypted, packed as nobody unpacks


def test_aes_is_told_apart_from_a_password_that_is_missing(tmp_path: Path):
    for name, flags, method in (("a.zip", 1, 99), ("b.zip", 0x41, 8)):
        path = _zip(tmp_path / name, (b"a.pdf", b"x" * 30), flags=flags, method=method)
        code, message = _failure(path, "a.pdf", RasterLimits(passwords=("p",)))
        assert (code, "AES-encrypted" in message, "not supported" in message) == ("encrypted", True, True)
    path = _zip(tmp_path / "c.zip", (b"a.pdf", b"x" * 30), flags=1)
    assert "--password-file" in _failure(path, "a.pdf")[1]


def test_a_file_packed_as_nobody_unpacks_here_costs_no_other(tmp_path: Path):
    path = _zip(tmp_path / "a.zip", (b"a.pdf", b"one"), (b"b.pdf", b"two"))
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\1\2")
    data[at + 10 : at + 12] = b"\x09\0"
    path.write_bytes(data)
    assert _members(path) == ["a.pdf", "b.pdf"]
    assert _failure(path, "a.pdf") == (
        "unsupported_archive",
        "compressed in the archive by Deflate64: unpack it first",
    )
    assert _read(path, "b.pdf") == b"two"


# jobs


def test_patterns_reach_into_archives_as_if_they_were_folders(tmp_path: Path):
    folder, out = tmp_path / "in", tmp_path / "out"
    (folder / "sub").mkdir(parents=True)
    names = ["a.pdf", "drafts/b.pdf", "deep/drafts/c.pdf", "deep/d.txt", "deep/e f.pdf"]
    data = {name: _pdf(tmp_path, 1, f"{n}.pdf") for n, name in enumerate(names)}
    documents.zip_of(folder / "sub" / "a.zip", data)
    documents.zip_of(folder / "named.zip", data)
    documents.zip_of(folder / "sub" / "left.zip", data)
    (folder / "sub" / ".pagemillignore").write_text("/a.zip/deep/e f.pdf\n")
    exclude = ("drafts/", "*.txt", "/sub/left.zip/")
    job = _job(folder, folder / "named.zip", out=out, exclude=exclude)
    report = run(job)
    uris = sorted(uri.partition("/in/")[2] for (uri,) in _rows(out, "uri"))
    assert uris == ["named.zip!/a.pdf", "named.zip!/deep/e%20f.pdf", "sub/a.zip!/a.pdf"]
    assert report.num_ignored == 3 + 4 + 5 + 1
    assert make_plan(job).pages == 2
    assert verify(str(out), ()).faults == []
    assert run(job).totals.pages == 0


def test_a_row_of_what_an_archive_has_and_is_not_read_is_written_once(tmp_path: Path):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    with tarfile.open(folder / "a.tar", "w") as file:
        info = tarfile.TarInfo("a.pdf")
        data = _pdf(tmp_path)
        info.size = len(data)
        file.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("b.pdf")
        link.type, link.linkname = tarfile.LNKTYPE, "a.pdf"
        file.addfile(link)
    _zip(folder / "b.zip", (b"c.pdf", b"x" * 30), flags=1)
    for done in (0, 3):
        report = run(_job(folder, out=out))
        assert report.totals.documents_already_done == done
    ends = {(uri.rpartition("/")[2], code) for uri, code in _rows(out, "uri", "error_code")}
    assert ends == {("a.pdf", None), ("b.pdf", "not_a_file"), ("c.pdf", "encrypted")}
    assert len(_rows(out, "uri")) == 3
    assert verify(str(out), ()).faults == []


def test_many_members_cost_one_look_at_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = documents.zip_of(tmp_path / "a.zip", {f"{n}.txt": b"%d" % n for n in range(60)})
    looked = []
    real = archive.Zip
    monkeypatch.setattr(archive, "Zip", lambda *args: looked.append(args) or real(*args))
    uri = uri_of_path(str(path))
    for number in range(60):
        probe(Source(uri_of_member(uri, f"{number}.txt")))
    assert len(looked) == 2
