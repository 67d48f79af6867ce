"""Globbing: local paths that match a pattern, as in a shell, but never through a link that may lead back up."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator


def matches(pattern: str) -> Iterator[str]:
    """What a pattern matches, in the order of bytes; as in a shell, names with a dot only if it is asked for."""
    return iter(sorted(set(_expanded(pattern)), key=os.fsencode))


def _expanded(pattern: str) -> Iterator[str]:
    """As `glob.iglob`, but `**` goes into no link to a folder, which may lead back up, and matches none.

    Of a folder that cannot be listed it gives the folder itself, so that there is a row that says so.
    """
    above, stars, below = _split_at_stars(pattern)
    if not stars:
        yield from glob.iglob(pattern)
        return
    for top in glob.iglob(above) if above else ("",):
        for folder, is_readable in _folders(top):
            if not is_readable or not below:
                yield folder or os.curdir
            else:
                matches = _expanded(os.path.join(glob.escape(folder), below))
                yield from (match for match in matches if not _is_linked_folder(match.rstrip(os.sep)))


def _is_linked_folder(path: str) -> bool:
    return os.path.islink(path) and os.path.isdir(path)


def _split_at_stars(pattern: str) -> tuple[str, str, str]:
    """A pattern before its first `**`, the `**` or nothing, and what comes after it."""
    parts = pattern.split(os.sep)
    if "**" not in parts:
        return pattern, "", ""
    at = parts.index("**")
    above = os.sep.join(parts[:at]) + os.sep if at else ""
    return above, "**", os.sep.join(parts[at + 1 :]).lstrip(os.sep)


def _folders(top: str) -> Iterator[tuple[str, bool]]:
    """A folder and all below it that are neither hidden nor links, and whether each can be listed."""
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder or os.curdir) as listing:
                found = [e.name for e in listing if e.name[0] != "." and e.is_dir(follow_symlinks=False)]
        except NotADirectoryError:
            continue
        except OSError:
            yield folder, False
            continue
        yield folder, True
        waiting += [os.path.join(folder, name) for name in found]
