"""RapidOCR reads the crops of all pages of a batch together: a page's text is the one it has when it is read alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pymupdf
import pytest

from pipeline.document import Source, uri_of_path
from pipeline.engines.rapidocr import DOUBTFUL_SCORE, MAX_PROBES, RapidOcrEngine, RapidOcrOptions
from pipeline.page import Page, Raster, SizedPage
from pipeline.raster import probe, render_pages
from pipeline.result import Recognition

SAMPLES = Path(__file__).parents[2] / "sample_docs"
SAME_SCORE = 1e-4
SENTENCES = [f"Sheet {number} of the ledger was signed by the miller" for number in range(12)]


def drawn(name: str, lines: Sequence[str], width_px: int = 700, height_px: int = 420, quarters: int = 0) -> Raster:
    """A page of lines of print; `quarters` of a turn lay it on its side or head."""
    document = pymupdf.open()
    sheet = document.new_page(width=width_px, height=height_px)
    for index, text in enumerate(lines):
        sheet.insert_text((30, 32 * (index + 1)), text, fontsize=18)
    pixmap = sheet.get_pixmap(colorspace=pymupdf.csGRAY)
    pixels = np.frombuffer(pixmap.samples, np.uint8).reshape(height_px, width_px)
    pixels = np.ascontiguousarray(np.rot90(pixels, quarters))
    pixels.flags.writeable = False
    page = Page(f"file:///{name}.pdf", "0" * 64, 0, 1)
    return Raster(SizedPage(page, pixels.shape[1], pixels.shape[0], 1, 150.0, 0, 1), pixels)


def made_up() -> list[Raster]:
    """An upside-down page with more lines than are tried at first, a blank one, a very long line, short cells."""
    half = drawn("half", SENTENCES[:4]).pixels.copy()
    half[210:] = drawn("other", SENTENCES[4:8]).pixels[::-1, ::-1][210:]
    return [
        drawn("head", SENTENCES, quarters=2),
        drawn("side", SENTENCES[:5], quarters=1),
        drawn("blank", []),
        drawn("long", ["the mill stood where the river bent and " * 7], width_px=2600, height_px=100),
        drawn("cells", [f"{number}     {number * 7}     x{number}" for number in range(12)]),
        Raster(drawn("half upside down", []).sized, half),
    ]


def samples() -> list[Raster]:
    """The first pages of every sample."""
    rule = RapidOcrEngine.spec(RapidOcrOptions()).raster
    found: list[Raster] = []
    for path in sorted(p for p in SAMPLES.iterdir() if p.suffix in (".pdf", ".png", ".jpg", ".tiff")):
        document = probe(Source(uri_of_path(str(path)))).document
        made = list(render_pages(document, 0, min(2, document.page_count or 0), rule))
        found += [item for item in made if isinstance(item, Raster)]
    return found


@pytest.fixture(scope="module")
def rapid() -> RapidOcrEngine:
    lack = RapidOcrEngine.missing()
    if lack is not None:
        pytest.skip(lack)
    return RapidOcrEngine(RapidOcrOptions())


@pytest.fixture(scope="module")
def pages() -> list[Raster]:
    return [*samples(), *made_up()]


@pytest.fixture(scope="module")
def alone(rapid: RapidOcrEngine, pages: list[Raster]) -> list[Recognition]:
    return [rapid.recognize([page]).pages[0] for page in pages]


def assert_same(found: Sequence[Recognition], expected: Sequence[Recognition]) -> None:
    assert [page.text for page in found] == [page.text for page in expected]
    for page, other in zip(found, expected, strict=True):
        assert [line.bbox for line in page.lines] == [line.bbox for line in other.lines]
        for line, twin in zip(page.lines, other.lines, strict=True):
            assert line.score == pytest.approx(twin.score, abs=SAME_SCORE)


@pytest.mark.parametrize(("seed", "batch_size"), [(0, None), (1, 4)])
def test_a_page_reads_the_same_in_any_company(
    rapid: RapidOcrEngine, pages: list[Raster], alone: list[Recognition], seed: int, batch_size: int | None
):
    order = random.Random(seed).sample(range(len(pages)), len(pages))
    size = batch_size or len(pages)
    found: dict[int, Recognition] = {}
    for first in range(0, len(order), size):
        numbers = order[first : first + size]
        found |= zip(numbers, rapid.recognize([pages[number] for number in numbers]).pages, strict=True)
    assert_same([found[number] for number in range(len(pages))], alone)


def test_crops_that_do_not_fit_one_pool_are_read_in_several(
    rapid: RapidOcrEngine, pages: list[Raster], alone: list[Recognition], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("pipeline.engines.rapidocr.POOL_BYTES", 1)
    assert_same(rapid.recognize(pages[-6:]).pages, alone[-6:])


def test_lines_on_their_head_are_read_beside_upright_ones(rapid: RapidOcrEngine, alone: list[Recognition]):
    """More of them than are tried at first, so the rest is tried as well."""
    head = alone[-6]
    assert [line.text for line in head.lines] == SENTENCES
    assert len(SENTENCES) > MAX_PROBES
    assert min(line.score or 0.0 for line in head.lines) > DOUBTFUL_SCORE


def test_a_page_at_fault_spoils_nothing_that_is_read_after_it(
    rapid: RapidOcrEngine, pages: list[Raster], alone: list[Recognition]
):
    broken = drawn("thin", [], width_px=20_000, height_px=1)
    with pytest.raises(ValueError, match="too long and thin"):
        rapid.recognize([pages[-1], broken, pages[-2]])
    assert_same(rapid.recognize([pages[-1], pages[-2]]).pages, [alone[-1], alone[-2]])
