"""Download: an object as it was at one moment into a file, length and checksum verified, whatever cuts the line."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any

import obstore

from pipeline.errors import ErrorCode, PageFault
from pipeline.location import Location
from pipeline.store.connection import PATIENCE_S, Trouble, connect, lost, pauses, raise_for_row, trouble_of
from pipeline.store.objects import FAULTS, Seen, seen

_CHUNK_BYTES = 1 << 20
_SLOWEST_BYTES_PER_S = 50_000
"""A download that is slower in the whole, and takes longer than the patience, is given up."""

_MAX_STARTS = 5
"""How often an object may be replaced while it is read, or be different each time."""

_MD5 = re.compile(r"([0-9a-f]{32})")
"""An etag that may be the MD5 of the content: so it is on S3 for what was put at once and has no key of its own."""

_not_md5: set[str] = set()
"""Buckets of which the etags have turned out to be no MD5 of the content."""


class _Cut(Exception):
    """The line was cut, or the store refuses: the cause says."""


@dataclass(slots=True)
class _Digests:
    md5: Any = field(default_factory=lambda: hashlib.md5(usedforsecurity=False))
    sha256: Any = field(default_factory=hashlib.sha256)

    def update(self, chunk: bytes) -> None:
        self.md5.update(chunk)
        self.sha256.update(chunk)


def fetch(location: Location, file: IO[bytes], *, etag: str | None = None, patience_s: float = PATIENCE_S) -> Seen:
    """Write the content of an object to an empty file.

    Args:
        location: Where the object is.
        file: Open for writing, at its start.
        etag: The version wanted; None for whatever is there.
        patience_s: How long a store that does not answer is asked again.

    Raises:
        PageFault: the object is gone, of another version, may not be read, or is another each time it is read.
        InputsLostError: the store cannot be reached or lets nobody in.
    """
    before: set[tuple[str, str]] = set()
    for _ in range(_MAX_STARTS):
        file.seek(0)
        file.truncate()
        download = _Download(location, file, etag, patience_s)
        try:
            found = download.whole()
        except PageFault as fault:
            if fault.code is ErrorCode.DOCUMENT_CHANGED and etag is None:
                continue
            raise
        read = (found.etag, download.digests.sha256.hexdigest())
        match = _MD5.fullmatch(found.etag)
        if match is None or location.root in _not_md5 or match[1] == download.digests.md5.hexdigest():
            return found
        if read in before:  # the same twice: then the etag is no checksum of the content
            _not_md5.add(location.root)
            return found
        before.add(read)
    raise PageFault(ErrorCode.UNREADABLE, "the object came differently each time it was read")


@dataclass(slots=True)
class _Download:
    """One version of an object on its way into a file."""

    location: Location
    file: IO[bytes]
    etag: str | None
    patience_s: float
    digests: _Digests = field(default_factory=_Digests)
    _seen: Seen | None = None
    _started: float = field(default_factory=time.monotonic)

    def whole(self) -> Seen:
        """Read on until all is there.

        Raises:
            PageFault, InputsLostError: see `fetch`.
        """
        waits = pauses(self.patience_s)
        while True:
            had = self.file.tell()
            try:
                for chunk in self._chunks():
                    self.file.write(chunk)
                    self.digests.update(chunk)
                    self._must_be_fast_enough()
                if self._seen is not None and self.file.tell() == self._seen.size_bytes:
                    return self._seen
                problem: BaseException = EOFError("the answer ended early")
            except _Cut as cut:
                problem = cut.__cause__ or cut
                if trouble_of(problem) is not Trouble.TRANSIENT:
                    raise_for_row(problem, self.location.root)
            if self.file.tell() > had:
                waits = pauses(self.patience_s)
            if next(waits, None) is None:
                raise lost(problem, self.location.root) from problem

    def _chunks(self) -> Iterator[bytes]:
        """What one request gives from where the file ends."""
        options: dict[str, Any] = {}
        wanted = self._seen.etag if self._seen else self.etag
        if wanted and not wanted.startswith("time:"):
            options["if_match"] = wanted if wanted.startswith("W/") else f'"{wanted}"'
        if self.file.tell():
            options["range"] = {"offset": self.file.tell()}
        try:
            objects = connect(self.location.at(""), self.patience_s)
            answer = obstore.get(objects, self.location.key, options=options or None)  # type: ignore[arg-type]
            self._seen = self._seen or seen(self.location, answer.meta)
            stream = iter(answer.stream(min_chunk_size=_CHUNK_BYTES))
        except FAULTS as error:
            raise _Cut from error
        if wanted and wanted != self._seen.etag:
            raise PageFault(ErrorCode.DOCUMENT_CHANGED, "the object was replaced during the run")
        while True:
            try:
                chunk = next(stream, None)
            except FAULTS as error:
                raise _Cut from error
            if chunk is None:
                return
            yield bytes(chunk)

    def _must_be_fast_enough(self) -> None:
        spent_s = time.monotonic() - self._started
        if spent_s > self.patience_s and self.file.tell() < _SLOWEST_BYTES_PER_S * (spent_s - self.patience_s):
            raise lost(TimeoutError(f"{self.file.tell():,} bytes in {spent_s:.0f} s"), self.location.root)
