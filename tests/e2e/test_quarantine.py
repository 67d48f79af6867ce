"""What a page does to the process that decodes it is found out, told, and stays its own affair."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.document import Document, Source, uri_of_path
from pipeline.errors import MachineError
from pipeline.page import Raster, RasterLimits, RasterRule
from pipeline.raster import probe
from pipeline.raster.fake import MAGIC
from pipeline.rasterizer import probe_sources, render_blocks
from pipeline.result import Unrendered
from pipeline.task import Piece
from tests import documents

ROOT = Path(__file__).parents[2]
RULE = RasterRule(72, 1_000_000)
LIMITS = RasterLimits(page_timeout_s=4, memory_bytes=600 << 20, fake_decoder=True)


@pytest.fixture
def fake(tmp_path: Path) -> Callable[..., Document]:
    """Make a fake document whose pages act like this."""

    def make(*acts: str) -> Document:
        path = tmp_path / "fake"
        path.write_bytes(MAGIC + json.dumps(acts).encode())
        found = probe(Source(uri_of_path(str(path))), limits=LIMITS)
        assert found.failure is None
        return found.document

    return make


def told(document: Document, *, alone: bool) -> list[tuple[str, str] | None]:
    """For each page None if it has a raster, else its failure."""
    pieces = [Piece(document, 0, document.page_count or 0)]
    items = [item for block in render_blocks(pieces, RULE, LIMITS, alone=alone) for item in block.told]
    return [(str(i.failure.code), i.failure.message) if isinstance(i, Unrendered) else None for i in items]


def test_alone_a_page_that_kills_its_decoder_says_how_and_its_neighbours_are_rendered(fake) -> None:
    found = told(fake("ok", "abort", "exit", "raise", "ok"), alone=True)
    assert found == [
        None,
        ("rasterizer_crashed", "the decoder's process died: Aborted"),
        ("rasterizer_crashed", "the decoder's process died: exit code 3"),
        ("broken_page", "the fake decoder was told to fail"),
        None,
    ]


@pytest.mark.parametrize("act", ["hang", "spin"])
def test_alone_a_page_that_never_ends_is_stopped_even_if_it_never_returns_to_python(act: str, fake) -> None:
    assert told(fake(act, "ok"), alone=True) == [("page_timeout", "not done within 4 s"), None]


def test_alone_a_page_that_eats_memory_is_out_of_memory(fake) -> None:
    (failure, fine) = told(fake("eat", "ok"), alone=True)
    assert failure is not None
    assert failure[0] == "out_of_memory"
    assert fine is None


def test_a_raster_made_alone_is_the_one_made_together(tmp_path: Path) -> None:
    path = documents.pdf(tmp_path / "a.pdf", 2)
    document = probe(Source(uri_of_path(str(path)))).document
    pieces = [Piece(document, 0, 2)]
    together, alone = (list(render_blocks(pieces, RULE, RasterLimits(), alone=alone)) for alone in (False, True))
    assert [item.page for block in together for item in block.told] == [i.page for b in alone for i in b.told]
    pixels = [[array.tolist() for block in blocks for array in block.pixels] for blocks in (together, alone)]
    assert pixels[0] == pixels[1]


def test_a_page_that_finds_no_memory_among_others_ends_the_task_so_that_it_is_tried_alone(
    fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipeline import rasterizer
    from pipeline.errors import ErrorCode
    from pipeline.result import Failure, Stage

    document = fake("ok")
    page = Piece(document, 0, 1).pages()[0]
    failed = Unrendered(page, Failure(Stage.RASTERIZE, ErrorCode.OUT_OF_MEMORY, "no memory"))
    monkeypatch.setattr(rasterizer, "render_pages", lambda *_: iter([failed]))
    with pytest.raises(MemoryError, match="no memory"):
        list(render_blocks([Piece(document, 0, 1)], RULE, RasterLimits(), alone=False))


def test_a_source_that_kills_its_probe_alone_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "fake"
    path.write_bytes(MAGIC + b'["probe-abort"]')
    (found,) = probe_sources([Source(uri_of_path(str(path)))], LIMITS, alone=True)
    assert found.failure is not None
    assert (str(found.failure.code), found.document.page_count) == ("rasterizer_crashed", None)


def test_the_fake_decoder_is_off_unless_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "fake"
    path.write_bytes(MAGIC + b'["abort"]')
    failure = probe(Source(uri_of_path(str(path)))).failure
    assert failure is not None
    assert str(failure.code) == "unsupported_type"


def test_pages_made_together_within_the_limits_come_in_one_block(fake) -> None:
    (block,) = render_blocks([Piece(fake("ok", "ok"), 0, 2)], RULE, RasterLimits(fake_decoder=True), alone=False)
    assert len(block.pixels) == 2
    assert not any(isinstance(item, Unrendered | Raster) for item in block.told)


def test_what_the_machine_lacks_ends_the_run_also_from_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decoder whose library is missing is no fault of the page that met it first."""
    (tmp_path / "pymupdf.py").write_text("raise ImportError('libmupdf.so: cannot open shared object file')")
    document = probe(Source(uri_of_path(str(documents.pdf(tmp_path / "a.pdf", 1))))).document
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MachineError, match=r"lacks a library: install it there .*libmupdf\.so"):
        list(render_blocks([Piece(document, 0, 1)], RULE, LIMITS, alone=True))


def test_a_rasterizing_process_loads_no_model() -> None:
    """PyMuPDF would bring ONNX Runtime and a layout model along: 140 MB a process."""
    code = "import sys, pipeline.raster.mupdf, pipeline.raster.picture; print('onnxruntime' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
