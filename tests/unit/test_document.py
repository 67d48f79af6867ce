"""Laws of names, and of telling a file's type from its first bytes."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.document import (
    DOCUMENT_SUFFIXES,
    claims_to_be_a_document,
    escaped,
    local_etag,
    media_type_of,
    path_of_uri,
    same_content,
    uri_of_path,
)

path_bytes = st.lists(st.integers(1, 255), max_size=40).map(lambda values: b"/" + bytes(values))


@given(path_bytes)
@example("/ü – 漢字/a b#c%20?d".encode())
@example(b"/\xff\xfe.pdf")
@example(b"/a\n\t\x7f\x01")
@example("/\u00ad\u200b\ue000\U0001f600".encode())
def test_a_path_comes_back_from_its_uri_byte_for_byte(path: bytes):
    assert os.fsencode(path_of_uri(uri_of_path(os.fsdecode(path)))) == path


@given(path_bytes, path_bytes)
def test_two_paths_never_share_a_uri(one: bytes, other: bytes):
    assert (uri_of_path(os.fsdecode(one)) == uri_of_path(os.fsdecode(other))) == (one == other)


@given(path_bytes)
def test_a_uri_is_one_printable_line_without_blanks(path: bytes):
    uri = uri_of_path(os.fsdecode(path))
    assert uri.startswith("file:///")
    assert uri.isprintable()
    assert " " not in uri
    assert "#" not in uri
    assert "?" not in uri


def test_letters_of_all_languages_stay_readable_in_a_uri():
    assert uri_of_path("/Übersicht/漢字 (1).pdf") == "file:///Übersicht/漢字%20(1).pdf"
    assert uri_of_path(os.fsdecode(b"/caf\xe9.pdf")) == "file:///caf%E9.pdf"


BMP_HEAD = b"BM" + struct.pack("<IHHI", 70, 0, 0, 54) + struct.pack("<IiiHH", 40, 1, 1, 1, 24)
HEADS = {
    "png": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png"),
    "jpeg": (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
    "jpeg_2000_file": (b"\0\0\0\x0cjP  \r\n\x87\n\0\0\0\x14ftypjp2 ", "image/jp2"),
    "jpeg_2000_stream": (b"\xff\x4f\xff\x51\0\x2f", "image/jp2"),
    "tiff_little": (b"II*\0\x08\0\0\0", "image/tiff"),
    "tiff_big": (b"MM\0*\0\0\0\x08", "image/tiff"),
    "bigtiff_little": (b"II+\0\x08\0\0\0", "image/tiff"),
    "bigtiff_big": (b"MM\0+\0\x08\0\0", "image/tiff"),
    "gif_87": (b"GIF87a\x01\0\x01\0", "image/gif"),
    "gif_89": (b"GIF89a\x01\0\x01\0", "image/gif"),
    "webp": (b"RIFF\x1a\0\0\0WEBPVP8L", "image/webp"),
    "bmp": (BMP_HEAD, "image/bmp"),
    "bmp_os2": (b"BM" + struct.pack("<IHHI", 30, 0, 0, 26) + struct.pack("<IHHHH", 12, 1, 1, 1, 24), "image/bmp"),
    "pbm": (b"P4\n8 1\n\0", "image/x-portable-anymap"),
    "ppm_text": (b"P3\n# made by hand\n1 1\n255\n0 0 0\n", "image/x-portable-anymap"),
    "pgm_comment_in_the_size": (b"P5 # gray\n2 # wide\n 3 255\n......", "image/x-portable-anymap"),
    "pdf": (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "application/pdf"),
    "pdf_2": (b"%PDF-2.0\n", "application/pdf"),
    "pdf_after_a_byte_order_mark": (b"\xef\xbb\xbf%PDF-1.4\n", "application/pdf"),
    "pdf_after_junk": (b"\r\nHTTP/1.1 200 OK\r\n\r\n" + b"x" * 900 + b"%PDF-1.4\n", "application/pdf"),
}


@pytest.mark.parametrize("name", HEADS)
def test_the_first_bytes_tell_the_type(name: str):
    head, media_type = HEADS[name]
    assert media_type_of(head) == media_type


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"plain text",
        b"PK\x03\x04",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",  # .doc
        b"x" * 1020 + b"%PDF-1.4",  # past the first 1,024 bytes
        b"%PDF",
        b"%PDF-x",
        b"\x00\x05\x16\x07\0\x02\0\0Mac OS X        %PDF-1.4",  # AppleDouble: what macOS writes beside a file
        b"\x00\x05\x16\x00\0\x02\0\0%PDF-1.4",
        b"BMW invoices of the year\n",
        b"BM" + b" " * 60,
        b"P1 is a priority, P2 is not\n",
        b"P5",
        b"P6\n12 monkeys\n",
        b"........WEBP is a format",
        b"RIFF\x24\0\0\0WAVEfmt ",
        b"GIF88a",
        b"\xff\xd8",
        b"II*",
    ],
)
def test_what_is_no_document_has_no_type(head: bytes):
    assert media_type_of(head) is None


@given(st.binary(max_size=64))
def test_any_bytes_are_told_or_not_told_but_never_raise(head: bytes):
    assert media_type_of(head) in {None, *(media_type for _, media_type in HEADS.values())}


@given(st.sampled_from(sorted(DOCUMENT_SUFFIXES)), st.booleans())
def test_the_ending_of_a_name_is_a_claim_in_any_case(suffix: str, upper: bool):
    assert claims_to_be_a_document("file:///folder.x/name" + (suffix.upper() if upper else suffix))


@pytest.mark.parametrize(
    "uri", ["file:///a.doc", "file:///pdf", "file:///a.pdf/readme", "file:///.pdf", "file:///a.pam"]
)
def test_other_names_claim_nothing(uri: str):
    assert not claims_to_be_a_document(uri)


def test_an_etag_changes_with_the_inode_and_the_content_is_another_only_with_the_rest(tmp_path: Path):
    path = tmp_path / "a"
    path.write_bytes(b"one")
    before = path.stat()
    path.chmod(0o600)
    os.link(path, tmp_path / "b")
    linked = path.stat()
    path.write_bytes(b"two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    swapped = path.stat()
    assert len({local_etag(status) for status in (before, linked, swapped)}) == 3
    assert same_content(local_etag(before), local_etag(linked))
    os.utime(path)
    assert not same_content(local_etag(before), local_etag(path.stat()))
    assert not same_content(None, None)


def test_a_name_that_no_file_system_gives_can_be_written_in_a_uri_all_the_same():
    assert escaped("a\ud800b") == "a%ED%A0%80b"
