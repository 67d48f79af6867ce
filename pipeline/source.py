"""Where documents come from: files, folders, globs and list files, walked lazily in a stable order."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from pipeline.document import (
    Source,
    absolute_path,
    is_litter,
    is_unfinished,
    local_etag,
    path_in_archive,
    path_of_uri,
    uri_of_path,
)
from pipeline.errors import ErrorCode, InputError
from pipeline.ignore import Rules, spec

LEASE_FOLDER = "_lease"
"""What every output folder of Pagemill holds: by it, outputs of other runs are known and left out."""

LEASE_NAME = re.compile(r"\d{8,}\.(json|alive|released)")
"""What lies in it; a folder called like it that holds no such file is anybody's."""


@dataclass(slots=True)
class Discovery:
    """Finds the sources of a job; `num_ignored` counts what was seen and left out on the way.

    Folders are walked without following links to folders; names starting with a dot, unfinished downloads
    and the litter of desktop systems are left out, as are output folders. A file named on its own is always
    taken. No document is opened, and nothing is remembered of what a folder held. Without `with_etags` no
    source says how its file looked.
    """

    inputs: Sequence[str]
    exclude: Sequence[str] = ()
    out: str = ""
    with_etags: bool = True
    num_ignored: int = 0
    _named: set[str] = field(default_factory=set)
    _seen: set[str] = field(default_factory=set)
    _walked: list[str] = field(default_factory=list)
    _lists: dict[str, list[str]] = field(default_factory=dict)

    def check(self) -> None:
        """Look at the inputs as they were named, before anything is started.

        Raises:
            InputError: one does not exist or matches nothing, or a pattern to leave out makes no sense.
        """
        spec(self.exclude, "--exclude")
        for given in self.inputs:
            if not given.strip():
                raise InputError("an input is empty")
            if self.out and absolute_path(_local(given)) == self.out:
                raise InputError(f"{given} is the output folder and an input at once; name another output")
            if given.startswith("@"):
                self._listed(given[1:])
            elif _is_remote(given):
                raise InputError(f"{given}: only local files and folders can be read")
            elif not os.path.lexists(_local(given)) and next(_matches(_local(given)), None) is None:
                raise InputError(f"no such file or folder, and nothing matches: {given}")

    def sources(self) -> Iterator[Source]:
        """Every source once, input by input, a folder's entries in the order of their bytes."""
        self._named.update(path for given in self.inputs for path in self._paths_named(given))
        for given in self.inputs:
            for path in self._paths_named(given):
                yield from self._of_path(path)
            if not given.startswith("@") and not os.path.lexists(_local(given)):
                for match in _matches(_local(given)):
                    yield from self._of_path(absolute_path(match))

    def within(self, members: Sequence[Source]) -> tuple[Source, ...]:
        """Those files in an archive that are not left out, as if it were a folder where it lies."""
        path = path_of_uri(members[0].uri) if members else ""
        roots = (root for root in self._walked if _is_within(path, root))
        root = path if path in self._named else next(roots, path)
        rules = Rules.of_patterns(root, self.exclude).down_to(root, path)
        kept = tuple(source for source in members if not rules.leaves_out(path, path_in_archive(source.uri)))
        self.num_ignored += len(members) - len(kept)
        return kept

    def roots(self) -> Iterator[str]:
        """The URIs of what is looked through: files and folders as named, of a pattern the folder above its stars."""
        for given in self.inputs:
            named = self._paths_named(given)
            if not named and not given.startswith("@"):
                plain = _local(given)[: re.search(r"[*?[]|$", _local(given)).start()]  # type: ignore[union-attr]
                named = [absolute_path(os.path.dirname(plain) or os.curdir)]
            yield from map(uri_of_path, named)

    def _paths_named(self, given: str) -> list[str]:
        """What an input names without a pattern, as absolute paths."""
        if given.startswith("@"):
            return self._listed(given[1:])
        return [absolute_path(_local(given))] if os.path.lexists(_local(given)) else []

    def _listed(self, path: str) -> list[str]:
        """The absolute paths in a list file, which is read once only: it may be a pipe."""
        if path not in self._lists:
            self._lists[path] = [absolute_path(_local(line)) for line in _lines(path)]
        return self._lists[path]

    def _of_path(self, path: str) -> Iterator[Source]:
        is_folder = os.path.isdir(path)
        if (is_folder or path not in self._named) and any(_is_within(path, root) for root in self._walked):
            return
        if is_folder:
            self._walked.append(path)
            yield from self._of_folder(path)
        elif path not in self._seen:
            self._seen.add(path)
            etag, since_ns = self._look(lambda: os.stat(path))
            yield Source(uri_of_path(path), etag=etag, since_ns=since_ns)

    def _of_folder(self, root: str) -> Iterator[Source]:
        rules = Rules.of_patterns(root, self.exclude)
        stack: list[Iterator[_Entry]] = [iter([_Entry(root, rules)])]
        while stack:
            entry = next(stack[-1], None)
            if entry is None:
                stack.pop()
            elif entry.rules is not None:
                entries, found = self._list(entry.path, entry.rules)
                yield from found
                stack.append(entries)
            elif entry.path not in self._named and entry.path not in self._seen:
                yield Source(uri_of_path(entry.path), etag=entry.etag, since_ns=entry.since_ns)

    def _list(self, folder: str, rules: Rules) -> tuple[Iterator[_Entry], list[Source]]:
        """A folder's entries that are not left out; or why it cannot be listed."""
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: os.fsencode(entry.name))
            rules = rules.within(folder, [entry.name for entry in entries])
        except (OSError, InputError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            detail = f"the folder cannot be listed: {reason}"
            return iter(()), [Source(uri_of_path(folder), ErrorCode.UNREADABLE, detail)]
        kept: list[_Entry] = []
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_folder and entry.path in self._walked:
                continue
            if self._leaves_out(entry, is_folder, rules):
                self.num_ignored += 1
            else:
                etag, since_ns = (None, None) if is_folder else self._look(entry.stat)
                kept.append(_Entry(entry.path, rules if is_folder else None, etag, since_ns))
        return iter(kept), []

    def _look(self, look: Callable[[], os.stat_result]) -> tuple[str | None, int | None]:
        """The etag of a regular file, and since when it has been as it is there, which `touch` cannot alter.

        None for anything else, and for what cannot be looked at.
        """
        try:
            status = look()
        except (OSError, ValueError):
            return None, None
        if not stat.S_ISREG(status.st_mode):
            return None, None
        return local_etag(status) if self.with_etags else None, status.st_ctime_ns

    def _leaves_out(self, entry: os.DirEntry[str], is_folder: bool, rules: Rules) -> bool:
        if is_litter(entry.name) or (not is_folder and is_unfinished(entry.name)):
            return True
        if is_folder:
            is_output = entry.path == self.out or _is_output(entry.path)
            return is_output or rules.match(entry.path + "/")
        linked_folder = entry.is_symlink() and os.path.isdir(entry.path)
        return linked_folder or rules.match(entry.path)


@dataclass(frozen=True, slots=True)
class _Entry:
    """Something in a folder; `rules` are set for a folder, None for anything else."""

    path: str
    rules: Rules | None
    etag: str | None = None
    since_ns: int | None = None


def _is_output(folder: str) -> bool:
    try:
        return any(map(LEASE_NAME.fullmatch, os.listdir(os.path.join(folder, LEASE_FOLDER))))
    except OSError:
        return False


def _lines(path: str) -> list[str]:
    """The entries of a list file: one path or file:// URI a line, '#' starts a comment.

    Raises:
        InputError: it cannot be read.
    """
    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
            lines = [line.rstrip("\r\n") for line in file]
    except OSError as error:
        raise InputError(f"list file {path}: {error.strerror}") from error
    return [line for line in lines if line.strip() and not line.startswith("#")]


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _matches(pattern: str) -> Iterator[str]:
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


def _is_remote(given: str) -> bool:
    scheme, separator, _ = given.partition("://")
    return bool(separator) and scheme.isalnum() and scheme != "file"


def _local(given: str) -> str:
    """The path that an input or a line of a list names.

    Raises:
        InputError: it names none.
    """
    path = path_of_uri(given) if given.startswith("file://") else os.path.expanduser(given)
    if not path:
        raise InputError(f"{given} names no file")
    return path
