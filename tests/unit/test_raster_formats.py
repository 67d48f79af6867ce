"""Every input format gives the right size and the right pixels, and the measures are known without rendering."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pymupdf
import pytest
from PIL import Image

from pipeline.document import Source, uri_of_path
from pipeline.page import Raster, RasterRule, SizedPage
from pipeline.raster import probe, render_pages

from .rasters import AS_IS, BLACK, RED, WHITE, pdf, pdf_of_pages, picture, raster, rasters, rendered, sized, xps


def _image(mode: str, **options: Any) -> Callable[[Path], Path]:
    def make(path: Path) -> Path:
        Image.fromarray(picture()).convert(mode).save(path, **options)
        return path

    return make


FORMATS: dict[str, tuple[str, Callable[[Path], Path]]] = {
    "a.pdf": ("application/pdf", lambda path: pdf(path, (30, 20, BLACK))),
    "a.xps": ("application/oxps", lambda path: xps(path, 40, 28)),
    "gray.png": ("image/png", _image("L")),
    "colour.png": ("image/png", _image("RGB")),
    "palette.png": ("image/png", _image("P")),
    "gray.jpg": ("image/jpeg", _image("L", quality=95)),
    "colour.jpg": ("image/jpeg", _image("RGB", quality=95)),
    "file.jp2": ("image/jp2", _image("L")),
    "stream.j2k": ("image/jp2", _image("RGB")),
    "gray.tif": ("image/tiff", _image("L")),
    "packed.tif": ("image/tiff", _image("RGB", compression="tiff_lzw")),
    "fax.tif": ("image/tiff", _image("1", compression="group4")),
    "a.webp": ("image/webp", _image("RGB", lossless=True)),
    "a.gif": ("image/gif", _image("P")),
    "a.bmp": ("image/bmp", _image("RGB", dpi=(72, 72))),
    "a.pbm": ("image/x-portable-anymap", _image("1")),
    "a.pgm": ("image/x-portable-anymap", _image("L")),
    "a.ppm": ("image/x-portable-anymap", _image("RGB")),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_told_by_its_content_and_rendered(name: str, tmp_path: Path):
    media_type, make = FORMATS[name]
    path = make(tmp_path / name).rename(tmp_path / "a_name_that_says_nothing")
    found = probe(Source(uri_of_path(str(path))))
    assert found.document.media_type == media_type
    assert found.document.page_count == 1
    only = raster(path)
    assert (only.sized.width_px, only.sized.height_px) == (30, 21 if media_type == "application/oxps" else 20)
    gray = only.pixels if only.pixels.ndim == 2 else only.pixels.mean(axis=2)
    assert gray[2, 2] < 10, "the left upper quarter is black"
    assert gray[-3:, -3:].min() > 250, "the right lower corner is white"


@pytest.mark.parametrize("name", FORMATS)
def test_pixels_are_bytes_and_one_channel_or_three(name: str, tmp_path: Path):
    only = raster(FORMATS[name][1](tmp_path / name))
    shape = (only.sized.height_px, only.sized.width_px) + ((3,) if only.sized.channels == 3 else ())
    assert only.pixels.dtype == np.uint8
    assert only.pixels.shape == shape
    assert only.pixels.nbytes == only.sized.num_bytes


RULES = [AS_IS, RasterRule(50, 10**8), RasterRule(300, 400), RasterRule(144, 10**8, 32, "hunyuan_visual_tokens")]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_sizes_are_known_without_rendering(name: str, rule: RasterRule, tmp_path: Path):
    path = FORMATS[name][1](tmp_path / name)
    (expected,) = sized(path, rule)
    made = raster(path, rule).sized
    assert isinstance(expected, SizedPage)
    assert expected.ink_chars is None
    assert replace(expected, channels=made.channels, raster_s=made.raster_s, ink_chars=made.ink_chars) == made


@pytest.mark.parametrize("suffix", ["tif", "gif", "webp"])
def test_every_frame_is_a_page(suffix: str, tmp_path: Path):
    path = tmp_path / f"a.{suffix}"
    frames = [Image.new("RGB", (20, 30), (tone, tone, 0)) for tone in (60, 100, 200)]
    options = {"lossless": True} if suffix == "webp" else {}
    frames[0].save(path, save_all=True, append_images=frames[1:], **options)
    found = rasters(path)
    assert [item.sized.page.page_index for item in found] == [0, 1, 2]
    assert {item.sized.page.page_count for item in found} == {3}
    assert [item.pixels[5, 5].tolist() for item in found] == [[60, 60, 0], [100, 100, 0], [200, 200, 0]]


def test_frames_of_a_tiff_may_differ_in_size(tmp_path: Path):
    path = tmp_path / "a.tif"
    frames = [Image.new("L", size) for size in ((20, 30), (40, 10))]
    frames[0].save(path, save_all=True, append_images=frames[1:])
    assert [(s.width_px, s.height_px) for s in sized(path) if isinstance(s, SizedPage)] == [(20, 30), (40, 10)]
    assert [item.pixels.shape for item in rasters(path)] == [(30, 20), (10, 40)]


def test_only_the_pages_asked_for_are_rendered(tmp_path: Path):
    path = pdf(tmp_path / "a.pdf", *((30 + n, 20, BLACK) for n in range(5)))
    document = probe(Source(uri_of_path(str(path)))).document
    made = [item for item in render_pages(document, 1, 4, AS_IS) if isinstance(item, Raster)]
    assert [item.sized.page.page_index for item in made] == [1, 2, 3]
    assert [item.sized.width_px for item in made] == [31, 32, 33]


def test_a_document_is_told_by_its_bytes(tmp_path: Path):
    path = pdf(tmp_path / "a.pdf", (30, 20, BLACK), (30, 20, WHITE))
    document = probe(Source(uri_of_path(str(path)))).document
    assert document.document_id == hashlib.sha256(path.read_bytes()).hexdigest()
    assert document.size_bytes == path.stat().st_size
    assert document.page_count == 2
    assert document.modified_at is not None
    assert document.modified_at.timestamp() == pytest.approx(path.stat().st_mtime, abs=1e-3)
    assert probe(Source(document.uri), hash_content=False).document.document_id is None


def test_a_gray_page_has_one_channel_and_a_coloured_one_three(tmp_path: Path):
    path = pdf(tmp_path / "a.pdf", (30, 20, BLACK), (30, 20, RED), (30, 20, (0.5, 0.5, 0.5)))
    assert [item.sized.channels for item in rasters(path)] == [1, 3, 1]
    assert rasters(path)[1].pixels[2, 2].tolist() == [255, 0, 0]


@pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("1", 1), ("RGB", 3), ("CMYK", 3)])
def test_a_scan_in_a_pdf_has_as_many_channels_as_its_colour_space(mode: str, channels: int, tmp_path: Path):
    """In some processes MuPDF took every image for gray when it was asked to look at its pixels."""
    image = tmp_path / ("scan.jpg" if mode == "CMYK" else "scan.png")
    pixels = np.zeros((40, 60, 3), np.uint8)
    pixels[:, :, 0] = 200
    Image.fromarray(pixels).convert(mode).save(image)
    document = pymupdf.open()
    page = document.new_page(width=30, height=20)
    page.insert_image(page.rect, filename=image)
    document.save(tmp_path / "a.pdf")
    only = raster(tmp_path / "a.pdf")
    assert only.sized.channels == channels
    if channels == 3:
        red, _, blue = only.pixels[10, 15].tolist()
        assert red > blue + 100


def test_a_vector_page_is_drawn_at_the_resolution_wanted(tmp_path: Path):
    only = raster(pdf(tmp_path / "a.pdf", (100, 50, BLACK)), RasterRule(144, 10**8))
    assert only.sized.dpi == 144
    assert only.pixels.shape == (100, 200)
    assert only.pixels[:49, :99].max() < 10
    assert only.pixels[51:].min() == 255


def test_a_page_in_multiples_of_32_fills_its_raster_to_the_edges(tmp_path: Path):
    path = pdf(tmp_path / "a.pdf", (595.276, 841.89, BLACK))
    only = raster(path, RasterRule(144, 2048 * 2048, 32, "hunyuan_visual_tokens"))
    assert only.pixels.shape == (53 * 32, 37 * 32)
    assert only.sized.length == 2016
    assert only.pixels[0, 0] == 0
    assert only.pixels[53 * 16 - 2, 37 * 16 - 2] == 0
    assert only.pixels[-1, -1] == 255


def test_a_page_is_never_larger_than_the_limit(tmp_path: Path):
    rule = RasterRule(600, 10_000)
    large = pdf(tmp_path / "a.pdf", (14_400, 14_400, BLACK))
    photo = tmp_path / "a.png"
    Image.new("L", (1000, 400)).save(photo)
    assert raster(large, rule).pixels.shape == (100, 100)
    assert raster(photo, rule).pixels.size <= 10_000
    assert raster(large, rule).sized.dpi == pytest.approx(0.5)


def test_names_that_are_no_text_are_opened(tmp_path: Path):
    for name, suffix in (("a.pdf", b".pdf"), ("gray.png", b".png")):
        odd = os.path.join(os.fsencode(tmp_path), b"\xff\n#%25 \xc3\xa4" + suffix)
        os.rename(FORMATS[name][1](tmp_path / name), odd)
        only = raster(Path(os.fsdecode(odd)))
        assert only.pixels.shape == (20, 30)


def test_what_the_decoder_complains_of_is_told_with_the_page(tmp_path: Path):
    path = pdf_of_pages(tmp_path / "a.pdf", "/MediaBox[0 0 50 60]/Contents 99 0 R", "/MediaBox[0 0 70 80]")
    first, second = rendered(path)
    assert isinstance(first, Raster)
    assert isinstance(second, Raster)
    assert "content stream" in (first.sized.warning or "")
    assert second.sized.warning is None
