"""Connection: a bucket of S3, Google Cloud Storage or Azure through obstore, and what its errors mean.

Credentials are found as the vendors' own tools find them: in the environment, in profiles (through boto3, for S3), by
roles of the machine. None of them is ever part of a text that is shown or written.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

from obstore.exceptions import (
    AlreadyExistsError,
    InvalidPathError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import AzureStore, GCSStore, S3Store

from pipeline.errors import ConfigurationError, ErrorCode, InputsLostError, PageFault
from pipeline.location import Location

PATIENCE_S = 180.0
"""How long a request is tried again and again while the store does not answer."""

_LONGEST_PAUSE_S = 10.0
_CLIENT: dict[str, Any] = {"connect_timeout": "10s", "read_timeout": "60s", "timeout": "3600s"}
"""A stalled connection is given up after a minute; a large object may take its time."""


class Trouble(StrEnum):
    """What an error of a store means."""

    GONE = "gone"
    EXISTS = "exists"
    CHANGED = "changed"
    DENIED = "denied"
    CREDENTIALS = "credentials"
    NO_BUCKET = "no_bucket"
    BAD_KEY = "bad_key"
    TRANSIENT = "transient"


_TOLD_BY_TYPE: tuple[tuple[tuple[type[BaseException], ...], Trouble], ...] = (
    ((NotFoundError, FileNotFoundError), Trouble.GONE),
    ((AlreadyExistsError,), Trouble.EXISTS),
    ((PreconditionError,), Trouble.CHANGED),
    ((InvalidPathError, ValueError), Trouble.BAD_KEY),
    ((UnauthenticatedError,), Trouble.CREDENTIALS),
)
_CODES_OF_CREDENTIALS = re.compile(
    r"ExpiredToken|TokenRefreshRequired|InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken|RequestExpired"
    r"|RequestTimeTooSkewed|AuthenticationFailed|InvalidAuthenticationInfo|InvalidSecurity|TokenExpired"
)
_NO_CREDENTIALS = re.compile(r"/token in |credential|invalid_grant", re.IGNORECASE)
_CODES_OF_BUCKETS = re.compile(r"NoSuchBucket|ContainerNotFound|ContainerBeingDeleted")
_SAID = re.compile(r"<Code>([^<]+)</Code>\s*(?:<Message>([^<]*)</Message>)?")
_NO_ROLE = re.compile(r"169\.254\.169\.254|metadata\.google|metadata/identity")
_STATUS = re.compile(r"status code: (\d{3}(?: [A-Z][A-Za-z ]*[a-z])?)")
_SECRETS = re.compile(r"(https?://)(?:[^\s/@]+@)?([^\s?)]+)(?:\?[^\s)]*)?")


def trouble_of(error: BaseException) -> Trouble:
    """What an error of obstore means for the object that was asked for."""
    said = str(error)
    told = _SAID.search(said)
    if told and _CODES_OF_BUCKETS.search(told[1]):
        return Trouble.NO_BUCKET
    if told and _CODES_OF_CREDENTIALS.search(told[1]):
        return Trouble.CREDENTIALS
    for types, trouble in _TOLD_BY_TYPE:
        if isinstance(error, types):
            return trouble
    if isinstance(error, PermissionDeniedError | PermissionError):
        return Trouble.DENIED
    first = said.split("\n\nDebug source", maxsplit=1)[0]
    is_of_credentials = not told and (_NO_CREDENTIALS.search(first) or _NO_ROLE.search(first))
    return Trouble.CREDENTIALS if is_of_credentials else Trouble.TRANSIENT


def reason(error: BaseException) -> str:
    """An error in one line without addresses' queries and users, which may be secrets."""
    said = str(error).strip()
    status, told = _STATUS.search(said), _SAID.search(said)
    if told:
        message = " ".join((told[2] or "").split("\n")[0].split())
        words = [status[1] if status else "", told[1] + (f" ({message})" if message else "")]
        return ": ".join(filter(None, words))
    if _NO_ROLE.search(said):
        return "there are no credentials in the environment or a profile, and this machine has no role"
    first = said.splitlines()[0] if said else type(error).__name__
    return _SECRETS.sub(r"\1\2", first)[:300]


def raise_for_row(error: BaseException, where: str) -> None:
    """Raise what an error means to the row of a document: its own fault, or that of no document.

    Raises:
        PageFault: the object is gone, was changed, or may not be read.
        InputsLostError: the store cannot be reached, or lets nobody in.
    """
    match trouble_of(error):
        case Trouble.GONE:
            raise PageFault(ErrorCode.NOT_FOUND, "no such object") from error
        case Trouble.CHANGED:
            raise PageFault(ErrorCode.DOCUMENT_CHANGED, "the object was replaced during the run") from error
        case Trouble.DENIED:
            raise PageFault(ErrorCode.UNREADABLE, f"may not be read: {reason(error)}") from error
        case Trouble.BAD_KEY:
            raise PageFault(ErrorCode.UNREADABLE, f"its key cannot be asked for: {reason(error)}") from error
    raise lost(error, where) from error


def lost(error: BaseException, where: str) -> InputsLostError:
    """What to end a run with whose inputs cannot be reached."""
    if trouble_of(error) is Trouble.CREDENTIALS:
        return InputsLostError(f"{where} lets nobody in, so renew the credentials and start again: {reason(error)}")
    if trouble_of(error) is Trouble.NO_BUCKET:
        return InputsLostError(f"{where} is not there: {reason(error)}")
    return InputsLostError(f"{where} cannot be reached, so start again when it can: {reason(error)}")


def pauses(patience_s: float) -> Iterator[float]:
    """Waits, each before another try, with growing random pauses; ends once patience does."""
    given_up_at, pause_s = time.monotonic() + patience_s, 0.1
    while time.monotonic() < given_up_at:
        wait_s = min(random.uniform(pause_s / 2, pause_s), max(0.0, given_up_at - time.monotonic()))  # noqa: S311
        time.sleep(wait_s)
        yield wait_s
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


@lru_cache(maxsize=64)
def connect(location: Location, patience_s: float = PATIENCE_S) -> Any:
    """A store of obstore whose keys are relative to the location.

    Raises:
        ConfigurationError: the environment says something that makes no sense, or needs a library that is not there.
    """
    kinds: dict[str, Any] = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}
    try:
        return kinds[location.scheme](
            location.bucket, prefix=location.key.strip("/") or None, **settings(location.scheme, patience_s)
        )
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(f"{location.root} cannot be used: {reason(error)}") from error


def settings(scheme: str, patience_s: float = PATIENCE_S) -> dict[str, Any]:
    """How to reach any bucket of a kind of store, as arguments of obstore.

    Raises:
        ConfigurationError: see `connect`.
    """
    config, provider = {"s3": _s3, "gs": _gs, "az": _az}[scheme]()
    endpoint = config.get("endpoint") or config.get("base_url") or ""
    retries = {
        "max_retries": 10,
        "retry_timeout": timedelta(seconds=patience_s),
        "backoff": {
            "init_backoff": timedelta(milliseconds=100),
            "max_backoff": timedelta(seconds=_LONGEST_PAUSE_S),
            "base": 2,
        },
    }
    return {
        "config": config,
        # Plain HTTP is allowed where somebody has named an endpoint that speaks it.
        "client_options": {**_CLIENT, "allow_http": True} if endpoint.startswith("http://") else _CLIENT,
        "retry_config": retries,
        "credential_provider": provider,
    }


def _first_set(*names: str) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _s3() -> tuple[dict[str, Any], Any]:
    provider, profile = (None, {}) if _first_set("AWS_ACCESS_KEY_ID") else _profile()
    config: dict[str, Any] = {}
    if endpoint := _first_set("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT") or profile.get("endpoint_url"):
        config["endpoint"] = endpoint
    if not _first_set("AWS_REGION", "AWS_DEFAULT_REGION") and not profile.get("region"):
        config["region"] = "us-east-1"
    return config, provider


def _profile() -> tuple[Any, dict[str, str]]:
    """Credentials of the profile in force, and its settings, through boto3; nothing where there are no profiles."""
    name = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE")
    places = (
        os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
        os.environ.get("AWS_CONFIG_FILE", "~/.aws/config"),
    )
    if not name and not any(Path(place).expanduser().exists() for place in places):
        return None, {}
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        if name:
            raise ConfigurationError(f"the profile {name} needs boto3: pip install 'pagemill[s3]'") from error
        return None, {}
    try:
        session = boto3.Session()
        scoped = session._session.get_scoped_config()  # noqa: SLF001 (boto3 shows it in no other way)
        if session.get_credentials() is None:
            return None, {}
        return Boto3CredentialProvider(session), {k: v for k, v in scoped.items() if isinstance(v, str)}
    except Exception as error:
        raise ConfigurationError(f"the profile {name or 'default'} cannot be used: {error}") from error


def _gs() -> tuple[dict[str, Any], Any]:
    endpoint = os.environ.get("STORAGE_EMULATOR_HOST")
    if not endpoint:
        return {}, None
    return {"base_url": endpoint if "://" in endpoint else f"http://{endpoint}", "skip_signature": True}, None


def _az() -> tuple[dict[str, Any], Any]:
    if connection := os.environ.get("AZURE_STORAGE_CONNECTION_STRING"):
        return _of_connection_string(connection), None
    endpoint = _first_set("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
    return {"endpoint": endpoint} if endpoint else {}, None


def _of_connection_string(text: str) -> dict[str, Any]:
    """The settings that a connection string holds (Azure Storage, "Configure connection strings")."""
    pairs = dict(pair.partition("=")[::2] for pair in text.split(";") if pair.strip())
    names = {"AccountName": "account_name", "AccountKey": "account_key", "SharedAccessSignature": "sas_key"}
    found: dict[str, Any] = {ours: pairs[theirs] for theirs, ours in names.items() if pairs.get(theirs)}
    if "AccountName" not in pairs:
        raise ConfigurationError("AZURE_STORAGE_CONNECTION_STRING names no account")
    if pairs.get("BlobEndpoint"):
        found["endpoint"] = pairs["BlobEndpoint"]
    return found
