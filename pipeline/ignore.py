"""Ignore: patterns of what to leave out, those of a job and those in the folders it walks, as git reads them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pathspec

from pipeline.errors import InputError

IGNORE_FILE = ".pagemillignore"
"""Patterns of what to leave out of the folder it lies in and those below, in the syntax of .gitignore."""

_MOST_FOLDERS = 4096
"""Verdicts on folders that are kept; there may be millions of them."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Ignore patterns in force in a folder, strongest first, each with the folder that they are relative to.

    As in git, what the command line says is stronger than any file, and a file than those in folders above it.
    """

    asked: tuple[tuple[str, pathspec.GitIgnoreSpec], ...] = ()
    filed: tuple[tuple[str, pathspec.GitIgnoreSpec], ...] = ()
    _folders: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of_patterns(cls, root: str, patterns: Sequence[str]) -> Rules:
        """The patterns that a job gives for a folder."""
        return cls(((root, spec(patterns, "--exclude")),) if patterns else ())

    def within(self, folder: str, names: Sequence[str]) -> Rules:
        """The rules in force in a folder, by the names of what is in it.

        Raises:
            InputError: its patterns cannot be read.
        """
        if IGNORE_FILE not in names:
            return self
        path = os.path.join(folder, IGNORE_FILE)
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                return self.with_file(folder, file.read(), path)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from error

    def with_file(self, folder: str, text: str, where: str) -> Rules:
        """The rules in force in a folder that holds an ignore file of this text.

        Raises:
            InputError: a pattern in it makes no sense; `where` says where it stands.
        """
        return Rules(self.asked, ((folder, spec(text.splitlines(), where)), *self.filed))

    def down_to(self, root: str, path: str) -> Rules:
        """The rules in force where a file lies; patterns that cannot be read were told when its folder was listed."""
        rules, folder = self, root
        for part in path[len(root.rstrip("/")) :].split("/")[1:]:
            with suppress(InputError):
                rules = rules.within(folder, [IGNORE_FILE] if os.path.exists(os.path.join(folder, IGNORE_FILE)) else [])
            folder = os.path.join(folder, part)
        return rules

    def leaves_out(self, folder: str, path: str) -> bool:
        """Whether a file below a folder is left out: by itself, or with a folder on the way, or the first one."""
        if not (self.asked or self.filed):
            return False
        parts = path.split("/")
        above = ["/".join((folder, *parts[:n])) + "/" for n in range(len(parts))]
        return any(map(self._match_folder, above)) or self.match("/".join((folder, path)))

    def _match_folder(self, path: str) -> bool:
        if path not in self._folders:
            if len(self._folders) >= _MOST_FOLDERS:
                self._folders.clear()
            self._folders[path] = self.match(path)
        return self._folders[path]

    def match(self, path: str) -> bool:
        """Whether a path is left out; that of a folder ends with a slash."""
        for base, patterns in (*self.asked, *self.filed):
            verdict = patterns.check_file(path[len(base) :].lstrip("/")).include
            if verdict is not None:
                return verdict
        return False


def spec(patterns: Sequence[str], where: str) -> pathspec.GitIgnoreSpec:
    """Patterns ready for use.

    Raises:
        InputError: one makes no sense; `where` says where it stands.
    """
    try:
        return pathspec.GitIgnoreSpec.from_lines(patterns)
    except ValueError as error:
        raise InputError(f"{where}: {error}") from error
