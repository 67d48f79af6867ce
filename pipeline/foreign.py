"""Foreign: kinds of files that people keep among their documents and that are none we read, and what to do. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection

from pipeline.errors import ErrorCode

_TO_PDF = "convert it to PDF first, for example: soffice --headless --convert-to pdf FILE"
_WITH = "convert it to PDF first, for example with"
_SAVE = "save its attachments as files, and print the message to PDF"
_UNPACK = "unpack it first"

FOREIGN: dict[str, tuple[ErrorCode, str]] = {
    "application/msword": (ErrorCode.OFFICE_DOCUMENT, f"a Word document: {_TO_PDF}"),
    "application/vnd.ms-excel": (ErrorCode.OFFICE_DOCUMENT, f"an Excel workbook: {_TO_PDF}"),
    "application/vnd.ms-powerpoint": (ErrorCode.OFFICE_DOCUMENT, f"a PowerPoint presentation: {_TO_PDF}"),
    "application/vnd.oasis.opendocument": (ErrorCode.OFFICE_DOCUMENT, f"an OpenDocument file: {_TO_PDF}"),
    "application/x-ole-storage": (ErrorCode.OFFICE_DOCUMENT, f"a Microsoft Office file: {_TO_PDF}"),
    "application/vnd.openxmlformats-package": (ErrorCode.OFFICE_DOCUMENT, f"an Office file or package: {_TO_PDF}"),
    "application/rtf": (ErrorCode.OFFICE_DOCUMENT, f"a rich text document: {_TO_PDF}"),
    "application/epub+zip": (
        ErrorCode.OFFICE_DOCUMENT,
        f"an e-book: {_WITH} ebook-convert",
    ),
    "text/html": (ErrorCode.OFFICE_DOCUMENT, f"a web page: {_WITH} a headless browser"),
    "image/svg+xml": (
        ErrorCode.OFFICE_DOCUMENT,
        f"a drawing (SVG): {_WITH} rsvg-convert",
    ),
    "application/postscript": (ErrorCode.OFFICE_DOCUMENT, f"PostScript: {_WITH} ps2pdf"),
    "image/vnd.djvu": (ErrorCode.OFFICE_DOCUMENT, f"a DjVu document: {_WITH} ddjvu -format=pdf"),
    "image/heif": (ErrorCode.OFFICE_DOCUMENT, "a HEIC or AVIF picture: convert it to JPEG or PNG first"),
    "message/rfc822": (ErrorCode.EMAIL, f"an e-mail: {_SAVE}"),
    "application/vnd.ms-outlook": (
        ErrorCode.EMAIL,
        f"an Outlook message: {_SAVE}",
    ),
    "application/mbox": (ErrorCode.EMAIL, "a mailbox: save the messages' attachments as files"),
    "application/x-7z-compressed": (ErrorCode.UNSUPPORTED_ARCHIVE, f"a 7z archive: {_UNPACK}"),
    "application/vnd.rar": (ErrorCode.UNSUPPORTED_ARCHIVE, f"a RAR archive: {_UNPACK}"),
    "application/gzip": (ErrorCode.UNSUPPORTED_ARCHIVE, f"a compressed file that is no tar archive: {_UNPACK}"),
    "application/java-archive": (ErrorCode.UNSUPPORTED_ARCHIVE, f"a program's archive: {_UNPACK}"),
}
"""Media types that are told apart only to say what to do; the code is that of the row, the text its message."""

_MAGIC = (
    (b"{\\rtf", "application/rtf"),
    (b"%!PS", "application/postscript"),
    (b"\xc5\xd0\xd3\xc6", "application/postscript"),
    (b"AT&TFORM", "image/vnd.djvu"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"Rar!\x1a\x07", "application/vnd.rar"),
    (b"!BDN", "application/vnd.ms-outlook"),
)
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_OLE_STREAMS = (
    ("__substg1.0_", "application/vnd.ms-outlook"),
    ("WordDocument", "application/msword"),
    ("Workbook", "application/vnd.ms-excel"),
    ("PowerPoint Document", "application/vnd.ms-powerpoint"),
)
_HEIF = re.compile(rb"....ftyp(heic|heix|hevc|heim|heis|mif1|msf1|avif|avis)", re.DOTALL)
_MARKUP = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(!doctype html|html|svg|!doctype svg)", re.DOTALL
)
_MAIL = re.compile(
    rb"(?:return-path|received|delivered-to|message-id|mime-version|from|to|subject|date|reply-to|dkim-signature"
    rb"|authentication-results|x-[a-z-]+): ?[^\r\n]*\r?\n",
    re.IGNORECASE,
)
_MAIL_FROM = re.compile(rb"^from: ", re.IGNORECASE | re.MULTILINE)
_MBOX = re.compile(rb"From \S+ +\w{3} \w{3} [ \d]\d [\d:]{8}")
_PACKAGES = (
    ("word/", "application/msword"),
    ("xl/", "application/vnd.ms-excel"),
    ("ppt/", "application/vnd.ms-powerpoint"),
)


def foreign_type_of(head: bytes) -> str | None:
    """The media type of a foreign file from its first bytes, the more the better; None if it is of none known here."""
    if head.startswith(_OLE):
        named = (kind for stream, kind in _OLE_STREAMS if stream.encode("utf-16-le") in head)
        return next(named, "application/x-ole-storage")
    found = [media_type for signature, media_type in _MAGIC if head.startswith(signature)]
    if markup := _MARKUP.match(head[:4096].lower()):
        found.append("image/svg+xml" if b"svg" in markup[1] else "text/html")
    if _HEIF.match(head):
        found.append("image/heif")
    if _MBOX.match(head):
        found.append("application/mbox")
    if _MAIL.match(head) and _MAIL_FROM.search(head[:65536]):
        found.append("message/rfc822")
    return found[0] if found else None


def package_type_of(names: Collection[str], mimetype: bytes) -> str | None:
    """The media type of a ZIP that is a document or program itself, by the names in it; None if it is an archive.

    Args:
        names: The members.
        mimetype: The beginning of the member called `mimetype`, empty if there is none.
    """
    if mimetype.startswith(b"application/epub"):
        return "application/epub+zip"
    if mimetype.startswith(b"application/vnd.oasis.opendocument"):
        return "application/vnd.oasis.opendocument"
    if any(name.lower().endswith(".fdseq") for name in names):
        return "application/oxps"
    if "[Content_Types].xml" in names:
        kinds = (kind for folder, kind in _PACKAGES if any(name.startswith(folder) for name in names))
        return next(kinds, "application/vnd.openxmlformats-package")
    if "META-INF/MANIFEST.MF" in names or "AndroidManifest.xml" in names:
        return "application/java-archive"
    return None
