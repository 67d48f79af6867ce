"""Objects and their conditions; the only obstore import. Parts are put whole and never over another."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
from obstore.store import LocalStore

from pipeline.errors import StorageError, UsageError


@dataclass(frozen=True, slots=True)
class Store:
    """A place for objects under one root; keys are relative, with forward slashes."""

    location: str
    _objects: LocalStore

    @classmethod
    def open(cls, location: str) -> Store:
        """Open a folder as a store, making it if need be.

        Raises:
            UsageError: the location is a URL, or not a folder.
            StorageError: it cannot be made or written.
        """
        if "://" in location:
            raise UsageError(f"{location}: only a local folder can be written")
        path = os.path.abspath(os.path.expanduser(location))
        if os.path.lexists(path) and not os.path.isdir(path):
            raise UsageError(f"the output {location} exists and is not a folder")
        try:
            os.makedirs(path, exist_ok=True)
            return cls(path, LocalStore(path, mkdir=True))
        except (OSError, BaseError) as error:
            raise StorageError(f"the output folder {location} cannot be made: {_reason(error)}") from error

    def put_new(self, key: str, data: bytes) -> bool:
        """Put an object if there is none under this key yet; False if there is.

        The object appears whole or not at all: this is the commit.

        Raises:
            StorageError: it could not be written.
        """
        try:
            obstore.put(self._objects, key, data, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return False
        except (OSError, BaseError) as error:
            raise StorageError(f"{key} could not be written: {_reason(error)}") from error
        return True

    def put_over(self, key: str, data: bytes) -> None:
        """Put an object whether or not there is one under this key; it, too, appears whole.

        Raises:
            StorageError: it could not be written.
        """
        try:
            obstore.put(self._objects, key, data, mode="overwrite", use_multipart=False)
        except (OSError, BaseError) as error:
            raise StorageError(f"{key} could not be written: {_reason(error)}") from error

    def delete(self, key: str) -> None:
        """Remove an object if there is one; what cannot be removed stays, and nothing depends on it."""
        with contextlib.suppress(OSError, BaseError):
            obstore.delete(self._objects, key)

    def get(self, key: str) -> bytes:
        """The bytes of an object.

        Raises:
            StorageError: there is none, or it could not be read.
        """
        try:
            return bytes(obstore.get(self._objects, key).bytes())
        except (OSError, BaseError) as error:
            raise StorageError(f"{key} could not be read: {_reason(error)}") from error

    def keys(self, prefix: str) -> list[str]:
        """All keys below a prefix, sorted; none if there is nothing there.

        Raises:
            StorageError: they could not be listed.
        """
        try:
            return sorted(self._list(prefix))
        except NotFoundError:
            return []
        except (OSError, BaseError) as error:
            raise StorageError(f"{prefix} could not be listed: {_reason(error)}") from error

    def _list(self, prefix: str) -> Iterator[str]:
        for chunk in obstore.list(self._objects, prefix=prefix):
            yield from (meta["path"] for meta in chunk)


def _reason(error: Exception) -> str:
    """The first line of an error; obstore adds a debug dump below it."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
