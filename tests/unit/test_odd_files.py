"""Small files of our own of the kinds that broke other systems, each with what is right for it."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import numpy as np
import pymupdf
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageChops, TiffImagePlugin

from pipeline.document import Source, uri_of_path
from pipeline.errors import ErrorCode
from pipeline.page import RasterLimits, RasterRule
from pipeline.raster import probe, render_pages
from pipeline.result import Settled
from tests import documents

from .rasters import codes, failure_of, picture, raster

LAYER = RasterRule(150, 10**7, text_layer="auto", skip_blank=True)


def _texts(path: Path, limits: RasterLimits | None = None) -> list[str]:
    """The texts that the pages hold themselves, all of them sound."""
    limits = limits or RasterLimits()
    document = probe(Source(uri_of_path(str(path))), limits=limits).document
    made = list(render_pages(document, 0, document.page_count or 0, LAYER, limits))
    assert all(isinstance(item, Settled) and item.recognition for item in made), made
    return [item.recognition.text for item in made if isinstance(item, Settled) and item.recognition]


def _bits() -> Image.Image:
    return Image.fromarray(picture(80, 60)).convert("1", dither=Image.Dither.NONE)


def _jbig2(image: Image.Image) -> bytes:
    """A page and one generic region coded by T.6, where black is 1: segments 48 and 38 of ITU-T T.88."""
    file = io.BytesIO()
    ImageChops.invert(image.convert("L")).convert("1").save(
        file, "TIFF", compression="group4", tiffinfo={278: image.height}
    )
    tiff = Image.open(io.BytesIO(file.getvalue()))
    (start,), (length,) = tiff.tag_v2[273], tiff.tag_v2[279]  # type: ignore[attr-defined]
    region = struct.pack(">LLLLBB", *image.size, 0, 0, 0, 1) + file.getvalue()[start : start + length]
    page = struct.pack(">LLLLBH", *image.size, 0, 0, 0, 0)
    segments = ((48, page), (38, region))
    return b"".join(struct.pack(">LBBBL", n, kind, 0, 1, len(data)) + data for n, (kind, data) in enumerate(segments))


def _scan(path: Path, entries: str, data: bytes, *, width: int = 60, height: int = 80) -> Path:
    """A page that shows one picture, on a paper of gray."""
    return documents.pdf_of(
        path,
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 {width} {height}]/Contents 4 0 R/Resources<</XObject<</I 5 0 R>>>>>>",
        ("", f"q 0 0.8 0 rg 0 0 {width} {height} re f {width} 0 0 {height} 0 0 cm /I Do Q".encode()),
        (f"/Type/XObject/Subtype/Image/Width {width}/Height {height}{entries}", data),
    )


def _left_top(pixels: NDArray[np.uint8]) -> tuple[list[int] | int, list[int] | int]:
    """What is shown in the left upper quarter and at the bottom."""
    return pixels[20, 15].tolist(), pixels[70, 30].tolist()


def test_a_scan_in_jbig2_is_not_blank_and_its_ink_is_black(tmp_path: Path):
    path = _scan(tmp_path / "a.pdf", "/ColorSpace/DeviceGray/BitsPerComponent 1/Filter/JBIG2Decode", _jbig2(_bits()))
    ink, paper = _left_top(raster(path).pixels)
    assert (np.max(ink), np.min(paper)) == (0, 255)


def test_a_bare_jbig2_file_is_skipped_with_a_reason(tmp_path: Path):
    (tmp_path / "a.jb2").write_bytes(b"\x97JB2\r\n\x1a\n\x01\0\0\0\x01" + _jbig2(_bits()))
    failure = failure_of(tmp_path / "a.jb2")
    assert (failure and failure.code) == ErrorCode.UNSUPPORTED_TYPE


def _coded(image: Image.Image, transform: int) -> bytes:
    """A JPEG of four components as Photoshop writes it, inverted; its Adobe marker says how they are coded."""
    file = io.BytesIO()
    image.save(file, "JPEG", quality=95, subsampling=0)
    data = bytearray(file.getvalue())
    at = data.index(b"Adobe")
    data[at + 11] = transform
    return bytes(data)


def _ycck(inks: Image.Image) -> Image.Image:
    """What has to be given to Pillow, which inverts it, so that the file holds the inks as YCCK."""
    cyan, magenta, yellow, black = inks.split()
    coded = Image.merge("RGB", (cyan, magenta, yellow)).convert("YCbCr").split()
    return Image.merge("CMYK", (*map(ImageChops.invert, coded), black))


@pytest.mark.parametrize("kind", ["CMYK", "YCCK"])
@pytest.mark.parametrize("place", ["file", "PDF"])
def test_ink_and_paper_of_a_jpeg_of_four_components_are_what_they_were(kind: str, place: str, tmp_path: Path):
    inks = np.zeros((80, 60, 4), np.uint8)  # paper without ink
    inks[:40, :30] = (0, 255, 255, 0)  # red
    image = Image.fromarray(inks, "CMYK")
    data = _coded(image, 0) if kind == "CMYK" else _coded(_ycck(image), 2)
    if place == "file":
        (tmp_path / "a.jpg").write_bytes(data)
        pixels = raster(tmp_path / "a.jpg").pixels
    else:
        entries = "/ColorSpace/DeviceCMYK/BitsPerComponent 8/Filter/DCTDecode/Decode[1 0 1 0 1 0 1 0]"
        pixels = raster(_scan(tmp_path / "a.pdf", entries, data)).pixels
    red, paper = pixels[20, 15].astype(int), pixels[70, 45]
    assert paper.min() > 240
    assert red[0] > 200
    assert red[1:].max() < 80


def test_of_an_mpo_the_first_picture_is_the_page(tmp_path: Path):
    first, second = Image.fromarray(picture(80, 60)), Image.new("L", (60, 80), 128)
    first.convert("RGB").save(tmp_path / "a.jpg", "MPO", save_all=True, append_images=[second.convert("RGB")])
    assert _left_top(raster(tmp_path / "a.jpg").pixels) == (0, 255)


def test_a_colour_that_a_mask_takes_out_shows_the_paper(tmp_path: Path):
    data = picture(80, 60).tobytes()
    path = _scan(tmp_path / "a.pdf", "/ColorSpace/DeviceGray/BitsPerComponent 8/Mask[255 255]", data)
    ink, paper = _left_top(raster(path).pixels)
    assert ink == [0, 0, 0]
    assert paper == [0, 204, 0]


def test_a_pdf_in_an_apple_wrapper_is_told_apart(tmp_path: Path):
    documents.pdf(tmp_path / "whole.pdf", 1)
    wrapper = b"\0\x05\x16\0\0\x02\0\0" + bytes(16) + struct.pack(">HLLL", 1, 1, 38, 9000)
    (tmp_path / "a.pdf").write_bytes(wrapper + bytes(2000) + (tmp_path / "whole.pdf").read_bytes())
    failure = failure_of(tmp_path / "a.pdf")
    assert (failure and failure.code) == ErrorCode.NOT_A_DOCUMENT


def test_a_byte_order_mark_in_front_of_a_pdf_does_no_harm(tmp_path: Path):
    documents.pdf(tmp_path / "whole.pdf", 2)
    (tmp_path / "a.pdf").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "whole.pdf").read_bytes())
    assert codes(tmp_path / "a.pdf") == [None, None]


def test_a_password_of_spaces_opens_pages_that_lie_in_object_streams(tmp_path: Path):
    with pymupdf.open() as document:
        for number in (1, 2):
            document.new_page().insert_text((72, 100), f"Page {number} of the letter", fontsize=12)
        document.save(
            tmp_path / "a.pdf",
            encryption=pymupdf.PDF_ENCRYPT_AES_256,
            user_pw="    ",
            owner_pw="x",
            use_objstms=1,
        )
    assert _texts(tmp_path / "a.pdf", RasterLimits(passwords=("    ",))) == [
        "Page 1 of the letter",
        "Page 2 of the letter",
    ]


def test_a_page_that_the_tree_names_twice_is_two_pages(tmp_path: Path):
    path = documents.pdf_of(
        tmp_path / "a.pdf",
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R 3 0 R]/Count 2>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>",
        ("", b"BT /F 14 Tf 40 100 Td (Said once and shown twice) Tj ET"),
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    )
    assert _texts(path) == ["Said once and shown twice"] * 2


def test_a_glyph_that_draws_itself_ends(tmp_path: Path):
    path = documents.pdf_of(
        tmp_path / "a.pdf",
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 60 80]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>",
        ("", b"0 40 30 40 re f BT /F 10 Tf 5 5 Td (a) Tj ET"),
        "<</Type/Font/Subtype/Type3/FontBBox[0 0 9 9]/FontMatrix[.1 0 0 .1 0 0]/FirstChar 97/LastChar 97/Widths[9]"
        "/Encoding<</Differences[97/a]>>/CharProcs<</a 6 0 R>>/Resources<</Font<</F 5 0 R>>>>>>",
        ("", b"9 0 d0 BT /F 10 Tf (a) Tj ET"),
    )
    assert _left_top(raster(path).pixels)[0] == 0


def test_letters_of_a_font_that_is_not_in_the_file_are_drawn(tmp_path: Path):
    with pymupdf.open() as document:
        document.new_page(width=200, height=100).insert_text((20, 60), "日本語の文字", fontname="japan", fontsize=24)
        document.save(tmp_path / "a.pdf")
    assert (raster(tmp_path / "a.pdf").pixels < 100).sum() > 200


def test_a_contents_page_has_each_entry_once_and_its_number(tmp_path: Path):
    entries = [f"Chapter {number} on the river" for number in range(1, 31)]
    with pymupdf.open() as document:
        page = document.new_page(width=595, height=842)
        for row, entry in enumerate(entries):
            page.insert_text((72, 90 + 22 * row), f"{entry} {'.' * 60} {7 * row + 1}", fontsize=11)
        document.save(tmp_path / "a.pdf")
    lines = _texts(tmp_path / "a.pdf")[0].splitlines()
    assert [line.split(" .")[0] for line in lines] == entries
    assert [int(line.rsplit(" ", 1)[1]) for line in lines] == [7 * row + 1 for row in range(30)]


def test_three_columns_are_read_one_after_the_other(tmp_path: Path):
    with pymupdf.open() as document:
        page = document.new_page(width=595, height=842)
        for column in range(3):
            for row in range(30):
                text = f"{'ABC'[column]} {row + 1:02} the lower bridge held"
                page.insert_text((40 + 180 * column, 80 + 20 * row), text, fontsize=10)
        document.save(tmp_path / "a.pdf")
    found = [line[:4] for line in _texts(tmp_path / "a.pdf")[0].splitlines() if line]
    assert found == [f"{column} {row + 1:02}" for column in "ABC" for row in range(30)]


def test_a_form_of_any_size_is_drawn(tmp_path: Path):
    path = documents.pdf_of(
        tmp_path / "a.pdf",
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 60 80]/Contents 4 0 R/Resources<</XObject<</X 5 0 R>>>>>>",
        ("", b"/X Do"),
        ("/Type/XObject/Subtype/Form/BBox[-999999999 -999999999 999999999 999999999]", b"0 40 30 40 re f"),
    )
    assert _left_top(raster(path).pixels) == (0, 255)


def test_a_resolution_that_is_no_number_does_not_cost_the_picture(tmp_path: Path):
    exif = Image.Exif()
    exif[0x011A] = exif[0x011B] = TiffImagePlugin.IFDRational(300, 0)
    Image.fromarray(picture(80, 60)).save(tmp_path / "a.jpg", exif=exif, quality=95)
    assert raster(tmp_path / "a.jpg").pixels.shape == (80, 60)
