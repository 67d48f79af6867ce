"""Location: a place in an object store, as people name it and as the rows do. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from pipeline.document import INTO, escaped
from pipeline.errors import InputError

SCHEMES = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "az": "az", "azure": "az"}
"""What a location may begin with, and which of the three stores it means."""

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_BUCKET = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class Location:
    """A bucket (for `az` a container) and a key in it or what keys begin with; the key has no slash in front.

    In text a key is percent-encoded as in any URI, but a blank, `+`, `#`, `?` and any letter may stand for themselves.
    """

    scheme: str
    bucket: str
    key: str = ""

    @classmethod
    def parse(cls, text: str) -> Location:
        """Read a location.

        Raises:
            InputError: it is none, or of a store that is not known.
        """
        match = _URL.fullmatch(text)
        scheme, rest = (match[1].lower(), match[2]) if match else ("", "")
        if scheme not in SCHEMES:
            raise InputError(f"{text}: only s3://, gs://, az:// and local files are known")
        bucket, _, key = rest.partition("/")
        if not _BUCKET.fullmatch(bucket):
            raise InputError(f"{text}: '{bucket}' is no name of a bucket")
        try:
            return cls(SCHEMES[scheme], bucket, unquote_to_bytes(key).decode("utf-8"))
        except UnicodeDecodeError as error:
            raise InputError(f"{text}: the key is not UTF-8") from error

    @property
    def root(self) -> str:
        """The bucket, as text."""
        return f"{self.scheme}://{self.bucket}"

    @property
    def uri(self) -> str:
        """The location as rows name it; `parse` reads it back."""
        return f"{self.root}/{escaped(self.key).replace(INTO, '%21/')}"

    def at(self, key: str) -> Location:
        """Another key of the same bucket."""
        return Location(self.scheme, self.bucket, key)

    def as_folder(self) -> Location:
        """The same with a slash at the end, unless it is the whole bucket: what is below begins with it."""
        return self.at(self.key.rstrip("/") + "/") if self.key.strip("/") else self.at("")


@dataclass(frozen=True, slots=True)
class Fetching:
    """How objects are fetched and kept as files while a run lasts, on each machine that works for it.

    `run` names the folder, `most_bytes` bounds what is kept in it, `patience_s` how long a store that does not answer
    is asked again.
    """

    run: str = "default"
    most_bytes: int = 4 << 30
    patience_s: float = 180.0


def is_remote(given: str) -> bool:
    """Whether something that was named is a URL, and not of a local file."""
    match = _URL.fullmatch(given)
    return match is not None and match[1].lower() != "file"


def location_of_uri(uri: str) -> Location:
    """Where the object lies that a row names, of a member of an archive where that lies."""
    return Location.parse(uri.partition(INTO)[0])
