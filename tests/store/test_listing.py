"""What a listing of a bucket finds: every key as it is, on past a thousand, on past a cut line, and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from pipeline.errors import ErrorCode, InputError, InputsLostError
from pipeline.location import Fetching, Location, location_of_uri
from pipeline.source import Discovery
from pipeline.store import connection
from pipeline.store.objects import listed
from tests.store import servers

Put = Callable[[str, bytes], None]

STRANGE = [
    *(" lead", "a b.pdf", "a%20b.pdf", "a+b.pdf", "a#b.pdf", "a?b.pdf", "a&b=c.pdf", "a:b.pdf", "a*b.pdf", "a[b].pdf"),
    *("a\\b.pdf", "a~b^{c}|.pdf", '"quoted".pdf', "<a>.pdf", "trail ", "ünï/日本語/🗎.pdf", "e\u0301.pdf", "\u00e9.pdf"),
    *("deep/" * 60 + "x.pdf", "k" * 1024, "up!/x.pdf", "100%.pdf", "%2F.pdf", "-x.pdf", "CASE.pdf", "case.pdf"),
]


def found(*inputs: str, **options: Any) -> list[str]:
    discovery = Discovery(inputs, **options)
    discovery.check()
    return [location_of_uri(source.uri).key for source in discovery.sources()]


def test_every_key_comes_back_letter_for_letter_and_in_the_order_of_its_bytes(bucket: str, put: Put):
    for key in STRANGE:
        put(key, key.encode())
    assert found(f"s3://{bucket}") == sorted(STRANGE, key=str.encode)


def test_what_a_uri_names_is_read_whatever_is_in_its_key(bucket: str, put: Put, tmp_path: Any):
    from pipeline.raster import identify

    for key in STRANGE:
        put(key, key.encode())
    for source in Discovery([f"s3://{bucket}"]).sources():
        document = identify(source.uri, hint=source.etag)
        key = location_of_uri(source.uri).key
        assert document.document_id == hashlib.sha256(key.encode()).hexdigest()
        assert (document.size_bytes, document.etag) == (len(key.encode()), source.etag)


def test_more_keys_than_a_page_of_a_listing_holds_all_come_once(bucket: str, put: Put):
    keys = [f"many/{number:05d}.pdf" for number in range(2300)]
    for key in keys:
        put(key, b"x")
    put("manyfold.pdf", b"x")
    assert found(f"s3://{bucket}/many/") == keys
    assert found(f"s3://{bucket}/many") == keys


def test_markers_of_folders_are_no_documents_and_empty_objects_are(bucket: str, put: Put):
    for key in ("in/", "in/sub/", "in/empty.pdf", "in/sub/a.pdf"):
        put(key, b"" if not key.endswith("a.pdf") else b"x")
    assert found(f"s3://{bucket}/in/") == ["in/empty.pdf", "in/sub/a.pdf"]
    assert found(f"s3://{bucket}") == ["in/empty.pdf", "in/sub/a.pdf"]


def test_keys_that_no_path_can_have_have_a_row_that_says_so_and_stop_nothing(bucket: str, put: Put):
    odd = ["a//b.pdf", "a/../c.pdf", "./d.pdf", "/e.pdf", "f/./g.pdf"]
    for key in [*odd, "a/plain.pdf", "z.pdf"]:
        put(key, b"x")
    sources = list(Discovery([f"s3://{bucket}"]).sources())
    assert {location_of_uri(s.uri).key for s in sources if s.problem} == set(odd)
    assert {s.problem for s in sources if s.problem} == {ErrorCode.UNREADABLE}
    assert [location_of_uri(s.uri).key for s in sources if not s.problem] == ["a/plain.pdf", "z.pdf"]


def test_such_keys_without_boto3_are_told_with_what_to_install(bucket: str, put: Put, monkeypatch: pytest.MonkeyPatch):
    put("a//b.pdf", b"x")
    monkeypatch.setattr("pipeline.store.boto._client", lambda: None)
    with pytest.raises(InputError, match=r"pip install 'pagemill\[s3\]'"):
        found(f"s3://{bucket}")


def test_what_is_left_out_of_folders_is_left_out_of_buckets(bucket: str, put: Put):
    for key in (".hidden.pdf", "sub/.git/x.pdf", "a.pdf.part", "Thumbs.db", "drafts/a.pdf", "old.bak", "keep/a.pdf"):
        put(f"in/{key}", b"x")
    put("in/.pagemillignore", b"drafts/\n*.bak\n")
    put("in/keep/skip-me.pdf", b"x")
    discovery = Discovery([f"s3://{bucket}/in/"], ["skip-*"])
    assert [location_of_uri(s.uri).key for s in discovery.sources()] == ["in/keep/a.pdf"]
    assert discovery.num_ignored == 8


def test_outputs_are_no_inputs(bucket: str, put: Put):
    for key in ("mine/pages/x.parquet", "mine/_staging/y", "other/_lease/00000001.json", "other/pages/x.parquet"):
        put(f"in/{key}", b"x")
    put("in/other-documents/_lease/of-my-flat.pdf", b"x")
    put("in/z.pdf", b"x")
    kept = ["in/other-documents/_lease/of-my-flat.pdf", "in/z.pdf"]
    assert found(f"s3://{bucket}/in/", out=f"s3://{bucket}/in/mine") == kept


@pytest.mark.parametrize(
    ("pattern", "keys"),
    [
        ("*.pdf", ["b.pdf"]),
        ("**/*.pdf", ["a/a.pdf", "a/deep/c.pdf", "b.pdf"]),
        ("a/**", ["a/a.pdf", "a/a.tif", "a/deep/c.pdf"]),
        ("[ab]/*.tif", ["a/a.tif"]),
        ("?.pdf", ["b.pdf"]),
        ("a/**/c.pdf", ["a/deep/c.pdf"]),
        ("a/[!b].pdf", ["a/a.pdf"]),
    ],
)
def test_a_pattern_matches_keys_as_a_shell_matches_paths(bucket: str, put: Put, pattern: str, keys: list[str]):
    for key in ("a/a.pdf", "a/a.tif", "a/deep/c.pdf", "a/.hid/d.pdf", "b.pdf", ".e.pdf"):
        put(key, b"x")
    assert found(f"s3://{bucket}/{pattern}") == keys


def test_a_name_with_stars_that_is_there_is_no_pattern(bucket: str, put: Put):
    for key in ("a*b.pdf", "axb.pdf"):
        put(key, b"x")
    assert found(f"s3://{bucket}/a*b.pdf") == ["a*b.pdf"]


def test_objects_named_twice_or_within_a_folder_named_come_once(bucket: str, put: Put, tmp_path: Any):
    for key in ("in/a.pdf", "in/sub/b.pdf", "c.pdf"):
        put(key, b"x")
    (tmp_path / "list.txt").write_text(f"s3://{bucket}/in/a.pdf\ns3://{bucket}/c.pdf\ns3://{bucket}/gone.pdf\n")
    named = found(f"@{tmp_path}/list.txt", f"s3://{bucket}/in/", f"s3://{bucket}/in/sub", f"s3://{bucket}/c.pdf")
    assert named == ["in/a.pdf", "c.pdf", "gone.pdf", "in/sub/b.pdf"]


@pytest.mark.parametrize("given", ["s3://{}/nothing", "s3://{}/*.none", "s3://no-such-bucket-here/x"])
def test_an_input_that_is_not_there_is_told_before_the_start(bucket: str, given: str):
    with pytest.raises(InputError):
        Discovery([given.format(bucket)]).check()


def test_a_listing_goes_on_where_the_line_was_cut(
    bucket: str, put: Put, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch
):
    keys = [f"many/{number:05d}" for number in range(2300)]
    for key in keys:
        put(key, b"x")
    seen = 0

    def fault(line: str, _number: int) -> str | None:
        nonlocal seen
        seen += "list-type=2" in line
        return {2: "503", 3: "cut", 5: "drop"}.get(seen) if "list-type=2" in line else None

    with servers.Proxy(int(s3_endpoint.rpartition(":")[2]), fault) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        connection.connect.cache_clear()
        assert [seen.location.key for seen in listed(Location("s3", bucket, "many/"), 30.0)] == keys
        assert seen > 5


def test_a_store_that_is_gone_for_good_ends_the_listing_with_what_to_do(
    bucket: str, put: Put, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{servers.free_port()}")
    connection.connect.cache_clear()
    with pytest.raises(InputsLostError, match="cannot be reached, so start again when it can"):
        list(Discovery([f"s3://{bucket}/x/"], fetching=Fetching(patience_s=1.0)).sources())


def test_a_key_deleted_on_the_way_stops_nothing(bucket: str, put: Put, s3_endpoint: str):
    for number in range(20):
        put(f"in/{number:02d}", b"x")
    client, sources = servers.client(s3_endpoint), Discovery([f"s3://{bucket}/in/"]).sources()
    first = next(sources)
    with suppress(Exception):
        client.delete_object(Bucket=bucket, Key="in/10")
    assert len([first, *sources]) in (19, 20)
