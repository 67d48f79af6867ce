"""Whatever is done to a file: no traceback, a row at least, each page exactly one outcome, and the run lives.

The same damage is done every time, in about a minute. To look further, for as long as it takes:

    PAGEMILL_FUZZ_EXAMPLES=20000 PAGEMILL_FUZZ_KEEP=/some/folder python -m pytest tests/fuzz --timeout 0

draws that much new damage for each format, and keeps the files that killed their process.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import ErrorCode

from .damage import Hit, damaged, strokes
from .examiner import Examiner
from .seeds import SEEDS
from .worker import MAX_PAGES

EXAMPLES = int(os.environ.get("PAGEMILL_FUZZ_EXAMPLES", "0"))
KEEP = os.environ.get("PAGEMILL_FUZZ_KEEP")
QUICK_EXAMPLES = 350
UNPACKED_BYTES = 1 << 20
"""More than any file in a seed that is an archive holds."""
settings.register_profile("fuzz", max_examples=EXAMPLES or QUICK_EXAMPLES, derandomize=not EXAMPLES)


@pytest.fixture(scope="module")
def examiner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Examiner]:
    with (tmp_path_factory.mktemp("log") / "stderr").open("wb") as log:
        examiner = Examiner(log)
        yield examiner
        examiner.close()


@pytest.fixture(scope="module")
def wholes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("seeds")
    for name, make in SEEDS.items():
        make(folder / name)
    return {name: (folder / name).read_bytes() for name in SEEDS}


@pytest.mark.parametrize("name", SEEDS)
def test_a_whole_file_is_read(name: str, wholes: dict[str, bytes], examiner: Examiner, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(wholes[name])
    seen = examiner.examine(tmp_path / name)
    assert seen.died is None
    assert [code for _, code, _, _ in seen.answer["pages"]] == [None] * min(seen.answer["count"], MAX_PAGES)


@pytest.mark.parametrize("name", SEEDS)
def test_a_damaged_file_has_exactly_one_outcome_for_each_page(
    name: str, wholes: dict[str, bytes], examiner: Examiner, tmp_path: Path
) -> None:
    headers = st.sampled_from([b""] * 8 + [whole[:24] for whole in wholes.values()])

    @settings(settings.get_profile("fuzz"))
    @given(strokes, headers)
    def holds(hits: list[Hit], header: bytes) -> None:
        data = damaged(wholes[name], hits, header)
        path = tmp_path / name
        path.write_bytes(data)
        seen = examiner.examine(path)
        if seen.died and KEEP:
            shutil.copy(path, Path(KEEP) / f"{examiner.num_deaths}-{name}")
        assert_each_page_has_one_outcome(seen.answer, len(data))

    holds()


def test_an_xps_that_has_become_an_archive_of_files_is_opened_as_one(
    wholes: dict[str, bytes], examiner: Examiner, tmp_path: Path
) -> None:
    """So it is once its directory names no fixed documents: found where damage was drawn in another order of tests."""
    data = damaged(wholes["a.xps"], [Hit("insert", 0.8125, 0.0, 1, b"0")], b"")
    path = tmp_path / "a.xps"
    path.write_bytes(data)
    answer = examiner.examine(path).answer
    assert answer["members"]
    assert_each_page_has_one_outcome(answer, len(data))


def assert_each_page_has_one_outcome(answer: dict[str, Any], num_bytes: int) -> None:
    failure = answer.get("failure")
    if failure is not None:
        assert failure[0] in tuple(ErrorCode)
        assert_one_line(failure[1])
        return
    if "members" in answer:
        assert answer["members"], "an archive holds a file at least"
        for member in answer["members"]:
            assert "members" not in member, "no archive is opened within another"
            assert_each_page_has_one_outcome(member, UNPACKED_BYTES)
        return
    count, pages = answer["count"], answer["pages"]
    assert 1 <= count <= num_bytes, "each page takes a byte at least"
    assert [index for index, *_ in pages] == list(range(min(count, MAX_PAGES)))
    for _, code, message, _ in pages:
        assert code is None or code in tuple(ErrorCode)
        if code is not None or message is not None:
            assert_one_line(message)


def assert_one_line(message: Any) -> None:
    assert isinstance(message, str)
    assert 0 < len(message) <= 1000
    assert message.isprintable()
    assert "Traceback" not in message
