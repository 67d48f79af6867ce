"""A run's temporary folder goes with it, at the latest when the next one starts."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from pipeline.scratch import Scratch


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_a_folder_in_use_is_left_alone_and_one_of_a_dead_run_is_swept(tmp_path: Path):
    (tmp_path / "pagemill-dead").mkdir()
    (tmp_path / "pagemill-dead" / "lock").touch()
    (tmp_path / "pagemill-of-somebody").mkdir()
    living = Scratch.make()
    other = Scratch.make()
    assert {path.name for path in tmp_path.iterdir()} == {
        living.folder.name,
        other.folder.name,
        "pagemill-of-somebody",
    }
    living.remove()
    other.remove()
    assert [path.name for path in tmp_path.iterdir()] == ["pagemill-of-somebody"]
