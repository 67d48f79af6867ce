"""One server of each kind for all tests of this folder, and an environment that leads to it and nowhere else."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from pipeline.store import connection
from tests.store import servers


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    with servers.s3() as endpoint:
        yield endpoint


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith(("AWS_", "AZURE_", "GOOGLE_", "STORAGE_EMULATOR"))]:
        monkeypatch.delenv(name)
    connection.connect.cache_clear()
    yield
    connection.connect.cache_clear()


@pytest.fixture
def s3_environment(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Credentials and endpoint as a user sets them."""
    for name, value in s3_variables(s3_endpoint).items():
        monkeypatch.setenv(name, value)
    return s3_endpoint


def s3_variables(endpoint: str) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": servers.KEY,
        "AWS_SECRET_ACCESS_KEY": servers.SECRET,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": "us-east-1",
    }


@pytest.fixture
def bucket(s3_environment: str) -> str:
    """The name of an empty bucket."""
    name = f"bucket-{secrets.token_hex(4)}"
    servers.client(s3_environment).create_bucket(Bucket=name)
    return name


@pytest.fixture
def put(s3_environment: str, bucket: str) -> Any:
    """Puts an object into the bucket, without any code of ours."""
    client = servers.client(s3_environment)

    def put_object(key: str, data: bytes) -> None:
        client.put_object(Bucket=bucket, Key=key, Body=data)

    return put_object
