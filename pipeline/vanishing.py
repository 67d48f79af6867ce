"""Vanishing: documents that an output tells of and that are no longer there, found once all inputs were looked through.

Only what is surely gone counts: a file that cannot be looked at, or lies in an input folder that holds nothing at all
(a disk that is not mounted looks like that), is taken to be there still.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from pipeline.census import Census, archive_of
from pipeline.document import Document, path_of_uri
from pipeline.errors import ErrorCode
from pipeline.parquet import read_columns
from pipeline.source import Discovery
from pipeline.store import Store
from pipeline.task import FinishedDocument


def vanished(store: Store, census: Census, discovery: Discovery) -> Iterator[FinishedDocument]:
    """The rows of those documents below the inputs that have vanished, each once; the census forgets them.

    To be called after a complete look through all inputs. The URIs come from `documents`, part by part.

    Raises:
        StorageError: the output cannot be listed or read.
        InputsLostError: an object store does not answer.
    """
    if not census.num_unmet:
        return
    looked_through = tuple(root for root in discovery.roots() if not _is_empty_folder(root))
    for part in read_columns(store, "documents", ("uri",)):
        for (uri,) in part:
            if census.is_missed(uri) and _is_within(uri, looked_through) and _is_gone(uri, census, discovery):
                census.forget(uri)
                yield FinishedDocument(Document(uri), {}, ErrorCode.VANISHED)


def _is_within(uri: str, roots: Iterable[str]) -> bool:
    return any(uri == root or uri.startswith((f"{root.rstrip('/')}/", f"{root}!/")) for root in roots)


def _is_gone(uri: str, census: Census, discovery: Discovery) -> bool:
    archive = archive_of(uri)
    return (archive is not None and census.was_looked_into(archive)) or discovery.is_gone(uri)


def _is_empty_folder(root: str) -> bool:
    if not root.startswith("file://"):
        return False
    try:
        with os.scandir(path_of_uri(root)) as entries:
            return next(entries, None) is None
    except OSError:
        return False
