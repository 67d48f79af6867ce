"""Census: which documents an output has told of, what they held, and which of them a run has not met again. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b

from pipeline.document import member_of_uri

_CONTENT_BYTES = 8
"""Of the digest of a content so much is kept: it is only held against the one other content of the same URI."""


class Change(StrEnum):
    """What a document is, next to what the output has told of its URI."""

    NEW = "new"
    CHANGED = "changed"
    SAME = "same"


@dataclass(slots=True)
class Census:
    """Documents that have a row in `documents`, under any configuration: about 180 bytes of memory each.

    Those that had vanished count as not known. A run tells which sources it meets and which folders, archives and
    files it could not look into; what it has neither met nor had to doubt may have vanished.
    """

    _contents: dict[bytes, int] = field(default_factory=dict)
    _unmet: set[bytes] = field(default_factory=set)
    _archives: set[bytes] = field(default_factory=set)
    _doubted: set[bytes] = field(default_factory=set)

    def note(self, uri: str, document_id: str | None, *, vanished: bool = False) -> None:
        """Note a row of `documents`; a later row of the same URI counts."""
        key = digest(uri)
        if vanished:
            self._contents.pop(key, None)
            self._unmet.discard(key)
        else:
            self._hold(key, document_id)
            self._unmet.add(key)

    def tell(self, uri: str, document_id: str | None) -> Change:
        """Note that a document gets a row in this run: what it is, next to its row before that."""
        key = digest(uri)
        known = self._contents.get(key)
        self._hold(key, document_id)
        self._unmet.discard(key)
        if known is None:
            return Change.NEW
        return Change.SAME if known == self._contents[key] else Change.CHANGED

    def _hold(self, key: bytes, document_id: str | None) -> None:
        """What cannot be read at the moment is held to be what it was."""
        if document_id is not None or key not in self._contents:
            self._contents[key] = int.from_bytes(digest(document_id or "")[:_CONTENT_BYTES])

    def meet(self, uri: str) -> None:
        """Note that a source is there."""
        if self._unmet:
            self._unmet.discard(digest(uri))

    def look_into(self, archive_uri: str, members: Iterable[str]) -> None:
        """Note the URIs of all that is in an archive, those that the job leaves out among them."""
        self._archives.add(digest(archive_uri))
        for uri in members:
            self.meet(uri)

    def doubt(self, uri: str) -> None:
        """Note that a folder, an archive or a file could not be looked into: nothing in it has vanished for sure."""
        self._doubted.add(digest(uri))

    @property
    def num_unmet(self) -> int:
        """Documents not met so far."""
        return len(self._unmet)

    def is_missed(self, uri: str) -> bool:
        """Whether a known document was not met, and no folder or archive above it is in doubt."""
        return digest(uri) in self._unmet and not any(digest(above) in self._doubted for above in _above(uri))

    def was_looked_into(self, archive_uri: str) -> bool:
        """Whether this archive was read, or is a document of its own by now: then what was not met in it is gone."""
        key = digest(archive_uri)
        return key in self._archives or (key in self._contents and key not in self._unmet)

    def forget(self, uri: str) -> None:
        """Note that a document has vanished, and was told of."""
        self.note(uri, None, vanished=True)


def digest(name: str, of: str = "") -> bytes:
    """128 bits that stand for a name, or a name and what it is of."""
    return blake2b(f"{name}\0{of}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


def archive_of(uri: str) -> str | None:
    """The URI of the archive that a document is a member of; None if it is a file."""
    member = member_of_uri(uri)
    return uri[: -len(member) - 2] if member else None


def _above(uri: str) -> Iterable[str]:
    """A URI, and those of all that it lies in."""
    yield uri
    archive = archive_of(uri)
    if archive is not None:
        yield archive
    end = uri.rfind("/")
    while end > 0:
        yield uri[:end]
        end = uri.rfind("/", 0, end)
