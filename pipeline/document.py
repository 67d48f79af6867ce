"""Document: one input file, what it is known by, and what its first bytes say it is."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import unquote_to_bytes

from pipeline.errors import ErrorCode

HEAD_BYTES = 2048
"""How much of a file `media_type_of` wants to see."""


@dataclass(frozen=True, slots=True)
class Source:
    """A place where a document should be, not opened yet.

    `problem` is set when looking was enough to know that nothing can be read there (a folder without
    permission, a pipe); the source then becomes one row and is never opened. `etag` is that of the file as
    the listing showed it, None where it showed none; `since_ns` since when it has been as it is there, in
    nanoseconds since 1970.
    """

    uri: str
    problem: ErrorCode | None = None
    detail: str = ""
    etag: str | None = field(default=None, compare=False)
    since_ns: int | None = field(default=None, compare=False)

    @property
    def key(self) -> tuple[str, int]:
        """What tells the source from every other and from the pages in it."""
        return self.uri, -1


@dataclass(frozen=True, slots=True)
class Document:
    """One input file.

    `document_id` is the SHA-256 of its bytes in hex; it and `page_count` are None where the file could
    not be read or opened. `modified_at` is UTC.
    """

    uri: str
    document_id: str | None = None
    size_bytes: int | None = None
    modified_at: datetime | None = None
    etag: str | None = None
    media_type: str | None = None
    page_count: int | None = None


_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"\x00\x00\x00\x0cjP  \r\n\x87\n", "image/jp2"),
    (0, b"\xff\x4f\xff\x51", "image/jp2"),
    (0, b"II*\x00", "image/tiff"),
    (0, b"MM\x00*", "image/tiff"),
    (0, b"II+\x00", "image/tiff"),
    (0, b"MM\x00+", "image/tiff"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
)
"""Signatures as the formats' specifications give them: offset, bytes, media type."""

_PNM_GAP = rb"(?:\s|#[^\r\n]*[\r\n])+"
_HEADERS = (
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "image/webp"),
    (re.compile(rb"BM.{12}[\x0C\x10\x28\x34\x38\x40\x6C\x7C]\0\0\0", re.DOTALL), "image/bmp"),
    (re.compile(rb"P[1-6]" + _PNM_GAP + rb"\d+" + _PNM_GAP + rb"\d+\s"), "image/x-portable-anymap"),
)
"""Types whose signature alone is a word that a text may begin with ("BMW", "P1 is urgent"): more is asked of them.
For BMP that is the size of the second header, one of eight; for PNM a width and a height."""

_PDF_HEADER = re.compile(rb"%PDF-\d")
_WRAPPED = (b"\x00\x05\x16\x00", b"\x00\x05\x16\x07")  # AppleSingle, AppleDouble

MULTI_FRAME_TYPES = frozenset({"image/tiff", "image/gif", "image/webp"})
"""Image types of which every frame is a page; of any other image the first picture is the page."""

MUPDF_TYPES = frozenset({"application/pdf", "application/oxps"})

DOCUMENT_SUFFIXES = frozenset(
    {
        *(".pdf", ".xps", ".oxps", ".png", ".jpg", ".jpeg", ".jpe", ".jp2", ".j2k", ".j2c", ".jpx", ".jpf"),
        *(".tif", ".tiff", ".webp", ".gif", ".bmp", ".dib", ".pnm", ".pbm", ".pgm", ".ppm"),
    }
)
"""Endings of names that claim to be a document. They never decide what a file is, only whether a file
that is none counts as a failure (it claimed to be one) or is skipped (it did not)."""


def media_type_of(head: bytes) -> str | None:
    """Tell the type of a file from its first `HEAD_BYTES` bytes, or None if it is no document we read.

    A PDF header may stand anywhere in the first 1,024 bytes (ISO 32000-1, annex H, note 13). XPS is told by
    the directory at the end of its ZIP, which is for `pipeline.raster` to read.
    """
    if head.startswith(_WRAPPED):
        return None
    for offset, signature, media_type in _MAGIC:
        if head.startswith(signature, offset):
            return media_type
    for header, media_type in _HEADERS:
        if header.match(head):
            return media_type
    if _PDF_HEADER.search(head[:1024]):
        return "application/pdf"
    return None


def local_etag(status: os.stat_result) -> str:
    """Changes whenever a local file is replaced or written: inode, size, time of change of content and of inode.

    The last changes with a link or a right, too, but nobody can set it back: a file put in the place of another
    with the same time and size may well get the same inode.
    """
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ctime_ns:x}"


def same_content(one: str | None, other: str | None) -> bool:
    """Whether two local etags are of one content, as far as can be seen: all but the time of the inode's change."""
    return one is not None and other is not None and one.rsplit("-", 1)[0] == other.rsplit("-", 1)[0]


def claims_to_be_a_document(uri: str) -> bool:
    """Whether the ending of the name is that of a type Pagemill reads."""
    return os.path.splitext(uri)[1].lower() in DOCUMENT_SUFFIXES


_KEEP = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/!$&'()*+,;=:@")


def absolute_path(path: str) -> str:
    """As `os.path.abspath`, which lets two slashes stand at the front: a file would have two names."""
    return "/" + os.path.abspath(path).lstrip("/")


def uri_of_path(path: str) -> str:
    """The `file://` URI of an absolute local path, whatever bytes the path has.

    Printable letters beyond ASCII stay as they are (an IRI, RFC 3987), so that a person can read and
    search the column; a byte that is not UTF-8, a control, a blank, `%`, `?` and `#` are escaped, and so is
    an exclamation mark at the end of a folder's name, since `!/` leads into an archive.
    """
    return "file://" + escaped(path).replace(INTO, "%21/")


def escaped(name: str) -> str:
    """A path or the name of a member as it is written in a URI."""
    try:
        text = os.fsencode(name).decode("utf-8")
    except UnicodeDecodeError:
        return "".join(_escape(byte) for byte in os.fsencode(name))
    except UnicodeEncodeError:  # lone surrogates that stand for no byte
        return "".join(_escape(byte) for byte in name.encode("utf-8", "surrogatepass"))
    return "".join(_iri(character) for character in text)


def path_of_uri(uri: str) -> str:
    """The local path of a `file://` URI, of a member that of its archive: the inverse of `uri_of_path`, byte for byte.

    The host may be named as `localhost` (RFC 8089).
    """
    path = uri.removeprefix("file://").partition(INTO)[0]
    return os.fsdecode(unquote_to_bytes(path.removeprefix("localhost") if path.startswith("localhost/") else path))


def member_of_uri(uri: str) -> str:
    """The key of the member of an archive that a URI names; empty if it names a file."""
    return uri.partition(INTO)[2]


def path_in_archive(uri: str) -> str:
    """The path that a member has in its archive, as if that were a folder; of two of one name it is the same."""
    return os.fsdecode(unquote_to_bytes(member_of_uri(uri).partition("#")[0]))


def uri_of_member(archive_uri: str, key: str) -> str:
    """The URI of a member by its key."""
    return f"{archive_uri}{INTO}{key}"


def is_litter(name: str) -> bool:
    """Whether a name is hidden, or that of what desktop systems and Office leave lying about."""
    return name.startswith((".", "~$")) or name.lower() in _LITTER


def is_unfinished(name: str) -> bool:
    """Whether the name of a file is that of one which is still being written or loaded."""
    return name.lower().endswith(_UNFINISHED)


INTO = "!/"
"""What leads into an archive, in a URI."""

_UNFINISHED = (".tmp", ".part", ".partial", ".crdownload", ".download")
_LITTER = ("thumbs.db", "desktop.ini", "ehthumbs.db", "__macosx")


def _escape(byte: int) -> str:
    return chr(byte) if byte in _KEEP else f"%{byte:02X}"


def _iri(character: str) -> str:
    if ord(character) < 128:
        return _escape(ord(character))
    if character.isprintable():
        return character
    return "".join(f"%{byte:02X}" for byte in character.encode())
