"""Files that are no documents are told apart, and what is said of them is what to do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import SKIPPED_CODES
from pipeline.foreign import FOREIGN, foreign_type_of, package_type_of

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512)


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (OLE, "application/x-ole-storage"),
        (OLE + "WordDocument".encode("utf-16-le"), "application/msword"),
        (OLE + "Workbook".encode("utf-16-le"), "application/vnd.ms-excel"),
        (OLE + "PowerPoint Document".encode("utf-16-le"), "application/vnd.ms-powerpoint"),
        (OLE + "__substg1.0_0037001F".encode("utf-16-le"), "application/vnd.ms-outlook"),
        (b"!BDN\x00", "application/vnd.ms-outlook"),
        (b"{\\rtf1\\ansi hello}", "application/rtf"),
        (b"%!PS-Adobe-3.0", "application/postscript"),
        (b"AT&TFORM\x00\x00\x00\x10DJVU", "image/vnd.djvu"),
        (b"7z\xbc\xaf\x27\x1c\x00\x04", "application/x-7z-compressed"),
        (b"Rar!\x1a\x07\x01\x00", "application/vnd.rar"),
        (b"\x00\x00\x00\x18ftypheic\x00", "image/heif"),
        (b"\x00\x00\x00\x1cftypavif\x00", "image/heif"),
        (b"<!DOCTYPE html><p>", "text/html"),
        (b"\xef\xbb\xbf\n<html lang=en>", "text/html"),
        (b"<?xml version='1.0'?>\n<!-- made -->\n<svg xmlns=", "image/svg+xml"),
        (b"From ada@example.org Mon Feb  5 10:00:00 2024\nSubject: x\n", "application/mbox"),
        (b"Received: by mail\r\nFrom: ada@example.org\r\nSubject: x\r\n\r\nhello", "message/rfc822"),
        (b"X-Mailer: m\nDate: Mon\nFrom: a\n\n", "message/rfc822"),
    ],
)
def test_a_kind_is_told_by_its_content(head: bytes, kind: str):
    assert foreign_type_of(head) == kind
    assert kind in FOREIGN


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"Date: Monday\nwe went out\n",
        b"From here on it rains",
        b"<letter>",
        b"a,b,c\n1,2,3\n",
        b"To: whom\nit may",
    ],
)
def test_a_text_like_any_other_is_of_no_kind(head: bytes):
    assert foreign_type_of(head) is None


@pytest.mark.parametrize(
    ("names", "mimetype", "kind"),
    [
        (["[Content_Types].xml", "word/document.xml"], b"", "application/msword"),
        (["[Content_Types].xml", "xl/workbook.xml"], b"", "application/vnd.ms-excel"),
        (["[Content_Types].xml", "ppt/slides/1.xml"], b"", "application/vnd.ms-powerpoint"),
        (["[Content_Types].xml", "3D/model.xml"], b"", "application/vnd.openxmlformats-package"),
        (["[Content_Types].xml", "FixedDocSeq.fdseq"], b"", "application/oxps"),
        (["mimetype", "content.xml"], b"application/vnd.oasis.opendocument.text", "application/vnd.oasis.opendocument"),
        (["mimetype", "a.xhtml"], b"application/epub+zip", "application/epub+zip"),
        (["META-INF/MANIFEST.MF", "a.class"], b"", "application/java-archive"),
        (["AndroidManifest.xml"], b"", "application/java-archive"),
        (["a.pdf", "word/b.pdf"], b"", None),
        ([], b"", None),
    ],
)
def test_a_package_is_told_from_an_archive_by_its_names(names: list[str], mimetype: bytes, kind: str | None):
    assert package_type_of(names, mimetype) == kind


def test_what_is_said_of_each_kind_is_one_line_with_the_step_to_take():
    for code, message in FOREIGN.values():
        assert code in SKIPPED_CODES
        assert ": " in message
        assert "\n" not in message


@given(st.binary(max_size=300))
def test_any_bytes_have_at_most_one_kind(head: bytes):
    assert foreign_type_of(head) in {None, *FOREIGN}
