"""Reader: an object as a file of which parts can be read."""

from __future__ import annotations

import io
from typing import Any

import obstore
from obstore.exceptions import BaseError

from pipeline.errors import StorageError
from pipeline.store.connection import reason


class ObjectReader(io.RawIOBase):
    """An object as a file: each read fetches its range and nothing more."""

    def __init__(self, objects: Any, key: str, size: int) -> None:
        super().__init__()
        self._objects, self._key, self._size, self._position = objects, key, size, 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """Bytes from the start."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go there, as files do."""
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        return self._position

    def read(self, size: int = -1) -> bytes:
        """The next bytes, fewer at the end."""
        start, stop = self._position, self._size if size < 0 else min(self._position + size, self._size)
        if start >= stop:
            return b""
        try:
            data = bytes(obstore.get_range(self._objects, self._key, start=start, end=stop))
        except (OSError, BaseError) as error:
            raise StorageError(f"{self._key} could not be read: {reason(error)}") from error
        self._position += len(data)
        return data
