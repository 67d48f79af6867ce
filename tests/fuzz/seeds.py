"""Small whole files of every format, each with several of the things that its format can hold."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pymupdf
from PIL import Image, ImageDraw

from tests import documents
from tests.unit.rasters import xps

SAMPLES = Path(__file__).resolve().parents[2] / "sample_docs"


def _picture(mode: str = "L", size: tuple[int, int] = (60, 40)) -> Image.Image:
    image = Image.linear_gradient("L").resize(size)
    ImageDraw.Draw(image).text((5, 10), "seed", fill=0)
    return image.convert(mode)


def _frames(path: Path, mode: str = "L", *, grow: int = 8, **options: object) -> None:
    first, *rest = (_picture(mode, (60 + grow * number, 40)) for number in range(3))
    first.save(path, save_all=True, append_images=rest, **options)


def _rich_pdf(path: Path) -> None:
    """Text, pictures of several codings, a form field, an annotation, a rotated page; plain, so that damage bites."""
    document = pymupdf.open()
    for number, (kind, mode) in enumerate((("JPEG", "RGB"), ("JPEG2000", "L"), ("PNG", "1"))):
        page = document.new_page(width=200, height=120)
        page.insert_text((20, 30), f"page {number + 1}", fontsize=12)
        picture = path.with_suffix(f".{number}")
        _picture(mode).save(picture, kind)
        page.insert_image((20, 50, 80, 90), filename=picture)
        page.add_highlight_annot((20, 20, 60, 34))
        page.set_rotation(90 * number)
        picture.unlink()
    field = pymupdf.Widget()
    field.field_name, field.field_type, field.rect = "name", pymupdf.PDF_WIDGET_TYPE_TEXT, pymupdf.Rect(90, 50, 150, 70)
    field.field_value = "form"
    document[0].add_widget(field)
    document.save(path, deflate=False)


def _packed_pdf(path: Path) -> None:
    """The same with object streams and a compressed table of them."""
    _rich_pdf(path)
    document = pymupdf.open(stream=path.read_bytes())
    document.save(path, deflate=True, use_objstms=1, garbage=3)


SEEDS: dict[str, Callable[[Path], object]] = {
    "rich.pdf": _rich_pdf,
    "packed.pdf": _packed_pdf,
    "locked.pdf": lambda path: documents.encrypted_pdf(path, owner_only=True),
    "sample.pdf": lambda path: shutil.copy(SAMPLES / "table.pdf", path),
    "a.xps": lambda path: xps(path, 96, 60),
    "gray.png": lambda path: _picture().save(path),
    "palette.png": lambda path: _picture("P").save(path, transparency=0),
    "a.jpg": lambda path: _picture("RGB").save(path, exif=_turned()),
    "progressive.jpg": lambda path: _picture("CMYK").save(path, progressive=True),
    "a.jp2": lambda path: _picture("RGB").save(path),
    "plain.tif": lambda path: _frames(path, "RGB"),
    "lzw.tif": lambda path: _frames(path, compression="tiff_lzw"),
    "fax.tif": lambda path: _frames(path, "1", compression="group4"),
    "jpeg.tif": lambda path: _frames(path, "RGB", compression="jpeg"),
    "a.gif": lambda path: _frames(path, "P"),
    "a.webp": lambda path: _frames(path, "RGB", grow=0),
    "a.bmp": lambda path: _picture("P").save(path),
    "a.ppm": lambda path: _picture("RGB").save(path),
}


def _turned() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif
