"""A store puts an object whole and once, and tells what is there."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from obstore.exceptions import GenericError

import pipeline.store
from pipeline.errors import StorageError, UsageError
from pipeline.store import Store


def test_what_is_put_is_got(tmp_path: Path):
    store = Store.open(str(tmp_path))
    assert store.put_new("pages/run_date=2024-02-29/a.parquet", b"data")
    assert store.get("pages/run_date=2024-02-29/a.parquet") == b"data"
    assert (tmp_path / "pages/run_date=2024-02-29/a.parquet").read_bytes() == b"data"


def test_nothing_is_ever_put_over_another(tmp_path: Path):
    store = Store.open(str(tmp_path))
    assert store.put_new("key", b"first")
    assert not store.put_new("key", b"second")
    assert store.get("key") == b"first"


def test_of_many_who_put_the_same_at_once_one_wins_and_it_is_whole(tmp_path: Path):
    store = Store.open(str(tmp_path))
    contents = [bytes([number]) * 100_000 for number in range(16)]
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda data: store.put_new("key", data), contents))
    assert won.count(True) == 1
    assert store.get("key") == contents[won.index(True)]


def test_nothing_but_the_object_lies_under_its_name_or_beside_it(tmp_path: Path):
    store = Store.open(str(tmp_path))
    store.put_new("a/b.parquet", b"x" * 1_000_000)
    store.put_new("a/b.parquet", b"y")
    assert os.listdir(tmp_path / "a") == ["b.parquet"]


def test_keys_are_listed_below_their_prefix_and_sorted(tmp_path: Path):
    store = Store.open(str(tmp_path))
    for key in ("pages/d=2/b", "pages/d=10/a", "pages/d=2/a", "pagesx/a", "runs/a"):
        store.put_new(key, b"")
    assert store.keys("pages") == ["pages/d=10/a", "pages/d=2/a", "pages/d=2/b"]
    assert store.keys("nothing") == []


def test_what_a_crash_left_half_written_is_no_key(tmp_path: Path):
    """The store writes beside the name, with `#` and a number behind it, and links the whole under it."""
    store = Store.open(str(tmp_path))
    store.put_new("pages/a.parquet", b"whole")
    (tmp_path / "pages" / "b.parquet#1").write_bytes(b"ha")
    assert store.keys("pages") == ["pages/a.parquet"]
    assert store.names("pages") == ["pages/a.parquet", "pages/b.parquet#1"]
    assert store.names("nothing") == []


def test_a_folder_that_is_only_read_is_never_made(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"")
    for name in ("nowhere", "file"):
        with pytest.raises(UsageError, match="no such folder"):
            Store.existing(str(tmp_path / name))
    assert os.listdir(tmp_path) == ["file"]
    Store.open(str(tmp_path / "there")).put_new("a", b"data")
    assert Store.existing(str(tmp_path / "there")).get("a") == b"data"


@pytest.mark.parametrize("name", ["with blank", "100% #1?", "ü漢", "a=b&c", "[x]*", "back\\slash"])
def test_the_folder_may_have_any_name(name: str, tmp_path: Path):
    store = Store.open(str(tmp_path / name))
    assert store.put_new("pages/a", b"data")
    assert store.keys("pages") == ["pages/a"]
    assert store.get("pages/a") == b"data"
    assert os.listdir(tmp_path) == [name]
    assert store.location == str(tmp_path / name)


def test_a_folder_is_made_with_those_above_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Store.open("a/b/c").location == str(tmp_path / "a/b/c")
    assert Store.open("~/d").location == str(tmp_path / "d")
    assert (tmp_path / "a/b/c").is_dir()


@pytest.mark.parametrize("location", ["ftp://host/out", "https://example.org/out", "s3:///out"])
def test_a_place_of_a_kind_that_is_not_known_is_a_wrong_command(location: str):
    with pytest.raises(UsageError, match=r"only s3://, gs://, az:// and local files are known|no name of a bucket"):
        Store.open(location)


def test_an_output_that_is_a_file_is_a_wrong_command(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "broken").symlink_to("nowhere")
    for name in ("file", "broken"):
        with pytest.raises(UsageError, match="exists and is not a folder"):
            Store.open(str(tmp_path / name))


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match=r"cannot be made: .*Not a directory"):
        Store.open(str(tmp_path / "file" / "below"))


def test_an_object_that_cannot_be_written_or_read_is_told_on_one_line(tmp_path: Path):
    store = Store.open(str(tmp_path))
    (tmp_path / "a").write_bytes(b"a file where a folder is needed")
    with pytest.raises(StorageError, match=r"^a/b could not be written: [^\n]+$"):
        store.put_new("a/b", b"")
    with pytest.raises(StorageError, match=r"^nothing could not be read: [^\n]+$"):
        store.get("nothing")


def test_an_output_that_cannot_be_listed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fails(*arguments, **options):
        raise GenericError("the disk is gone\n\nDebug source: ...")

    monkeypatch.setattr(pipeline.store.obstore, "list", fails)
    with pytest.raises(StorageError, match=r"^pages could not be listed: the disk is gone$"):
        Store.open(str(tmp_path)).keys("pages")
