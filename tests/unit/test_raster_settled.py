"""Which pages need an engine: what is settled while it is rasterized, and what its row will say."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline import raster
from pipeline.document import Source, uri_of_path
from pipeline.errors import ErrorCode
from pipeline.page import Page, Raster, RasterLimits, RasterRule, SizedPage
from pipeline.raster import probe, quarantine, render_pages, size_pages
from pipeline.raster.layer import Layer
from pipeline.raster.strokes import printed_chars
from pipeline.result import Recognition, Settled, Stage, Status
from tests import documents

from .samples import a_page

SOUND = Layer("sound", Recognition("born digital"))
SAMPLES = Path(__file__).resolve().parents[2] / "sample_docs"
GARBLED = Layer("garbled: 40 % of the glyphs have no Unicode", num_chars=321)
AUTO = RasterRule(72, 10**6, text_layer="auto", skip_blank=True)


def _written() -> NDArray[Any]:
    """A page with some words on it."""
    pixels = np.full((400, 300), 255, np.uint8)
    for top in range(60, 300, 24):
        for left in range(40, 240, 10):
            pixels[top : top + 12, left : left + 2] = pixels[top : top + 2, left : left + 7] = 0
    return pixels


@dataclass
class PageAsReader:
    """A document of one page."""

    found: Layer | None = None
    pixels: NDArray[Any] = field(default_factory=_written)
    page_count: int = 1
    num_rendered: int = 0

    def size(self, page: Page, rule: RasterRule) -> SizedPage:
        return SizedPage(page, 300, 400, 1, 72.0, 0, rule.length(300, 400))

    def layer(self, page: Page, rule: RasterRule) -> Layer | None:
        return self.found

    def render(self, page: Page, rule: RasterRule) -> tuple[SizedPage, NDArray[Any]]:
        self.num_rendered += 1
        return self.size(page, rule), self.pixels

    def close(self) -> None: ...


def _made(reader: PageAsReader, rule: RasterRule = AUTO) -> Raster | Settled:
    made = raster._render_one(reader, a_page(), rule)
    assert isinstance(made, Raster | Settled)
    return made


def test_a_sound_text_layer_is_taken_and_nothing_is_rendered():
    reader = PageAsReader(SOUND)
    made = _made(reader)
    assert isinstance(made, Settled)
    assert (made.status, made.recognition, made.failure) == (Status.TEXT_LAYER, SOUND.recognition, None)
    assert (made.sized.text_layer, made.sized.width_px, made.sized.height_px) == ("sound", 300, 400)
    assert made.sized.raster_s > 0
    assert reader.num_rendered == 0


@pytest.mark.parametrize("found", [GARBLED, Layer("absent")])
def test_a_page_without_a_sound_layer_is_rendered_and_its_row_will_say_why(found: Layer):
    made = _made(PageAsReader(found))
    assert isinstance(made, Raster)
    assert (made.sized.text_layer, made.sized.layer_chars) == (found.verdict, found.num_chars)


def test_how_much_is_printed_is_told_of_the_upright_raster(monkeypatch: pytest.MonkeyPatch):
    turned = np.ascontiguousarray(_written().T)
    monkeypatch.setattr(raster, "turned_upright", lambda sized, pixels, rule: (sized, _written()))
    upright, lying = (_made(PageAsReader(pixels=turned), replace(AUTO, orientation=way)) for way in ("auto", "keep"))
    assert upright.sized.ink_chars == printed_chars(_written())
    assert lying.sized.ink_chars == printed_chars(turned) != upright.sized.ink_chars


def test_of_a_page_that_is_only_sized_nothing_printed_is_told():
    found = probe(Source(uri_of_path(str(SAMPLES / "two_columns.pdf"))))
    assert {(sized.ink_chars, sized.layer_chars) for sized in size_pages(found.document, AUTO)} == {(None, None)}


def test_a_picture_has_no_layer_to_tell_of():
    made = _made(PageAsReader(None))
    assert isinstance(made, Raster)
    assert (made.sized.text_layer, made.sized.layer_chars) == (None, None)


def test_a_layer_that_nobody_asked_for_is_not_looked_at():
    made = _made(PageAsReader(SOUND), replace(AUTO, text_layer="never"))
    assert isinstance(made, Raster)
    assert made.sized.text_layer is None


@pytest.mark.parametrize("mode", ["auto", "never", "only"])
def test_a_page_without_ink_is_blank_whatever_is_asked_of_layers(mode: str):
    reader = PageAsReader(Layer("absent"), np.full((400, 300), 250, np.uint8))
    made = _made(reader, replace(AUTO, text_layer=mode))
    assert isinstance(made, Settled)
    assert (made.status, made.recognition) == (Status.BLANK, Recognition(""))


def test_a_blank_page_goes_to_the_engine_if_that_is_asked_for():
    reader = PageAsReader(Layer("absent"), np.full((400, 300), 250, np.uint8))
    assert isinstance(_made(reader, replace(AUTO, skip_blank=False)), Raster)


@pytest.mark.parametrize(
    ("found", "said"), [(GARBLED, f"the text layer is {GARBLED.verdict}"), (None, "a picture has no text layer")]
)
def test_where_only_layers_are_asked_for_other_pages_are_skipped_and_say_why(found: Layer | None, said: str):
    made = _made(PageAsReader(found), replace(AUTO, text_layer="only"))
    assert isinstance(made, Settled)
    assert made.status is Status.SKIPPED
    assert made.failure is not None
    assert (made.failure.code, made.failure.stage) == (ErrorCode.NO_TEXT_LAYER, Stage.RASTERIZE)
    assert made.failure.message == f"{said}; --text-layer auto has an engine read it"


def test_a_blank_page_of_its_own_process_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    document = probe(Source(uri_of_path(str(documents.png(tmp_path / "a.png", ""))))).document
    monkeypatch.setattr(quarantine, "_ask", lambda question, *_: quarantine._answer(question))
    made = quarantine.render_alone(document, 0, AUTO, RasterLimits())
    (expected,) = render_pages(document, 0, 1, AUTO)
    assert isinstance(made, Settled)
    assert isinstance(expected, Settled)
    assert replace(made, sized=expected.sized) == expected
