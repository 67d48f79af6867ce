"""Oldest: sources in the order in which they have come to be as they are, sorted on the disk, however many they are."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing

from pipeline.document import Source
from pipeline.errors import ErrorCode, MachineError

_INSERT = "INSERT INTO waiting VALUES (?, ?, ?, ?, ?)"


def oldest_first(sources: Iterable[Source], is_done: Callable[[Source], bool]) -> Iterator[Source]:
    """Sources that are done as they come; then, once all were listed, the others by `Source.since_ns`.

    What has no time (a list names it, and it is not there) comes first. What waits lies in a temporary table of
    SQLite, which keeps it in memory up to a few megabytes and otherwise in a file that vanishes with the process.

    Raises:
        MachineError: there is no room for the file.
    """
    with closing(sqlite3.connect("", isolation_level=None)) as table:
        try:
            table.execute("CREATE TABLE waiting (since_ns INTEGER, uri TEXT, problem TEXT, detail TEXT, etag TEXT)")
            table.execute("BEGIN")
            for source in sources:
                if is_done(source):
                    yield source
                else:
                    table.execute(_INSERT, _values(source))
            for row in table.execute("SELECT * FROM waiting ORDER BY since_ns, rowid"):
                yield _source(*row)
        except sqlite3.Error as error:
            raise MachineError(f"documents that wait could not be sorted, make room for them ({error})") from error


def _values(source: Source) -> tuple[int, str, str | None, str, str | None]:
    detail = source.detail.encode("utf-8", "replace").decode()
    return source.since_ns or 0, source.uri, source.problem, detail, source.etag


def _source(since_ns: int, uri: str, problem: str | None, detail: str, etag: str | None) -> Source:
    return Source(uri, ErrorCode(problem) if problem else None, detail, etag, since_ns or None)
