"""Objects: what lies in a bucket, listed and looked at; a listing goes on where a lost connection has cut it off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import obstore
from obstore.exceptions import BaseError

from pipeline.errors import InputError
from pipeline.location import Location
from pipeline.store.boto import listed_by_boto, starts_with_a_slash
from pipeline.store.connection import PATIENCE_S, Trouble, connect, lost, pauses, trouble_of

FAULTS = (BaseError, OSError, ValueError)
"""What obstore raises."""

_CHUNK = 1000


@dataclass(frozen=True, slots=True)
class Seen:
    """An object as a listing or a look at it shows it; `problem` is why it cannot be read, if that is known.

    `etag` is that of the store without quotes (Azure lists it so, and gives it with them), or where it has none the
    time of its last change and its size.
    """

    location: Location
    size_bytes: int
    modified_at: datetime
    etag: str
    problem: str | None = None


def seen(location: Location, meta: Any) -> Seen:
    """What obstore tells of an object."""
    etag = (meta["e_tag"] or "").strip('"') or f"time:{meta['last_modified'].isoformat()}:{meta['size']}"
    return Seen(location, meta["size"], meta["last_modified"], etag)


def look(location: Location, patience_s: float = PATIENCE_S) -> Seen | None:
    """An object as it is now; None if there is none, or nobody may look.

    Raises:
        InputsLostError: the store cannot be reached or lets nobody in.
    """
    found = _look(location, patience_s)
    return found if isinstance(found, Seen) else None


def _look(location: Location, patience_s: float) -> Seen | Trouble:
    """An object as it is now, or why there is none to be seen. That a look is refused has no reason with it."""
    objects, waits = connect(location.at(""), patience_s), pauses(patience_s)
    while True:
        try:
            return seen(location, obstore.head(objects, location.key))
        except FAULTS as error:
            trouble = trouble_of(error)
            if trouble in (Trouble.GONE, Trouble.BAD_KEY, Trouble.DENIED):
                return trouble
            if trouble is not Trouble.TRANSIENT or next(waits, None) is None:
                raise lost(error, location.root) from error


def text_of(location: Location, patience_s: float = PATIENCE_S) -> str | None:
    """The content of a small object as text; None if there is none, or it is not there to be read.

    Raises:
        InputsLostError: the store cannot be reached or lets nobody in.
    """
    if look(location, patience_s) is None:
        return None
    try:
        data = bytes(obstore.get(connect(location.at(""), patience_s), location.key).bytes())
    except FAULTS as error:
        if trouble_of(error) in (Trouble.GONE, Trouble.DENIED):
            return None
        raise lost(error, location.root) from error
    return data.decode("utf-8", "surrogateescape")


def listed(location: Location, patience_s: float = PATIENCE_S) -> Iterator[Seen]:
    """All objects at or below a folder, in the order of their keys' bytes; markers of folders are none.

    Raises:
        InputsLostError: the store cannot be reached, lets nobody in, or has no such bucket.
        InputError: it has keys that obstore cannot list, and boto3 is not there to do it.
    """
    if location.scheme == "s3" and not location.key and starts_with_a_slash(location):
        yield from _by_boto(location, "")
        return
    empty: set[str] = set()
    last, waits = "", pauses(patience_s)
    while True:
        try:
            for meta in _metas(location, last, patience_s):
                last, waits = meta["path"], pauses(patience_s)
                found = seen(location.at(last), meta)
                if found.size_bytes or not _is_marker(found, empty, patience_s):
                    yield found
            return
        except FAULTS as error:
            trouble = trouble_of(error)
            if trouble is Trouble.BAD_KEY and location.scheme == "s3":
                yield from _by_boto(location, last)
                return
            if trouble is Trouble.BAD_KEY:
                raise InputError(
                    f"{location.uri}: a key in it cannot be listed: {str(error).splitlines()[0]}"
                ) from error
            if trouble is not Trouble.TRANSIENT or next(waits, None) is None:
                raise lost(error, location.root) from error


def _metas(location: Location, last: str, patience_s: float) -> Iterator[Any]:
    objects, prefix = connect(location.at(""), patience_s), location.key.strip("/")
    for chunk in obstore.list(objects, prefix=prefix or None, offset=last or None, chunk_size=_CHUNK):
        yield from chunk


def _is_marker(found: Seen, empty: set[str], patience_s: float) -> bool:
    """Whether an object of no bytes stands for a folder: obstore shows it without the slash, and finds none there."""
    key = found.location.key
    if key in empty or _look(found.location, patience_s) is Trouble.GONE:
        return True
    empty.add(key)
    return False


def _by_boto(location: Location, last: str) -> Iterator[Seen]:
    for key, size, modified_at, etag, problem in listed_by_boto(location, last):
        yield Seen(location.at(key), size, modified_at, etag.strip('"'), problem)
