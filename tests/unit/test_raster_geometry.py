"""How large a page's raster is, and what of the page is on it, where files are odd."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pymupdf
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageCms

from pipeline.page import RasterRule, SizedPage
from tests import documents

from .rasters import AS_IS, codes, pdf_of_pages, picture, raster, rasters, sized

HUNYUAN = RasterRule(200, 2048 * 2048, 32, "hunyuan_visual_tokens", min_pixels=512 * 512, max_aspect=200)


@pytest.fixture(autouse=True)
def _small_pages_are_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scans here are small, so that they are made fast; how large a small one is taken to be has its own test."""
    monkeypatch.setattr("pipeline.page.SMALL_SCAN_PT2", 0.0)


def _scan_pdf(pixels: NDArray[Any], *, width_pt: float, height_pt: float, rotation: int = 0) -> pymupdf.Page:
    """A PDF whose one page is a picture, not saved yet."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    document = pymupdf.open()
    page = document.new_page(width=width_pt, height=height_pt)
    page.insert_image(page.rect, stream=file.getvalue(), keep_proportion=False)
    page.set_rotation(rotation)
    return page


@pytest.mark.parametrize("rotation", [0, 90])
def test_a_page_that_is_one_scan_is_drawn_no_finer_than_the_scan(rotation: int, tmp_path: Path):
    pixels = picture(200, 100)
    page = _scan_pdf(pixels, width_pt=72, height_pt=144, rotation=rotation)  # 100 dpi
    page.parent.save(tmp_path / "a.pdf")
    made = raster(tmp_path / "a.pdf", replace(AS_IS, dpi=300))
    assert (made.sized.width_px, made.sized.height_px) == ((100, 200) if rotation == 0 else (200, 100))
    assert made.sized.dpi == pytest.approx(100)
    assert np.abs(made.pixels.astype(int) - np.rot90(pixels, -rotation // 90)).max() <= 2, "pixel for pixel"
    coarse = raster(tmp_path / "a.pdf", replace(AS_IS, dpi=50))
    assert coarse.sized.width_px * coarse.sized.height_px == 50 * 100


@pytest.mark.parametrize("what", ["letters", "a line", "a note", "a corner only"])
def test_a_page_that_is_more_than_a_scan_is_drawn_as_finely_as_asked_for(what: str, tmp_path: Path):
    page = _scan_pdf(picture(200, 100), width_pt=72, height_pt=144)
    match what:
        case "letters":
            page.insert_text((5, 140), "7", fontsize=6)
        case "a line":
            page.draw_line((5, 5), (60, 5))
        case "a note":
            page.add_freetext_annot((5, 100, 60, 120), "note", fontsize=6)
        case _:
            page.set_mediabox((0, 0, 288, 288))
    page.parent.save(tmp_path / "a.pdf")
    assert raster(tmp_path / "a.pdf", replace(AS_IS, dpi=300)).sized.dpi == pytest.approx(300)


def test_an_older_ocr_under_a_scan_makes_it_no_finer(tmp_path: Path):
    page = _scan_pdf(picture(200, 100), width_pt=72, height_pt=144)
    page.insert_text((5, 140), "seven", fontsize=6, render_mode=3)
    page.parent.save(tmp_path / "a.pdf")
    assert raster(tmp_path / "a.pdf", replace(AS_IS, dpi=300)).sized.dpi == pytest.approx(100)


def test_a_small_page_is_made_as_large_as_the_model_wants(tmp_path: Path):
    document = pymupdf.open()
    document.new_page(width=72, height=72).insert_text((10, 40), "small", fontsize=12)
    document.save(tmp_path / "a.pdf")
    Image.fromarray(picture(40, 160)).save(tmp_path / "b.png")
    made = raster(tmp_path / "a.pdf", HUNYUAN)
    assert made.pixels.shape == (512, 512)
    assert raster(tmp_path / "b.png", HUNYUAN).pixels.shape == (256, 1024)


def test_a_strip_that_the_model_refuses_has_a_code(tmp_path: Path):
    document = pymupdf.open()
    document.new_page(width=2900, height=14)
    document.save(tmp_path / "a.pdf")
    Image.new("L", (6401, 32), 255).save(tmp_path / "b.png")
    for name in ("a.pdf", "b.png"):
        assert codes(tmp_path / name) == [None]
        (found,) = sized(tmp_path / name, HUNYUAN)
        assert found.failure.code == "page_too_narrow"  # type: ignore[union-attr]
        assert "the engine takes 200" in found.failure.message  # type: ignore[union-attr]


PAGE = "<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<<>>"


def _boxed(tmp_path: Path, entries: str, content: bytes) -> Path:
    return documents.pdf_of(
        tmp_path / "a.pdf",
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        f"{PAGE}{entries}>>",
        ("", content),
    )


@pytest.mark.parametrize(
    ("entries", "square"),
    [
        ("/MediaBox[0 0 60 40]", b"0 0 20 20 re f"),
        ("/MediaBox[-100 -50 -40 -10]", b"-100 -50 20 20 re f"),
        ("/MediaBox[60 40 0 0]", b"0 0 20 20 re f"),
        ("/MediaBox[0 0 600 400]/CropBox[30 30 90 70]", b"30 30 20 20 re f"),
        ("/MediaBox[0 0 60 40]/CropBox[-500 -500 900 900]", b"0 0 20 20 re f"),
        ("/MediaBox[0 0 30 20]/UserUnit 2", b"0 0 10 10 re f"),
        ("/MediaBox[0.5 0.5 60.5 40.5]", b"0.5 0.5 20 20 re f"),
    ],
    ids=["plain", "negative", "upside down", "cropped", "cropped beyond", "user unit", "broken numbers"],
)
def test_boxes_of_every_kind_show_the_same_page(entries: str, square: bytes, tmp_path: Path):
    made = raster(_boxed(tmp_path, entries, square))
    assert made.pixels.shape == (40, 60)
    assert made.pixels[22:38, 2:18].max() == 0, "the square in the lower left corner"
    assert made.pixels[:18].min() == 255
    assert made.pixels[:, 22:].min() == 255


def test_a_page_of_200_inches_is_made_smaller_and_says_so(tmp_path: Path):
    made = raster(_boxed(tmp_path, "/MediaBox[0 0 14400 14400]", b"0 0 7200 7200 re f"), RasterRule(150, 10**6))
    assert made.pixels.shape == (1000, 1000)
    assert made.pixels[600, 400] == 0
    assert made.sized.warning == "rendered smaller: 30000 x 30000 would be 900,000,000 pixels, the limit is 1,000,000"


def test_hidden_optional_content_is_not_on_the_page(tmp_path: Path):
    document = pymupdf.open()
    page = document.new_page(width=60, height=40)
    for name, shown, left in (("shown", True, 0), ("hidden", False, 30)):
        layer = document.add_ocg(name, on=shown)
        page.draw_rect((left, 0, left + 20, 20), fill=(0, 0, 0), color=None, oc=layer)
    document.save(tmp_path / "a.pdf")
    pixels = raster(tmp_path / "a.pdf").pixels
    assert (pixels[10, 10], pixels[10, 40]) == (0, 255)


@pytest.mark.parametrize("decode", ["[0 1]", "[1 0]"])
@pytest.mark.parametrize("mask", [True, False])
def test_bits_that_are_inverted_are_drawn_as_they_are_meant(decode: str, mask: bool, tmp_path: Path):
    """A picture of 8 by 1 bits, the left half ones."""
    kind = "/ImageMask true" if mask else "/ColorSpace/DeviceGray"
    path = documents.pdf_of(
        tmp_path / "a.pdf",
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 80 40]/Contents 4 0 R/Resources<</XObject<</I 5 0 R>>>>>>",
        ("", b"80 0 0 40 0 0 cm /I Do"),
        (f"/Type/XObject/Subtype/Image/Width 8/Height 1/BitsPerComponent 1{kind}/Decode{decode}", b"\xf0"),
    )
    pixels = raster(path, replace(AS_IS, dpi=720)).pixels if mask else raster(path).pixels
    left, right = (int(pixels[pixels.shape[0] // 2, pixels.shape[1] * part // 4]) for part in (1, 3))
    ones_are_paper = (decode == "[0 1]") != mask
    if mask:  # a sample of 0 marks the page in black, unless it is decoded the other way round
        ones_are_paper = decode == "[0 1]"
    assert (left > 200, right > 200) == (ones_are_paper, not ones_are_paper)


def test_the_colours_of_a_picture_are_those_of_its_profile(tmp_path: Path):
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    swapped = srgb.replace(b"rXYZ", b"????").replace(b"gXYZ", b"rXYZ").replace(b"????", b"gXYZ")
    swapped = swapped.replace("sRGB".encode("utf-16-be"), "xxxx".encode("utf-16-be")).replace(b"sRGB", b"xxxx")
    red = Image.new("RGB", (30, 20), (255, 0, 0))
    for name, profile in (("plain.png", srgb), ("odd.png", swapped), ("broken.png", b"no profile")):
        red.save(tmp_path / name, icc_profile=profile)
    assert tuple(raster(tmp_path / "plain.png").pixels[5, 5]) == (255, 0, 0)
    assert tuple(raster(tmp_path / "broken.png").pixels[5, 5]) == (255, 0, 0)
    red_part, green_part, blue_part = raster(tmp_path / "odd.png").pixels[5, 5]
    assert green_part > 200 > 60 > max(red_part, blue_part)


def test_pages_of_mixed_sizes_and_turns_keep_their_own(tmp_path: Path):
    document = pymupdf.open()
    for width, height, rotation in ((60, 40, 0), (60, 40, 90), (30, 80, 180), (595, 842, 270)):
        document.new_page(width=width, height=height).set_rotation(rotation)
    document.save(tmp_path / "a.pdf")
    shapes = [made.pixels.shape for made in rasters(tmp_path / "a.pdf")]
    assert shapes == [(40, 60), (60, 40), (80, 30), (595, 842)]


@pytest.mark.parametrize("crop", ["0 0 0 0", "100 100 200 200", "10 10 10 20", "70 0 90 30"])
def test_a_page_whose_crop_box_holds_nothing_of_it_shows_its_media_box(crop: str, tmp_path: Path):
    path = pdf_of_pages(tmp_path / "a.pdf", f"/MediaBox[10 10 50 40]/CropBox[{crop}]/Rotate 90")
    assert raster(path).pixels.shape == (40, 30)
    (measures,) = sized(path)
    assert isinstance(measures, SizedPage)
    assert (measures.width_px, measures.height_px) == (30, 40)
