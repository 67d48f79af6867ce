"""Boto: lists buckets of S3 with keys that obstore has no name for, such as `a//b` or `./a`; the only boto3 import.

obstore's paths have no empty parts, no `.` and `..` and no controls, and one such key fails a page of a thousand.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from pipeline.errors import InputError, InputsLostError
from pipeline.location import Location

_UNREADABLE = re.compile(r"(?:^|/)(?:\.{0,2})(?:/|$)|[\x00-\x1f\x7f]")
"""A part of a key that is empty, `.` or `..`, or a control."""

_ODD = "its key has an empty part, '.', '..' or a control: rename the object"
_UNSIGNED = ("1", "true", "t", "yes", "y", "on")


def starts_with_a_slash(location: Location) -> bool:
    """Whether a bucket has keys that begin with a slash, which obstore lists without it; False without boto3."""
    client = _client()
    if client is None:
        return False
    try:
        return bool(client.list_objects_v2(Bucket=location.bucket, Prefix="/", MaxKeys=1).get("KeyCount"))
    except Exception:  # whatever it is, obstore will say it, too
        return False


def listed_by_boto(location: Location, last: str) -> Iterator[tuple[str, int, datetime, str, str | None]]:
    """Key, bytes, time of change, etag of all objects below a folder after a key, and why it cannot be read if so.

    Raises:
        InputError: boto3 is not there.
        InputsLostError: the listing fails.
    """
    client = _client()
    if client is None:
        problem = "has keys with empty parts, '.', '..' or controls, which are listed by boto3 only"
        raise InputError(f"{location.uri} {problem}: pip install 'pagemill[s3]'")
    prefix = location.key.strip("/") + "/" if location.key.strip("/") else ""
    asked = {"Bucket": location.bucket, "Prefix": prefix} | ({"StartAfter": last} if last else {})
    try:
        for page in client.get_paginator("list_objects_v2").paginate(**asked):
            for item in page.get("Contents", ()):
                key, size = item["Key"], item["Size"]
                if size or not key.endswith("/"):
                    is_odd = _UNREADABLE.search(key)
                    yield key, size, item["LastModified"], item["ETag"], _ODD if is_odd else None
    except Exception as error:
        raise InputsLostError(f"{location.root} cannot be listed, so start again when it can: {error}") from error


def _client() -> Any:
    try:
        import boto3
        from botocore import UNSIGNED
        from botocore.config import Config
    except ImportError:
        return None
    is_unsigned = os.environ.get("AWS_SKIP_SIGNATURE", "").lower() in _UNSIGNED
    signing: dict[str, Any] = {"signature_version": UNSIGNED} if is_unsigned else {}
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or boto3.Session().region_name
    endpoint = (
        os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT")
    )
    config = Config(retries={"mode": "standard", "max_attempts": 10}, **signing)
    return boto3.client("s3", endpoint_url=endpoint, region_name=region or "us-east-1", config=config)
