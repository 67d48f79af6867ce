"""Vanishing: documents that an output tells of and that are no longer there, found once all inputs were looked through.

Only what is surely gone counts: a file that cannot be looked at, or lies in an input folder that holds nothing at all
(a disk that is not mounted looks like that), is taken to be there still.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator

from pipeline.census import Census, archive_of
from pipeline.document import Document, path_of_uri
from pipeline.errors import ErrorCode
from pipeline.parquet import read_columns
from pipeline.store import Store
from pipeline.task import FinishedDocument


def vanished(store: Store, census: Census, roots: Iterable[str]) -> Iterator[FinishedDocument]:
    """The rows of those documents below `roots` that have vanished, each once; the census forgets them.

    To be called after a complete look through all inputs. The URIs come from `documents`, part by part.

    Raises:
        StorageError: the output cannot be listed or read.
    """
    if not census.num_unmet:
        return
    looked_through = tuple(root for root in roots if not _is_empty_folder(root))
    for part in read_columns(store, "documents", ("uri",)):
        for (uri,) in part:
            if census.is_missed(uri) and _is_within(uri, looked_through) and _is_gone(uri, census):
                census.forget(uri)
                yield FinishedDocument(Document(uri), {}, ErrorCode.VANISHED)


def _is_within(uri: str, roots: Iterable[str]) -> bool:
    return any(uri == root or uri.startswith((f"{root.rstrip('/')}/", f"{root}!/")) for root in roots)


def _is_gone(uri: str, census: Census) -> bool:
    archive = archive_of(uri)
    if archive is not None and census.was_looked_into(archive):
        return True
    if not uri.startswith("file://"):
        return archive is None or census.is_missed(archive)
    try:
        status = os.lstat(path_of_uri(uri))
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return stat.S_ISDIR(status.st_mode)  # that it could not be listed was its row, and now it could


def _is_empty_folder(root: str) -> bool:
    if not root.startswith("file://"):
        return False
    try:
        with os.scandir(path_of_uri(root)) as entries:
            return next(entries, None) is None
    except OSError:
        return False
