"""What a rasterizing process does with a task: everything told once, bounds set, and faults sent where they belong.

What really dies, hangs and eats memory is in tests/e2e; here the bounds are watched from outside.
"""

from __future__ import annotations

import json
import pickle
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pipeline.rasterizer
from pipeline.document import Document, Source, uri_of_path
from pipeline.errors import ErrorCode
from pipeline.page import Raster, RasterLimits, SizedPage
from pipeline.raster import fake, guard, probe, quarantine, render_pages
from pipeline.raster.fake import MAGIC
from pipeline.rasterizer import probe_sources, render_blocks
from pipeline.result import Probe, Stage, Unrendered
from pipeline.task import Piece

from .rasters import AS_IS, BLACK, RED, pdf
from .samples import a_failure

LIMITS = RasterLimits(page_timeout_s=7.0)
FAKES = RasterLimits(page_timeout_s=7.0, fake_decoder=True)


@pytest.fixture(autouse=True)
def watchdog(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The watchdog that ends a process, watched instead of set."""
    calls: list[str] = []
    monkeypatch.setattr(
        guard.faulthandler,
        "dump_traceback_later",
        lambda seconds, **options: calls.append(f"set {seconds:g} {options['exit']}"),
    )
    monkeypatch.setattr(guard.faulthandler, "cancel_dump_traceback_later", lambda: calls.append("cancelled"))
    return calls


def _document(tmp_path: Path, name: str = "a.pdf") -> Document:
    pdf(tmp_path / name, (30, 20, BLACK), (31, 20, RED), (32, 20, BLACK))
    return probe(Source(uri_of_path(str(tmp_path / name)))).document


def _fake(tmp_path: Path, *acts: str) -> Document:
    (tmp_path / "fake").write_bytes(MAGIC + json.dumps(acts).encode())
    found = probe(Source(uri_of_path(str(tmp_path / "fake"))), limits=FAKES)
    assert found.failure is None
    return found.document


def test_every_source_is_told_once_in_order(tmp_path: Path):
    uris = [_document(tmp_path, name).uri for name in ("a.pdf", "b.pdf")] + ["file:///nowhere.pdf"]
    told = list(probe_sources([Source(uri) for uri in uris], LIMITS, alone=False))
    assert [found.document.uri for found in told] == uris
    assert [found.failure is None for found in told] == [True, True, False]


def test_every_page_of_every_piece_is_told_once_in_order(tmp_path: Path):
    one, other = _document(tmp_path, "a.pdf"), _document(tmp_path, "b.pdf")
    pieces = [Piece(one, 1, 3), Piece(other, 0, 1)]
    made = list(render_blocks(pieces, AS_IS, LIMITS, alone=False))
    told = [item.page.key for block in made for item in block.told]
    assert told == [(one.uri, 1), (one.uri, 2), (other.uri, 0)]
    assert sum(len(block.pixels) for block in made) == 3


def test_alone_means_each_in_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    document, asked = _document(tmp_path), []

    def render_alone(document: Document, index: int, rule: Any, limits: RasterLimits) -> Raster | Unrendered:
        asked.append(index)
        return next(render_pages(document, index, index + 1, rule))

    def probe_alone(source: Source, limits: RasterLimits) -> Probe:
        asked.append(source.uri)
        return Probe(Document(source.uri), a_failure())

    monkeypatch.setattr(pipeline.rasterizer, "render_alone", render_alone)
    monkeypatch.setattr(pipeline.rasterizer, "probe_alone", probe_alone)
    made = list(render_blocks([Piece(document, 0, 3)], AS_IS, LIMITS, alone=True))
    assert asked == [0, 1, 2]
    assert [item.page.page_index for block in made for item in block.told] == [0, 1, 2]
    assert len(list(probe_sources([Source("file:///x"), Source("file:///y")], LIMITS, alone=True))) == 2
    assert asked[3:] == ["file:///x", "file:///y"]


def test_a_page_without_memory_ends_the_task_so_that_it_is_tried_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    document = _document(tmp_path)

    def render(*arguments: Any) -> Iterator[Raster | Unrendered]:
        yield next(render_pages(document, 0, 1, AS_IS))
        yield Unrendered(Piece(document, 1, 2).pages()[0], a_failure(ErrorCode.OUT_OF_MEMORY))

    monkeypatch.setattr(pipeline.rasterizer, "render_pages", render)
    with pytest.raises(MemoryError, match="made to fail"):
        list(render_blocks([Piece(document, 0, 3)], AS_IS, LIMITS, alone=False))


# bounds


def test_the_watchdog_runs_for_each_item_anew_and_never_between_them(watchdog: list[str]):
    seen = []
    for item in guard.guarded(iter("ab"), LIMITS):
        seen.append(item)
        assert watchdog[-1] == "cancelled", "the one who waits for the item is not watched"
    assert seen == ["a", "b"]
    assert watchdog == ["set 7 True", "cancelled"] * 3


def test_the_watchdog_is_called_off_when_an_item_raises(watchdog: list[str]):
    def raises() -> Iterator[int]:
        yield 1
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        list(guard.guarded(raises(), LIMITS))
    assert watchdog[-1] == "cancelled"


@pytest.mark.parametrize(
    ("wanted", "hard", "expected"),
    [
        (0, guard.resource.RLIM_INFINITY, []),
        (1000, guard.resource.RLIM_INFINITY, [(1000, guard.resource.RLIM_INFINITY)]),
        (1000, 500, [(500, 500)]),
        (1000, 2000, [(1000, 2000)]),
    ],
)
def test_memory_is_bounded_within_what_the_system_allows(
    wanted: int, hard: int, expected: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
):
    bounds: list[tuple[int, int]] = []
    monkeypatch.setattr(guard.resource, "getrlimit", lambda _kind: (0, hard))
    monkeypatch.setattr(guard.resource, "setrlimit", lambda _kind, bound: bounds.append(bound))
    guard.limit_memory(RasterLimits(memory_bytes=wanted))
    assert bounds == expected


# the fake decoder


def test_fake_documents_are_read_only_where_they_are_wanted(tmp_path: Path):
    document = _fake(tmp_path, "ok", "raise")
    assert document.page_count == 2
    plain = probe(Source(document.uri))
    assert plain.failure is not None
    assert plain.failure.code == ErrorCode.UNSUPPORTED_TYPE


def test_a_page_of_a_fake_document_does_what_it_says(tmp_path: Path):
    document = _fake(tmp_path, "ok", "raise", "ok")
    first, second, third = render_pages(document, 0, 3, AS_IS)
    assert isinstance(first, Raster)
    assert isinstance(second, Unrendered)
    assert isinstance(third, Raster)
    assert (int(first.pixels[20, 20]), int(third.pixels[20, 20])) == (0, 2)
    assert second.failure.code == ErrorCode.BROKEN_PAGE


@pytest.mark.parametrize(
    ("act", "name", "call"),
    [("abort", "kill", ("pid", signal.SIGABRT)), ("exit", "_exit", (3,)), ("hang", "sleep", (3600,))],
)
def test_what_a_fake_page_does_to_its_process_is_what_was_asked(
    act: str, name: str, call: tuple[Any, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    called: list[tuple[Any, ...]] = []
    monkeypatch.setattr(fake.time if name == "sleep" else fake.os, name, lambda *arguments: called.append(arguments))
    monkeypatch.setattr(fake.os, "getpid", lambda: "pid")
    _fake(tmp_path, f"probe-{act}")
    assert called == [call]


def test_a_fake_page_that_eats_memory_fails_if_there_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fake.np, "ones", lambda *arguments: np.zeros(1, np.uint8))
    (made,) = render_pages(_fake(tmp_path, "eat"), 0, 1, AS_IS)
    assert isinstance(made, Unrendered)
    assert "were not enough" in made.failure.message


# quarantine


@pytest.fixture
def within(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child's work done in this process."""

    def ask(question: tuple[Any, ...], limits: RasterLimits, stage: Stage) -> bytes:
        return quarantine._answer(pickle.loads(pickle.dumps(question)))

    monkeypatch.setattr(quarantine, "_ask", ask)


@pytest.mark.usefixtures("within")
def test_a_page_rendered_alone_is_the_page_rendered_among_others(tmp_path: Path):
    document = _document(tmp_path)
    for index, expected in enumerate(render_pages(document, 0, 3, AS_IS)):
        made = quarantine.render_alone(document, index, AS_IS, LIMITS)
        assert isinstance(made, Raster)
        assert isinstance(expected, Raster)
        assert isinstance(made.sized, SizedPage)
        assert made.sized.page == expected.sized.page
        assert made.sized.channels == expected.sized.channels
        assert np.array_equal(made.pixels, expected.pixels)


@pytest.mark.usefixtures("within")
def test_a_fault_found_alone_is_the_fault_found_among_others(tmp_path: Path):
    document = _fake(tmp_path, "raise")
    (expected,) = render_pages(document, 0, 1, AS_IS)
    assert quarantine.render_alone(document, 0, AS_IS, FAKES) == expected
    source = Source(document.uri)
    assert quarantine.probe_alone(source, FAKES) == probe(source, limits=FAKES)


@pytest.mark.parametrize(
    ("code", "said", "expected", "message"),
    [
        (-signal.SIGABRT, b"", ErrorCode.RASTERIZER_CRASHED, "the decoder's process died: Aborted"),
        (-signal.SIGSEGV, b"\n", ErrorCode.RASTERIZER_CRASHED, "the decoder's process died: Segmentation fault"),
        (3, b"", ErrorCode.RASTERIZER_CRASHED, "the decoder's process died: exit code 3"),
        (1, b"Traceback\nBoom: x\n", ErrorCode.RASTERIZER_CRASHED, "the decoder's process died: exit code 1 (Boom: x)"),
        (-signal.SIGALRM, b"", ErrorCode.PAGE_TIMEOUT, "not done within 7 s"),
        (None, b"", ErrorCode.PAGE_TIMEOUT, "not done within 7 s"),
    ],
)
def test_how_a_process_of_its_own_ended_is_the_failure_of_what_it_had(
    code: int | None, said: bytes, expected: ErrorCode, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def ends(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        if code is None:
            raise subprocess.TimeoutExpired(command, options["timeout"])
        return subprocess.CompletedProcess(command, code, b"", said)

    document = _document(tmp_path)
    monkeypatch.setattr(quarantine.subprocess, "run", ends)
    made = quarantine.render_alone(document, 1, AS_IS, LIMITS)
    assert isinstance(made, Unrendered)
    assert made.page == Piece(document, 1, 2).pages()[0]
    assert (made.failure.stage, made.failure.code, made.failure.message) == (Stage.RASTERIZE, expected, message)
    found = quarantine.probe_alone(Source(document.uri), LIMITS)
    assert found.document == Document(document.uri)
    assert found.failure is not None
    assert (found.failure.stage, found.failure.code) == (Stage.DISCOVER, expected)


def test_a_child_sets_its_bounds_before_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    order: list[Any] = []
    monkeypatch.setattr(quarantine, "limit_memory", lambda limits: order.append("memory"))
    monkeypatch.setattr(quarantine.signal, "signal", lambda number, action: order.append((number, action)))
    monkeypatch.setattr(quarantine.signal, "setitimer", lambda kind, seconds: order.append(seconds))
    question = pickle.dumps(("probe", Source("file:///nowhere.pdf"), LIMITS))
    quarantine._main(lambda: question, lambda answer: order.append(pickle.loads(answer).failure.code))
    assert order == ["memory", (signal.SIGALRM, signal.SIG_DFL), 7.0, ErrorCode.NOT_FOUND]
