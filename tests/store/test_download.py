"""An object comes whole, of one version, or not at all, however bad the line is; and a row can say why not."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable
from typing import Any

import pytest

from pipeline import shelf
from pipeline.errors import ErrorCode, InputsLostError, PageFault
from pipeline.location import Fetching, Location
from pipeline.store import connection, download
from pipeline.store.download import fetch
from pipeline.store.objects import look
from tests.store import servers

Put = Callable[[str, bytes], None]
DATA = os.urandom(3 << 20)


@pytest.fixture
def proxied(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put a proxy with a fault on the way to the store."""
    started: list[servers.Proxy] = []

    def put_between(fault: servers.Fault) -> servers.Proxy:
        proxy = servers.Proxy(int(s3_endpoint.rpartition(":")[2]), fault).__enter__()
        started.append(proxy)
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        connection.connect.cache_clear()
        return proxy

    yield put_between
    for proxy in started:
        proxy.__exit__()


def fetched(bucket: str, key: str, **options: Any) -> bytes:
    file = io.BytesIO()
    fetch(Location("s3", bucket, key), file, **options)
    return file.getvalue()


def test_a_line_that_is_cut_again_and_again_costs_requests_and_not_the_object(bucket: str, put: Put, proxied: Any):
    put("a.bin", DATA)
    proxy = proxied(lambda _line, number: "cut" if number <= 3 else "drop" if number == 4 else None)
    assert fetched(bucket, "a.bin") == DATA
    assert len(proxy.requests) == 5


def test_a_store_that_asks_for_patience_gets_it(bucket: str, put: Put, proxied: Any):
    put("a.bin", b"x")
    proxy = proxied(lambda _line, number: "503" if number <= 4 else None)
    assert fetched(bucket, "a.bin") == b"x"
    assert len(proxy.requests) == 5


def test_a_store_that_stays_busy_ends_the_run_and_fails_no_page(bucket: str, put: Put, proxied: Any):
    put("a.bin", b"x")
    proxied(lambda _line, _number: "503")
    with pytest.raises(InputsLostError, match="SlowDown"):
        fetched(bucket, "a.bin", patience_s=1.0)


def test_what_was_replaced_on_the_way_is_read_from_the_start_again(bucket: str, put: Put, proxied: Any):
    put("a.bin", DATA)
    other = os.urandom(2 << 20)

    def fault(_line: str, number: int) -> str | None:
        if number == 2:  # before the rest of the first version is asked for
            put("a.bin", other)
        return "cut" if number == 1 else None

    proxied(fault)
    assert fetched(bucket, "a.bin") == other


def test_a_version_that_is_gone_is_a_change_of_the_document(bucket: str, put: Put):
    put("a.bin", b"one")
    seen = look(Location("s3", bucket, "a.bin"))
    assert seen is not None
    put("a.bin", b"two")
    with pytest.raises(PageFault) as raised:
        fetched(bucket, "a.bin", etag=seen.etag)
    assert raised.value.code is ErrorCode.DOCUMENT_CHANGED


def test_an_object_that_is_gone_is_not_found(bucket: str):
    with pytest.raises(PageFault) as raised:
        fetched(bucket, "gone.bin")
    assert raised.value.code is ErrorCode.NOT_FOUND


def test_bytes_that_are_not_those_of_the_checksum_are_asked_for_again(
    bucket: str, put: Put, monkeypatch: pytest.MonkeyPatch
):
    put("a.bin", DATA)
    real, flipped = download._Download._chunks, [True, True]

    def chunks(self: Any) -> Any:
        for chunk in real(self):
            yield bytes([chunk[0] ^ (1 + len(flipped))]) + chunk[1:] if flipped and flipped.pop() else chunk

    monkeypatch.setattr(download._Download, "_chunks", chunks)
    assert fetched(bucket, "a.bin") == DATA
    assert not flipped


def test_an_etag_that_is_no_checksum_is_found_out_and_the_object_read(
    bucket: str, put: Put, monkeypatch: pytest.MonkeyPatch
):
    """As with keys of one's own on S3: the etag has the form of an MD5 and is none."""
    put("a.bin", DATA)
    real = download.seen

    def seen(location: Location, meta: Any) -> Any:
        return real(location, {**meta, "e_tag": "0" * 32})

    monkeypatch.setattr(download, "seen", seen)
    try:
        assert fetched(bucket, "a.bin") == DATA
        assert f"s3://{bucket}" in download._not_md5
    finally:
        download._not_md5.clear()


def test_an_object_of_several_parts_is_read(bucket: str, s3_endpoint: str):
    client, parts = servers.client(s3_endpoint), [os.urandom(5 << 20), b"the rest"]
    upload = client.create_multipart_upload(Bucket=bucket, Key="big.bin")["UploadId"]
    where = {"Bucket": bucket, "Key": "big.bin", "UploadId": upload}
    etags = [
        client.upload_part(**where, PartNumber=number, Body=part)["ETag"] for number, part in enumerate(parts, start=1)
    ]
    told = [{"ETag": etag, "PartNumber": number} for number, etag in enumerate(etags, start=1)]
    client.complete_multipart_upload(**where, MultipartUpload={"Parts": told})
    seen = look(Location("s3", bucket, "big.bin"))
    assert seen is not None
    assert seen.etag.endswith("-2")
    assert fetched(bucket, "big.bin", etag=seen.etag) == b"".join(parts)


@pytest.mark.parametrize(
    ("status", "code"), [("403", "ExpiredToken"), ("403", "InvalidAccessKeyId"), ("403", "SignatureDoesNotMatch")]
)
def test_credentials_that_have_ended_end_the_run_and_fail_no_page(
    bucket: str, put: Put, proxied: Any, monkeypatch: pytest.MonkeyPatch, status: str, code: str
):
    put("a.bin", b"x")
    proxied(lambda _line, _number: f"{status} {code}")
    with pytest.raises(InputsLostError, match="renew the credentials and start again") as raised:
        fetched(bucket, "a.bin", patience_s=1.0)
    assert code in str(raised.value)


def test_what_may_not_be_read_is_the_fault_of_that_document(bucket: str, put: Put, proxied: Any):
    put("a.bin", b"x")
    proxied(lambda _line, _number: "403 AccessDenied")
    with pytest.raises(PageFault) as raised:
        fetched(bucket, "a.bin", patience_s=1.0)
    assert raised.value.code is ErrorCode.UNREADABLE


def test_no_secret_is_in_any_error(bucket: str, put: Put, proxied: Any, monkeypatch: pytest.MonkeyPatch):
    said = "HTTP error: error sending request for url (https://me:pw@h.example/c/k?sig=S3CRET&se=1): timed out"
    assert connection.reason(OSError(said)) == (
        "HTTP error: error sending request for url (https://h.example/c/k): timed out"
    )
    proxied(lambda _line, _number: "403 SignatureDoesNotMatch")
    with pytest.raises(InputsLostError) as raised:
        fetched(bucket, "a.bin", patience_s=1.0)
    assert servers.SECRET not in str(raised.value)
    assert servers.KEY not in str(raised.value)


# the shelf


@pytest.fixture
def fetching(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Fetching:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return Fetching("run", most_bytes=1000)


def on_shelf(tmp_path: Any) -> list[int]:
    return sorted(path.stat().st_size for path in tmp_path.glob("pagemill-objects-*/run/*"))


def test_what_was_fetched_once_is_not_fetched_again(bucket: str, put: Put, fetching: Fetching, proxied: Any):
    put("a.bin", b"x" * 300)
    proxy = proxied(lambda _line, _number: None)
    location = Location("s3", bucket, "a.bin")
    with shelf.taken(location, None, fetching) as book:
        etag = book.etag
    for _ in range(3):
        with shelf.taken(location, etag, fetching) as book, open(book.path, "rb") as file:
            assert hashlib.sha256(file.read()).hexdigest() == hashlib.sha256(b"x" * 300).hexdigest()
    assert len(proxy.requests) == 1


def test_the_shelf_keeps_to_its_bytes_and_what_is_in_use_stays(
    bucket: str, put: Put, fetching: Fetching, tmp_path: Any
):
    for number in range(6):
        put(f"{number}.bin", bytes([number]) * (300 + number))
    with shelf.taken(Location("s3", bucket, "0.bin"), None, fetching) as first:
        for number in range(1, 6):
            with shelf.taken(Location("s3", bucket, f"{number}.bin"), None, fetching):
                pass
        with open(first.path, "rb") as file:
            assert file.read() == b"\0" * 300
    assert on_shelf(tmp_path) == [300, 304, 305]
    shelf.clear("run")
    assert on_shelf(tmp_path) == []


def test_a_folder_of_somebody_else_is_not_used(bucket: str, put: Put, fetching: Fetching, tmp_path: Any):
    put("a.bin", b"x")
    (tmp_path / f"pagemill-objects-{os.getuid()}").mkdir(mode=0o777)
    (tmp_path / f"pagemill-objects-{os.getuid()}").chmod(0o777)
    with (
        pytest.raises(shelf.MachineError, match="only this user can enter"),
        shelf.taken(Location("s3", bucket, "a.bin"), None, fetching),
    ):
        pass


def test_what_a_killed_run_has_left_goes_with_the_next(bucket: str, put: Put, fetching: Fetching, tmp_path: Any):
    put("a.bin", b"x")
    old = tmp_path / f"pagemill-objects-{os.getuid()}" / "killed"
    old.mkdir(parents=True)
    old.parent.chmod(0o700)
    (old / "book").write_bytes(b"x")
    os.utime(old, (0, 0))
    with shelf.taken(Location("s3", bucket, "a.bin"), None, fetching):
        assert not old.exists()
