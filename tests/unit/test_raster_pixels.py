"""Pixels: upright, on white, in 8 bits, and in memory that stays theirs."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pymupdf
import pytest
from PIL import Image

from pipeline.page import RasterRule
from pipeline.raster.mupdf import MupdfReader
from pipeline.raster.picture import PictureReader

from .rasters import AS_IS, BLACK, a_page_of, pdf, pdf_of_pages, picture, raster, rasters, sized

STORED = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}
"""How a camera held so stores what stands upright, by the EXIF orientation that it writes."""
TURNED = {1: 0, 2: 0, 3: 180, 4: 180, 5: 90, 6: 90, 7: 270, 8: 270}


def _stored(path: Path, orientation: int, mode: str, pixels: np.ndarray | None = None) -> Path:
    image = Image.fromarray(picture() if pixels is None else pixels).convert(mode)
    turn = STORED[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"quality": 95} if path.suffix == ".jpg" else {}
    (image.transpose(turn) if turn is not None else image).save(path, exif=exif, **options)
    return path


def _gray(pixels: np.ndarray) -> np.ndarray:
    return pixels if pixels.ndim == 2 else pixels.mean(axis=2)


@pytest.mark.parametrize("orientation", STORED)
@pytest.mark.parametrize(
    ("suffix", "mode"),
    [
        *(("jpg", mode) for mode in ("L", "RGB", "CMYK")),
        *(("png", mode) for mode in ("L", "1", "P", "RGBA")),
        *(("tif", mode) for mode in ("L", "1", "P", "RGBA", "RGB", "CMYK")),
        ("webp", "RGB"),
    ],
)
def test_every_orientation_gives_the_same_picture(orientation: int, suffix: str, mode: str, tmp_path: Path):
    upright = raster(_stored(tmp_path / f"1.{suffix}", 1, mode))
    turned = raster(_stored(tmp_path / f"{orientation}.{suffix}", orientation, mode))
    assert (turned.sized.width_px, turned.sized.height_px) == (30, 20)
    assert turned.sized.rotation == TURNED[orientation]
    tolerance = 0 if suffix in ("png", "tif") else 40  # lossy formats ring at other places
    assert np.abs(_gray(turned.pixels) - _gray(upright.pixels).astype(int)).max() <= tolerance


@pytest.mark.parametrize("orientation", STORED)
def test_sixteen_bits_are_turned_as_well(orientation: int, tmp_path: Path):
    exif = Image.Exif()
    exif[0x0112] = orientation
    turn = STORED[orientation]
    image = Image.fromarray(picture().astype(np.uint16) * 257)
    for suffix in ("png", "tif"):
        path = tmp_path / f"a.{suffix}"
        (image.transpose(turn) if turn is not None else image).save(path, exif=exif)
        assert np.array_equal(raster(path).pixels, picture())


@pytest.mark.parametrize("orientation", STORED)
@pytest.mark.parametrize("suffix", ["jpg", "tif"])
def test_sizes_of_turned_pictures_are_known_without_decoding(orientation: int, suffix: str, tmp_path: Path):
    path = _stored(tmp_path / f"a.{suffix}", orientation, "L")
    assert [(s.width_px, s.height_px) for s in sized(path)] == [(30, 20)]  # type: ignore[union-attr]


def test_a_turned_photo_is_decoded_small_when_a_small_one_is_wanted(tmp_path: Path):
    path = _stored(tmp_path / "a.jpg", 6, "L", picture(800, 1200))
    only = raster(path, RasterRule(72, 600))
    assert only.pixels.shape == (20, 30)
    assert np.abs(only.pixels.astype(int) - picture()).mean() < 15


def test_broken_exif_does_not_cost_the_picture(tmp_path: Path):
    path = tmp_path / "a.jpg"
    Image.fromarray(picture()).save(path, exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x05\x01", quality=95)
    assert raster(path).pixels[2, 2] < 10


def test_paper_of_a_cmyk_jpeg_stays_white(tmp_path: Path):
    path = tmp_path / "a.jpg"
    Image.fromarray(picture()).convert("RGB").convert("CMYK").save(path, quality=95)
    assert raster(path).pixels[-3:, -3:].min() > 250
    assert raster(path).pixels[:3, :3].max() < 10


@pytest.mark.parametrize(("suffix", "factor"), [("png", 257), ("tif", 257), ("tif", 16), ("tif", 64)])
def test_gray_of_10_to_16_bits_is_scaled_and_not_cut(suffix: str, factor: int, tmp_path: Path):
    path = tmp_path / f"a.{suffix}"
    Image.fromarray(picture().astype(np.uint16) * factor).save(path)
    pixels = raster(path).pixels
    assert np.abs(pixels.astype(int) - picture()).max() <= 1


def test_gray_of_32_bits_and_of_floats_is_scaled_by_its_own_range(tmp_path: Path):
    for name, values in {"int": picture().astype(np.int32) * 100_000, "float": picture() / 255 - 0.5}.items():
        path = tmp_path / f"{name}.tif"
        Image.fromarray(values.astype(np.int32 if name == "int" else np.float32)).save(path)
        assert np.abs(raster(path).pixels.astype(int) - picture()).max() <= 1


def test_a_float_picture_of_nothing_finite_is_a_picture(tmp_path: Path):
    Image.fromarray(np.full((20, 30), np.nan, np.float32)).save(tmp_path / "a.tif")
    assert raster(tmp_path / "a.tif").pixels.shape == (20, 30)


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparent_parts_are_white(mode: str, tmp_path: Path):
    pixels = np.zeros((20, 30, 4), np.uint8)
    pixels[:10, :, 3] = 255
    Image.fromarray(pixels).convert(mode).save(tmp_path / "a.png")
    only = raster(tmp_path / "a.png")
    assert only.pixels[:10].max() == 0
    assert only.pixels[10:].min() == 255


def test_a_transparent_colour_of_a_palette_is_white(tmp_path: Path):
    image = Image.new("P", (30, 20), 1)
    image.putpalette([255, 0, 0, 0, 0, 255] + [0] * 750)
    image.paste(0, (0, 0, 15, 20))
    image.save(tmp_path / "a.png", transparency=1)
    only = raster(tmp_path / "a.png")
    assert only.pixels[5, 5].tolist() == [255, 0, 0]
    assert only.pixels[5, 25].tolist() == [255, 255, 255]


def test_lab_is_turned_into_colours(tmp_path: Path):
    Image.new("LAB", (30, 20), (255, 128, 128)).save(tmp_path / "a.tif")
    assert raster(tmp_path / "a.tif").pixels.min() > 245


def test_a_scan_finer_than_wanted_is_made_smaller_and_a_coarse_one_is_left(tmp_path: Path):
    for dpi, shape in ((144, (10, 15)), (72, (20, 30)), (60, (20, 30)), (3, (20, 30)), (100_000, (20, 30))):
        Image.fromarray(picture()).save(tmp_path / "a.png", dpi=(dpi, dpi))
        only = raster(tmp_path / "a.png")
        assert only.pixels.shape == shape, dpi
        believed = 50 <= dpi <= 4800
        assert only.sized.dpi == (pytest.approx(min(dpi, 72), rel=0.01) if believed else None)


@pytest.mark.parametrize("orientation", [1, 6])
def test_a_fax_of_other_dpi_across_than_down_gets_square_pixels(orientation: int, tmp_path: Path):
    image = Image.fromarray(picture(20, 60))
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = image if orientation == 1 else image.transpose(Image.Transpose.ROTATE_90)
    for suffix in ("jpg", "tif"):
        stored.save(tmp_path / f"fax.{suffix}", dpi=(204, 98) if orientation == 1 else (98, 204), exif=exif)
        only = raster(tmp_path / f"fax.{suffix}", RasterRule(204, 10**8))
        assert only.pixels.shape == (round(20 * 204 / 98), 60)


def test_what_a_viewer_would_turn_is_turned(tmp_path: Path):
    document = pymupdf.open()
    for degrees in (0, 90, 180, 270):
        page = document.new_page(width=30, height=20)
        page.draw_rect((0, 0, 15, 10), color=None, fill=BLACK)
        page.set_rotation(degrees)
    document.save(tmp_path / "a.pdf")
    found = rasters(tmp_path / "a.pdf")
    assert [item.sized.rotation for item in found] == [0, 90, 180, 270]
    for turns, item in enumerate(found):  # clockwise
        assert np.array_equal(item.pixels, np.rot90(found[0].pixels, -turns))


def test_only_the_crop_box_is_drawn(tmp_path: Path):
    content = "<</Length 40>>stream\n0 0 0 rg 20 50 30 30 re f 0 0 0 rg 0 0 5 5 re f\nendstream"
    path = pdf_of_pages(tmp_path / "a.pdf", "/MediaBox[0 0 100 100]/CropBox[20 20 80 60]/Contents 4 0 R")
    data = path.read_bytes().replace(b"trailer", f"4 0 obj {content} endobj\ntrailer".encode())
    path.write_bytes(data)
    only = raster(path)
    assert only.pixels.shape == (40, 60)
    assert only.pixels[:10, :30].max() == 0, "what stands at the left upper corner of the crop box"
    assert only.pixels[11:].min() == 255


def test_a_larger_user_unit_makes_a_larger_page(tmp_path: Path):
    assert raster(pdf_of_pages(tmp_path / "a.pdf", "/MediaBox[0 0 30 20]/UserUnit 2")).pixels.shape == (40, 60)


def test_annotations_and_form_fields_are_drawn(tmp_path: Path):
    document = pymupdf.open()
    page = document.new_page(width=100, height=100)
    page.add_rect_annot((10, 10, 90, 90)).update()
    widget = pymupdf.Widget()
    widget.field_name, widget.field_type, widget.field_value = "a", pymupdf.PDF_WIDGET_TYPE_TEXT, "XXXXX"
    widget.rect = pymupdf.Rect(30, 40, 80, 60)
    page.add_widget(widget)
    document.save(tmp_path / "a.pdf")
    pixels = _gray(raster(tmp_path / "a.pdf").pixels)
    assert pixels[10, 50] < 250, "the frame of the annotation"
    assert pixels[41:59, 31:79].min() < 100, "the value of the field"


def test_pixels_stay_valid_when_the_document_is_closed_and_forgotten(tmp_path: Path):
    """An array over `Pixmap.samples_mv` read freed memory: it does not keep its pixmap alive."""
    path = pdf(tmp_path / "a.pdf", (600, 400, BLACK))
    reader = MupdfReader(str(path), "application/pdf")
    pixels = reader.render(a_page_of(path), AS_IS)[1]
    before = pixels.copy()
    reader.close()
    del reader
    gc.collect()
    pymupdf.TOOLS.store_shrink(100)
    filler = [np.full(pixels.shape, 77, np.uint8) for _ in range(50)]
    assert len(filler) == 50
    assert np.array_equal(pixels, before)
    assert (before[:199, :299] == 0).all()
    assert (before[201:] == 255).all()


def test_pixels_of_a_picture_stay_valid_when_the_file_is_closed_and_cut_short(tmp_path: Path):
    path = tmp_path / "a.tif"
    Image.fromarray(picture(400, 600)).save(path)
    reader = PictureReader(str(path), "image/tiff")
    pixels = reader.render(a_page_of(path), AS_IS)[1]
    reader.close()
    del reader
    gc.collect()
    path.write_bytes(b"")
    assert np.array_equal(pixels, picture(400, 600))


def test_a_picture_cut_short_while_it_is_read_does_not_end_the_process(tmp_path: Path):
    """A mapped file that loses its pages to a truncation kills whoever reads it, with SIGBUS."""
    path = tmp_path / "a.tif"
    Image.fromarray(picture(400, 600)).save(path)
    reader = PictureReader(str(path), "image/tiff")
    reader._image.load = _cut_before(path, reader._image.load)  # type: ignore[method-assign]
    with pytest.raises(Exception, match="broken_page"):
        reader.render(a_page_of(path), AS_IS)
    reader.close()


def _cut_before(path, load):
    def loads():
        path.write_bytes(b"")
        return load()

    return loads
