"""A run's temporary folder goes with it, at the latest when the next one starts."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.scratch import Scratch


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="pm", dir="/tmp") as name:
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield Path(name)


def test_a_folder_in_use_is_left_alone_and_one_of_a_dead_run_is_swept(temporary: Path):
    (temporary / "pagemill-dead").mkdir()
    (temporary / "pagemill-dead" / "lock").touch()
    (temporary / "pagemill-of-somebody").mkdir()
    living = Scratch.make()
    other = Scratch.make()
    assert {path.name for path in temporary.iterdir()} == {
        living.folder.name,
        other.folder.name,
        "pagemill-of-somebody",
    }
    living.remove()
    other.remove()
    assert [path.name for path in temporary.iterdir()] == ["pagemill-of-somebody"]


def test_a_folder_whose_name_is_too_long_for_sockets_below_it_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / ("long" * 20)).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("long" * 20)))
    scratch = Scratch.make()
    session = "session_2026-11-30_22-00-38_123456_1234567/sockets/plasma_store"
    assert len(str(scratch.folder / session)) <= 107
    scratch.remove()
