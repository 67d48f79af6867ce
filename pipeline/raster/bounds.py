"""Bounds: how many files an archive may have, and how much may come out of it and of each of them."""

from __future__ import annotations

from pipeline.errors import ErrorCode, PageFault

MAX_MEMBERS = 100_000
MAX_MEMBER_BYTES = 1 << 30
"""What a member may have unless the job says how large a document may be."""

MAX_UNPACKED_BYTES = 4 << 30
"""What may come out of any archive, however small: a few scans of blank paper are not suspected."""
MAX_RATIO = 200
"""What may come out of a larger one, in bytes for each of its own. Deflate makes 1,032 of one, bzip2 a million."""


def most_unpacked_bytes(archive_bytes: int) -> int:
    """How many bytes may come out of an archive in all."""
    return max(MAX_UNPACKED_BYTES, MAX_RATIO * archive_bytes)


def too_many_files(most: int) -> PageFault:
    """What to say of an archive with more files than this."""
    return PageFault(ErrorCode.DOCUMENT_TOO_LARGE, f"more than {most:,} files in the archive: unpack it first")


def too_much_in_all(most: int) -> PageFault:
    """What to say of an archive out of which more bytes come than this."""
    said = f"more than {most:,} bytes in the archive in all, as in a bomb: unpack it first"
    return PageFault(ErrorCode.DOCUMENT_TOO_LARGE, said)


def too_large_a_member(limit: int) -> PageFault:
    """What to say of a member of more bytes than this."""
    return PageFault(ErrorCode.DOCUMENT_TOO_LARGE, f"more than {limit:,} bytes in the archive (--max-document-bytes)")
