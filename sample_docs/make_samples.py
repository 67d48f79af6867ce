"""Draw the sample documents and write the true text of each one beside it."""

# PyMuPDF is marked as typed, yet many of its functions carry no annotations.
# mypy: untyped-calls-exclude=pymupdf

import argparse
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pymupdf
import sample_texts as texts
from numpy.typing import NDArray
from PIL import Image, ImageFilter
from sheet_layout import (
    A4,
    A5,
    A6,
    A6_LANDSCAPE,
    HEADING,
    LETTER_LANDSCAPE,
    Rule,
    Sheet,
    Size,
    Style,
    Turn,
    article,
    draw_sheet,
    join,
    set_lines,
    set_row,
    set_text,
)

EXIF_ORIENTATION = 0x0112
PAGE_BREAK = "\n\f\n"

BODY = Style("tiro", 12, 17)
SANS = Style("helv", 11, 16)
TYPED = Style("cour", 11.5, 17)
TILL = Style("cobo", 11, 18)
HAN = Style("cjk", 13, 24)
HAN_HEADING = Style("cjk", 18, 30)


@dataclass(frozen=True, slots=True)
class Sample:
    """A finished file and the true text of its pages."""

    name: str
    data: bytes
    pages: tuple[str, ...]


def pdf_bytes(doc: pymupdf.Document) -> bytes:
    """Save without dates and without a fresh random id, so that equal input gives equal bytes."""
    return bytes(doc.tobytes(garbage=4, deflate=True, no_new_id=True))


def vector_pdf(name: str, sheets: Sequence[Sheet]) -> Sample:
    """A PDF that carries its text as text, with only the glyphs it uses."""
    doc = pymupdf.open()
    for sheet in sheets:
        draw_sheet(doc, sheet)
    doc.subset_fonts()
    return Sample(name, pdf_bytes(doc), tuple(sheet.truth for sheet in sheets))


def raster(sheet: Sheet, dpi: int) -> Image.Image:
    """Render the sheet to a gray image."""
    doc = pymupdf.open()
    draw_sheet(doc, sheet)
    pixels = doc[0].get_pixmap(dpi=dpi, colorspace=pymupdf.csGRAY)
    return Image.frombytes("L", (pixels.width, pixels.height), pixels.samples)


def encode(image: Image.Image, kind: str, **options: object) -> bytes:
    """Encode an image in memory; the options are Pillow's for that file kind."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def light_field(size: tuple[int, int], dark: float) -> NDArray[np.float64]:
    """Brightness factors from 1 at the top left down to `dark` at the bottom right."""
    across = np.linspace(0, 1, size[0])[None, :]
    down = np.linspace(0, 1, size[1])[:, None]
    return 1 - (1 - dark) * (across + down**2) / 2


def wear(image: Image.Image, degrees: float, seed: int) -> Image.Image:
    """Make a clean page look scanned: skew, blur, uneven light and sensor noise."""
    turned = image.rotate(degrees, Image.Resampling.BICUBIC, fillcolor=255)
    soft = np.asarray(turned.filter(ImageFilter.GaussianBlur(0.7)), dtype=np.float64)
    paper = 25 + soft * 0.85
    noise = np.random.default_rng(seed).normal(0, 9, paper.shape)
    scan = np.clip(paper * light_field(image.size, 0.72) + noise, 0, 255)
    return Image.fromarray(scan.astype(np.uint8))


def born_digital() -> Sample:
    """Three pages of different size and typeface."""
    sheets = (
        article(A4, "The Lock Keeper's Year", texts.LOCK_KEEPER, BODY, 72),
        article(LETTER_LANDSCAPE, "Loomings", texts.MOBY_DICK, Style("helv", 13, 19), 130),
        article(A5, "Chapter 1", texts.PRIDE_AND_PREJUDICE, BODY, 48),
    )
    return vector_pdf("born_digital_mixed_sizes.pdf", sheets)


def scan() -> Sample:
    """Two pages that hold nothing but a gray JPEG each."""
    sheets = (
        article(A5, "The Period", texts.TWO_CITIES, Style("tiro", 12.5, 18), 48),
        article(A5, "A Letter from the Archive", texts.ARCHIVE_LETTER, TYPED, 46),
    )
    doc = pymupdf.open()
    for seed, (sheet, degrees) in enumerate(zip(sheets, (1.6, -1.2), strict=True)):
        jpeg = encode(wear(raster(sheet, 150), degrees, seed), "JPEG", quality=60)
        page = doc.new_page(width=sheet.size[0], height=sheet.size[1])
        page.insert_image(page.rect, stream=jpeg)
    return Sample("scan_skewed_noisy.pdf", pdf_bytes(doc), tuple(sheet.truth for sheet in sheets))


def two_columns() -> Sample:
    """A title across the page and two columns under it."""
    margin, gutter = 56, 33
    width = (A4[0] - 2 * margin - gutter) / 2
    title = set_lines(["How Paper Was Made by Hand"], HEADING, margin, margin, center=A4[0] - 2 * margin)
    top = title.bottom + 16
    left = set_text(texts.PAPER_LEFT, BODY, margin, top, width)
    right = set_text(texts.PAPER_RIGHT, BODY, margin + width + gutter, top, width)
    return vector_pdf("two_columns.pdf", [Sheet(A4, (title, *left, *right))])


def table() -> Sample:
    """A caption over a fully ruled table, with numbers set to the right of their columns."""
    edges, height = (40, 120, 200, 290, 380), 34
    caption = set_lines(["Table 1. Water level and rain on 3 April"], SANS, edges[0], 36)
    top = caption.bottom + 8
    rows = []
    for index, (weir, river, level, rain) in enumerate(texts.WEIRS):
        style = Style("helv" if index else "hebo", 11, 16)
        baseline = top + index * height + 21
        left = ((weir, edges[0] + 8), (river, edges[1] + 8))
        rows.append(set_row(left, ((level, edges[3] - 8), (rain, edges[4] - 8)), style, baseline))
    levels = [top + index * height for index in range(len(texts.WEIRS) + 1)]
    across = [Rule((edges[0], y), (edges[-1], y)) for y in levels]
    down = [Rule((x, top), (x, levels[-1])) for x in edges]
    return vector_pdf("table.pdf", [Sheet(A6_LANDSCAPE, (caption, join(rows, (*across, *down))))])


def receipt() -> Sample:
    """A narrow strip in a typewriter face, prices ending at one edge."""
    width, margin = 204.0, 16.0
    head = set_lines(texts.RECEIPT_HEAD, TILL, margin, 24, center=width - 2 * margin)
    blocks, y = [head], head.bottom + 26
    for group in (texts.RECEIPT_ITEMS, texts.RECEIPT_SUMS):
        rows = [
            set_row([(name, margin)], [(price, width - margin)], TILL, y + index * TILL.leading)
            for index, (name, price) in enumerate(group)
        ]
        line = Rule((margin, y - 20), (width - margin, y - 20))
        blocks.append(join(rows, (line,)))
        y = blocks[-1].bottom + 34
    blocks.append(set_lines(texts.RECEIPT_FOOT, TILL, margin, y - 12, center=width - 2 * margin))
    sheet = Sheet((width, blocks[-1].bottom + 24), tuple(blocks))
    data = encode(raster(sheet, 150), "PNG", dpi=(150, 150), optimize=True)
    return Sample("receipt.png", data, (sheet.truth,))


def chinese() -> Sample:
    """A page of simplified Chinese in horizontal lines."""
    margin, width = 54, A5[0] - 108
    blocks = [set_lines(["造纸坊"], HAN_HEADING, margin, 50, center=width)]
    for lines in texts.CHINESE_PROSE:
        blocks.append(set_lines(lines, HAN, margin, blocks[-1].bottom + 12))
    blocks.append(set_lines(["静夜思"], HAN_HEADING, margin, blocks[-1].bottom + 28, center=width))
    blocks.append(set_lines(texts.QUIET_NIGHT, HAN, margin, blocks[-1].bottom + 6, center=width))
    return vector_pdf("chinese.pdf", [Sheet(A5, tuple(blocks))])


def three_frames() -> Sample:
    """A fax-like file: black and white frames in one TIFF."""
    sheets = [article(A6, title, [text], Style("helv", 13, 19), 36) for title, text in texts.FRAMES]
    first, *others = (raster(sheet, 200).convert("1", dither=Image.Dither.NONE) for sheet in sheets)
    data = encode(first, "TIFF", save_all=True, append_images=others, compression="group4", dpi=(200, 200))
    return Sample("three_frames.tiff", data, tuple(sheet.truth for sheet in sheets))


def lay_on_table(paper: Image.Image) -> Image.Image:
    """Put a gray page, slightly turned and with a shadow, on a brown table top in color."""
    left, top = 110, 120
    size = (paper.width + 2 * left, paper.height + 2 * top)
    mask = Image.new("L", size)
    mask.paste(255, (left, top, left + paper.width, top + paper.height))
    page = Image.new("L", size, 255)
    page.paste(paper, (left, top))
    mask, page = (layer.rotate(1.5, Image.Resampling.BICUBIC) for layer in (mask, page))
    shadow = mask.transform(size, Image.Transform.AFFINE, (1, 0, -10, 0, 1, -14))
    scene = Image.new("RGB", size, (150, 112, 78))
    scene.paste((84, 60, 42), mask=shadow.filter(ImageFilter.GaussianBlur(16)))
    cream = Image.merge("RGB", [page.point([30 + v * c // 100 for v in range(256)]) for c in (86, 83, 75)])
    scene.paste(cream, mask=mask)
    return scene


def photo() -> Sample:
    """A note on a table as a phone stores it: pixels on their side, the turn in the EXIF data."""
    sheet = article(A6, "Change of Plan", texts.NOTE, Style("tiro", 14, 21), 36)
    scene = lay_on_table(raster(sheet, 150)).filter(ImageFilter.GaussianBlur(0.6))
    noise = np.random.default_rng(6).normal(0, 3, (scene.height, scene.width, 3))
    lit = np.asarray(scene, dtype=np.float64) * light_field(scene.size, 0.7)[:, :, None] + noise
    upright = Image.fromarray(np.clip(lit, 0, 255).astype(np.uint8))
    exif = Image.Exif()
    exif[EXIF_ORIENTATION] = 6
    data = encode(upright.transpose(Image.Transpose.ROTATE_90), "JPEG", quality=80, exif=exif)
    return Sample("photo_exif_rotated.jpg", data, (sheet.truth,))


def blank() -> Sample:
    """One empty page."""
    return vector_pdf("blank.pdf", [Sheet(A6)])


def mixed_orientation() -> Sample:
    """Pages that all look upright in a viewer but are stored in four ways."""
    forms: tuple[tuple[Size, Turn], ...] = ((A6, 0), (A6_LANDSCAPE, 0), (A6, 90), (A6, 180))
    sheets = [
        article(size, title, [text], SANS, 40, turn)
        for (size, turn), (title, text) in zip(forms, texts.ORIENTATIONS, strict=True)
    ]
    return vector_pdf("mixed_orientation.pdf", sheets)


def long_and_sparse() -> Sample:
    """Twelve small pages that each name their own number, so that a mix-up shows."""
    sheets = []
    for number, (word, line) in enumerate(zip(texts.NUMBER_WORDS, texts.MONTH_LINES, strict=True), start=1):
        lines = (f"Page {word}: {number} of {len(texts.MONTH_LINES)}", line)
        sheets.append(Sheet(A6, (set_lines(lines, Style("helv", 13, 22), 40, 60),)))
    return vector_pdf("long_and_sparse.pdf", sheets)


def write_sample(sample: Sample, target: Path) -> None:
    """Write the document and, under truth/, its text with a form feed line between pages."""
    text = PAGE_BREAK.join(sample.pages)
    (target / sample.name).write_bytes(sample.data)
    truth = target / "truth" / f"{sample.name}.txt"
    truth.write_text(f"{text}\n" if text else "", encoding="utf-8", newline="\n")


MAKERS = (
    born_digital,
    scan,
    two_columns,
    table,
    receipt,
    chinese,
    three_frames,
    photo,
    blank,
    mixed_orientation,
    long_and_sparse,
)


def main() -> None:
    """Write every sample into the given folder, by default the one this script lies in."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", nargs="?", type=Path, default=Path(__file__).parent)
    target: Path = parser.parse_args().target
    (target / "truth").mkdir(parents=True, exist_ok=True)
    for make in MAKERS:
        write_sample(make(), target)


if __name__ == "__main__":
    main()
