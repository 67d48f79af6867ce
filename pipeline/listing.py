"""Listing: the documents of an object store that an input names: an object, what lies below a folder, or a pattern."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pipeline.document import INTO, Source, is_litter, is_unfinished
from pipeline.errors import ErrorCode, InputError, InputsLostError
from pipeline.ignore import IGNORE_FILE, Rules
from pipeline.location import Fetching, Location, location_of_uri
from pipeline.pattern import Pattern, is_pattern
from pipeline.store.connection import Trouble, trouble_of
from pipeline.store.objects import Seen, listed, look, text_of

LEASE_FOLDER = "_lease"
"""What every output folder of Pagemill holds: by it, outputs of other runs are known and left out."""

LEASE_NAME = re.compile(r"\d{8,}\.(json|alive|released)")
"""What lies in it; a folder called like it that holds no such file is anybody's."""

_CHECK_PATIENCE_S = 15.0
"""A store that does not answer at the start is given up sooner than one that falls silent on the way."""


@dataclass(slots=True)
class Listing:
    """Objects as sources; `num_ignored` counts what was left out. Nothing is remembered of what a folder held.

    What is left out is as in folders: names with a dot in front, unfinished ones, litter, outputs, what patterns say.
    An ignore file counts where it lies at the top of what was named.
    """

    exclude: Sequence[str] = ()
    out: str = ""
    with_etags: bool = True
    fetching: Fetching = field(default_factory=Fetching)
    num_ignored: int = 0
    _outputs: set[str] = field(default_factory=set)

    def check(self, given: str) -> None:
        """See that there is something where an input points to.

        Raises:
            InputError: there is nothing, or no such bucket.
            InputsLostError: the store does not answer, or lets nobody in.
        """
        location = Location.parse(given)
        try:
            if self._is_object(location, _CHECK_PATIENCE_S):
                return
            if next(self._below(location, _CHECK_PATIENCE_S), None) is None:
                raise InputError(f"no such object or folder, and nothing matches: {given}")
        except InputsLostError as error:
            if error.__cause__ is not None and trouble_of(error.__cause__) is Trouble.NO_BUCKET:
                raise InputError(f"{given}: there is no bucket {location.bucket}") from error
            raise

    def root(self, given: str) -> str:
        """The URI of what is looked through for an input: an object or a folder, of a pattern the folder above it."""
        location = Location.parse(given)
        return (location.at(Pattern.of_key(location.key).folder) if is_pattern(location.key) else location).uri

    def is_there(self, uri: str) -> bool:
        """Whether there is an object now, left out or not.

        Raises:
            InputsLostError: the store does not answer for too long, or lets nobody in.
        """
        return look(location_of_uri(uri), self.fetching.patience_s) is not None

    def is_folder(self, given: str) -> bool:
        """Whether an input names what lies below a folder, or a pattern, and no object."""
        return not self._is_object(Location.parse(given), self.fetching.patience_s)

    def object(self, given: str) -> Source:
        """The source of an object that was named on its own, whether or not it is there."""
        location = Location.parse(given)
        found = look(location, self.fetching.patience_s)
        return self._source(found) if found else Source(location.uri)

    def folder(self, given: str) -> Iterator[Source]:
        """The sources below a folder, or those that a pattern matches, in the order of their keys' bytes.

        Raises:
            InputsLostError: the store does not answer for too long, or lets nobody in.
            InputError: a key in it cannot be listed here.
        """
        location = Location.parse(given)
        rules = self._rules(location)
        for found in self._below(location, self.fetching.patience_s):
            if self._leaves_out(found.location, location, rules):
                self.num_ignored += 1
            else:
                yield self._source(found)

    def rules_for(self, root: str, uri: str) -> Rules:
        """The rules in force for what is in an archive, by the input that it was found through."""
        return self._rules(Location.parse(root)) if root != uri else Rules.of_patterns(path_of(uri), self.exclude)

    def _is_object(self, location: Location, patience_s: float) -> bool:
        return bool(location.key) and not location.key.endswith("/") and look(location, patience_s) is not None

    def _below(self, location: Location, patience_s: float) -> Iterator[Seen]:
        if not is_pattern(location.key):
            return listed(location.as_folder(), patience_s)
        pattern = Pattern.of_key(location.key)
        found = listed(location.at(pattern.folder), patience_s)
        return (seen for seen in found if pattern.matches(seen.location.key))

    def _source(self, seen: Seen) -> Source:
        etag = seen.etag if self.with_etags else None
        if seen.problem:
            return Source(seen.location.uri, ErrorCode.UNREADABLE, seen.problem)
        return Source(seen.location.uri, etag=etag, since_ns=int(seen.modified_at.timestamp() * 1e9))

    def _rules(self, location: Location) -> Rules:
        """What the job leaves out, and what an ignore file at the top of a folder does."""
        if is_pattern(location.key):
            return Rules.of_patterns(path_of(location.at(Pattern.of_key(location.key).folder).uri), self.exclude)
        folder = location.as_folder()
        rules = Rules.of_patterns(path_of(folder.uri), self.exclude)
        text = text_of(folder.at(folder.key + IGNORE_FILE), self.fetching.patience_s)
        return rules if text is None else rules.with_file(path_of(folder.uri), text, f"{folder.uri}{IGNORE_FILE}")

    def _leaves_out(self, found: Location, given: Location, rules: Rules) -> bool:
        start = len(Pattern.of_key(given.key).folder if is_pattern(given.key) else given.as_folder().key)
        *folders, name = found.key[start:].split("/")
        hidden = any(is_litter(part) for part in (*folders, name) if part not in (".", ".."))
        if hidden or is_unfinished(name) or self._is_of_output(found):
            return True
        root = path_of(found.at(found.key[:start]).uri)
        return rules.leaves_out(root, "/".join((*folders, name)))

    def _is_of_output(self, found: Location) -> bool:
        """Whether an object belongs to an output: that of this job, or one that its lease gives away.

        Keys come in the order of their bytes, the lease before the tables.
        """
        if self.out and f"{found.uri}/".startswith(f"{self.out}/"):
            return True
        above, lease, name = found.key.rpartition(f"{LEASE_FOLDER}/")
        if lease and LEASE_NAME.fullmatch(name) and (not above or above.endswith("/")):
            self._outputs = {above}
        return any(found.key.startswith(output) for output in self._outputs)


def path_of(uri: str) -> str:
    """An object's URI as the path that patterns see, without a slash at its end."""
    location = Location.parse(uri.partition(INTO)[0])
    return f"/{location.bucket}/{location.key}".rstrip("/")
