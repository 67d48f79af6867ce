"""Where documents come from: files, folders, object stores, globs and list files, walked lazily in a stable order."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from pipeline.document import (
    INTO,
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
from pipeline.globbing import matches
from pipeline.ignore import Rules, spec
from pipeline.listing import LEASE_FOLDER, LEASE_NAME, Listing, path_of
from pipeline.location import Fetching, Location, is_remote


@dataclass(slots=True)
class Discovery:
    """Finds the sources of a job.

    Folders are walked without following links to folders; names starting with a dot, unfinished downloads
    and the litter of desktop systems are left out, as are output folders. A file named on its own is always
    taken. No document is opened, and nothing is remembered of what a folder held. Without `with_etags` no
    source says how its file looked.
    """

    inputs: Sequence[str]
    exclude: Sequence[str] = ()
    out: str = ""
    with_etags: bool = True
    fetching: Fetching = field(default_factory=Fetching)
    _num_ignored: int = 0
    _named: set[str] = field(default_factory=set)
    _seen: set[str] = field(default_factory=set)
    _walked: list[str] = field(default_factory=list)
    _lists: dict[str, list[str]] = field(default_factory=dict)
    _on_lists: set[str] = field(default_factory=set)
    _listing: Listing | None = None

    @property
    def num_ignored(self) -> int:
        """What was seen and left out on the way."""
        return self._num_ignored + (self._listing.num_ignored if self._listing else 0)

    def check(self) -> None:
        """Look at the inputs as they were named, before anything is started.

        Raises:
            InputError: one does not exist or matches nothing, or a pattern to leave out makes no sense.
        """
        spec(self.exclude, "--exclude")
        for given in self.inputs:
            if not given.strip():
                raise InputError("an input is empty")
            if self.out and _named(given) == self.out:
                raise InputError(f"{given} is the output folder and an input at once; name another output")
            if given.startswith("@"):
                self._listed(given[1:])
            elif is_remote(given):
                self._objects().check(given)
            elif not os.path.lexists(_local(given)) and next(matches(_local(given)), None) is None:
                raise InputError(f"no such file or folder, and nothing matches: {given}")

    def sources(self) -> Iterator[Source]:
        """Every source once, input by input, a folder's entries in the order of their bytes."""
        self._named.update(path for given in self.inputs for path in self._paths_named(given))
        for given in self.inputs:
            for path in self._paths_named(given):
                yield from self._of_path(path)
            if not given.startswith("@") and not is_remote(given) and not os.path.lexists(_local(given)):
                for match in matches(_local(given)):
                    yield from self._of_path(absolute_path(match))

    def within(self, members: Sequence[Source]) -> tuple[Source, ...]:
        """Those files in an archive that are not left out, as if it were a folder where it lies."""
        if members and is_remote(members[0].uri):
            return self._within_object(members)
        path = path_of_uri(members[0].uri) if members else ""
        roots = (root for root in self._walked if _is_within(path, root))
        root = path if path in self._named else next(roots, path)
        rules = Rules.of_patterns(root, self.exclude).down_to(root, path)
        kept = tuple(source for source in members if not rules.leaves_out(path, path_in_archive(source.uri)))
        self._num_ignored += len(members) - len(kept)
        return kept

    def _within_object(self, members: Sequence[Source]) -> tuple[Source, ...]:
        archive = members[0].uri.partition(INTO)[0]
        root = archive if archive in self._named else next((w for w in self._walked if _is_within(archive, w)), archive)
        rules, path = self._objects().rules_for(root, archive), path_of(archive)
        kept = tuple(source for source in members if not rules.leaves_out(path, path_in_archive(source.uri)))
        self._num_ignored += len(members) - len(kept)
        return kept

    def roots(self) -> Iterator[str]:
        """The URIs of what is looked through: files and folders as named, of a pattern the folder above its stars."""
        for given in self.inputs:
            for named in self._paths_named(given):
                yield self._objects().root(named) if is_remote(named) else uri_of_path(named)
            if not given.startswith("@") and not is_remote(given) and not os.path.lexists(_local(given)):
                above = re.split(r"[*?[]", _local(given), maxsplit=1)[0]
                yield uri_of_path(absolute_path(os.path.dirname(above) or os.curdir))

    def is_gone(self, uri: str) -> bool:
        """Whether there is surely no file or object there, left out or not; a folder is none.

        Raises:
            InputsLostError: an object store does not answer.
        """
        if is_remote(uri):
            return not self._objects().is_there(uri)
        try:
            status = os.lstat(path_of_uri(uri))
        except (FileNotFoundError, NotADirectoryError):
            return True
        except (OSError, ValueError):
            return False
        return stat.S_ISDIR(status.st_mode)

    def _paths_named(self, given: str) -> list[str]:
        """What an input names without a pattern, as absolute paths."""
        if given.startswith("@"):
            return self._listed(given[1:])
        if is_remote(given):
            return [_named(given)]
        return [absolute_path(_local(given))] if os.path.lexists(_local(given)) else []

    def _listed(self, path: str) -> list[str]:
        """The absolute paths in a list file, which is read once only: it may be a pipe."""
        if path not in self._lists:
            self._lists[path] = [_named(line) for line in _lines(path)]
            self._on_lists.update(filter(is_remote, self._lists[path]))
        return self._lists[path]

    def _of_path(self, path: str) -> Iterator[Source]:
        if is_remote(path):
            yield from self._of_object(path)
            return
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

    def _of_object(self, uri: str) -> Iterator[Source]:
        """The same for a location in an object store."""
        is_folder = uri.endswith("/") or (uri not in self._on_lists and self._objects().is_folder(uri))
        root = uri.rstrip("/")
        if (is_folder or uri not in self._named) and any(_is_within(root, walked) for walked in self._walked):
            return
        if is_folder:
            self._walked.append(root)
            for source in self._objects().folder(uri):
                if source.uri not in self._named and source.uri not in self._seen:
                    yield source
        elif uri not in self._seen:
            self._seen.add(uri)
            yield self._objects().object(uri)

    def _objects(self) -> Listing:
        """Who lists objects; made when it is first needed."""
        if self._listing is None:
            self._listing = Listing(self.exclude, self.out, self.with_etags, self.fetching)
        return self._listing

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
                self._num_ignored += 1
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


def _named(given: str) -> str:
    """What an input or a line of a list names: an absolute path, or the URI of a place in an object store.

    Raises:
        InputError: it names nothing.
    """
    return Location.parse(given).uri if is_remote(given) else absolute_path(_local(given))


def _local(given: str) -> str:
    """The path that an input or a line of a list names.

    Raises:
        InputError: it names none.
    """
    path = path_of_uri(given) if given.startswith("file://") else os.path.expanduser(given)
    if not path:
        raise InputError(f"{given} names no file")
    return path
