"""Trees as people have them: names come back byte for byte, what may not be read is told, links lead nowhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest

from pipeline.document import path_of_uri
from tests import documents

ROOT = Path(__file__).resolve().parents[2]
NAMES = [
    b"x" * 251 + b".pdf",
    ("ü" * 125).encode() + b".pdf",
    b" leading and trailing .pdf ",
    b"100%.pdf",
    b"%41.pdf",
    b"a+b.pdf",
    b"empty#hash.pdf",
    b"what?.pdf",
    b"new\nline.pdf",
    b"tab\tand\x01.pdf",
    b"Twin.pdf",
    b"twin.PDF",
    b"\xff\xfe\xa4.pdf",
    b"back\\slash.pdf",
    b"[1].pdf",
    b"*.pdf",
    b"-n.pdf",
    b"e\xcc\x81.pdf",
    b"\xc3\xa9.pdf",
    "\u202ereversed.pdf".encode(),
    b"no ending",
]


def _run(*arguments: str | bytes, before: Sequence[str] = (), cwd: Path = ROOT) -> subprocess.CompletedProcess[bytes]:
    words = [*before, sys.executable, str(ROOT / "run_batch.py"), *arguments]
    words += ["--runner", "local", "--engine", "fake", "--progress", "none"]
    return subprocess.run(words, cwd=cwd, capture_output=True, timeout=120, check=False)


def _rows(out: Path) -> list[tuple[bytes, str, str | None]]:
    """Path, status and code of each row, in the order of bytes."""
    query = f"SELECT uri, status, error_code FROM '{out}/pages/*/*.parquet'"
    return sorted((os.fsencode(path_of_uri(uri)), status, code) for uri, status, code in duckdb.sql(query).fetchall())


@pytest.mark.parametrize("given", ["folder", "stars", "list"])
def test_every_name_comes_back_byte_for_byte(given: str, tmp_path: Path) -> None:
    good, folder = documents.pdf(tmp_path / "good.pdf", 1), os.fsencode(tmp_path / "in")
    os.makedirs(os.path.join(folder, b"sub \xe4", b"deep"))
    paths = [os.path.join(folder, name) for name in NAMES] + [os.path.join(folder, b"sub \xe4", b"deep", b"\xfc.pdf")]
    for path in paths:
        shutil.copy(good, path)
    argument: str | bytes = folder
    if given == "stars":
        argument = os.path.join(folder, b"**", b"*")
    elif given == "list":
        paths = [path for path in paths if b"\n" not in path]
        (tmp_path / "list").write_bytes(b"\n".join(paths))
        argument = f"@{tmp_path}/list"
    done = _run(argument, os.fsencode(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert [path for path, status, _ in _rows(tmp_path / "out") if status == "text_layer"] == sorted(paths)


@pytest.mark.parametrize("pattern", ["", "**/*.pdf", "**"])
def test_links_that_lead_back_up_give_each_file_once(pattern: str, tmp_path: Path) -> None:
    root = tmp_path / "in"
    (root / "a" / "b").mkdir(parents=True)
    documents.pdf(root / "a" / "b" / "1.pdf", 1)
    (root / "a" / "b" / "up").symlink_to(root)
    (root / "a" / "self").symlink_to(".")
    (root / "x").symlink_to("y")
    (root / "y").symlink_to("x")
    done = _run(str(root / pattern), str(tmp_path / "out"))
    assert b"Traceback" not in done.stderr
    read = [path for path, status, _ in _rows(tmp_path / "out") if status == "text_layer"]
    assert read == [os.fsencode(root / "a" / "b" / "1.pdf")]


@pytest.mark.parametrize("pattern", ["", "**/*.pdf"])
def test_what_may_not_be_read_is_told_and_its_neighbours_are_read(pattern: str, tmp_path: Path) -> None:
    before: Sequence[str] = ()
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root may read everything, and there is no setpriv to give that up")
        rights = "-dac_override,-dac_read_search"
        before = ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}"]
    root = tmp_path / "in"
    for name in ("a", "closed", "z"):
        (root / name).mkdir(parents=True)
        documents.pdf(root / name / "1.pdf", 1)
    documents.pdf(root / "a" / "0.pdf", 1).chmod(0)
    (root / "closed").chmod(0)
    try:
        done = _run(str(root / pattern), str(tmp_path / "out"), before=before)
    finally:
        (root / "closed").chmod(0o700)
    if before and b"setpriv" in done.stderr:
        pytest.skip(f"the right to read everything cannot be given up here: {done.stderr.decode()}")
    assert done.returncode == 1, done.stderr
    found = [(os.path.relpath(os.fsdecode(path), root), code) for path, _, code in _rows(tmp_path / "out")]
    assert found == [("a/0.pdf", "unreadable"), ("a/1.pdf", None), ("closed", "unreadable"), ("z/1.pdf", None)]
