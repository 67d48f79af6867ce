"""Limits on what a page may cost: what is made smaller says so, what is too large is refused, bombs do not go off."""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pymupdf
import pytest
from PIL import Image

from jobs.plan import make_plan
from jobs.prepare import prepare, raster_limits
from jobs.run import run
from pipeline.config import JobConfig
from pipeline.document import Source, uri_of_path
from pipeline.errors import ErrorCode
from pipeline.page import Raster, RasterLimits, RasterRule
from pipeline.parquet import read_columns
from pipeline.raster import mupdf, probe, quarantine, render_pages, size_pages
from pipeline.raster import picture as picture_module
from pipeline.rasterizer import render_blocks
from pipeline.result import Unrendered
from pipeline.store import Store
from pipeline.task import Piece
from tests import documents

from .rasters import AS_IS, BLACK, codes, failure_of, pdf, pdf_of_pages, picture, raster, raw_pdf, sized

SMALL = RasterRule(dpi=72, max_pixels=10_000)
TINY_IMAGES = RasterLimits(max_image_pixels=1000)


def _png(path: Path, width_px: int, height_px: int) -> Path:
    Image.new("L", (width_px, height_px), 200).save(path)
    return path


# made smaller


def test_a_page_made_smaller_than_the_rule_asks_says_so(tmp_path: Path):
    note = "rendered smaller: 400 x 300 would be 120,000 pixels, the limit is 10,000"
    for path in (pdf(tmp_path / "a.pdf", (400, 300, BLACK)), _png(tmp_path / "a.png", 400, 300)):
        made = raster(path, SMALL)
        assert made.sized.warning == note
        assert made.pixels.size <= 10_000 * 1.05
        (planned,) = sized(path, SMALL)
        assert not isinstance(planned, Unrendered)
        assert planned.warning == note


def test_a_page_that_fits_says_nothing(tmp_path: Path):
    assert raster(pdf(tmp_path / "a.pdf", (100, 90, BLACK)), SMALL).sized.warning is None
    assert raster(_png(tmp_path / "a.png", 100, 90), SMALL).sized.warning is None
    rounded = RasterRule(dpi=72, max_pixels=10_000, side_multiple_px=32)
    assert raster(pdf(tmp_path / "b.pdf", (97, 65, BLACK)), rounded).sized.warning is None


def test_what_the_renderer_says_stands_behind_the_note(tmp_path: Path):
    path = raw_pdf(
        tmp_path / "a.pdf",
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 400 300]/Contents 4 0 R>>",
        "<</Length 24>>stream\n0 0 200 200 re f nonsense\nendstream",
    )
    warning = raster(path, SMALL).sized.warning
    assert warning is not None
    note, _, said = warning.partition("; ")
    assert note.startswith("rendered smaller: 400 x 300")
    assert said.startswith("renderer: ")
    assert "nonsense" in said


def test_what_pillow_says_is_the_renderers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    flattened = picture_module._flattened

    def complains(image: Image.Image) -> Image.Image:
        warnings.warn("Corrupt EXIF data\nof a camera", UserWarning, stacklevel=1)
        return flattened(image)

    monkeypatch.setattr(picture_module, "_flattened", complains)
    assert raster(_png(tmp_path / "a.png", 20, 20)).sized.warning == "renderer: Corrupt EXIF data of a camera"


def test_a_complaint_about_the_file_is_not_told_of_its_pages(tmp_path: Path):
    """MuPDF counts repetitions and tells of them late: with the first page, unless it is asked before."""
    path = pdf_of_pages(tmp_path / "a.pdf", "/MediaBox[0 0 40 30]")
    path.write_bytes(path.read_bytes().replace(b"trailer", b"99999999 0 obj null endobj\n" * 4 + b"trailer"))
    assert raster(path).sized.warning is None


# lost


def test_a_page_of_which_all_is_lost_is_broken_and_no_blank_page(tmp_path: Path):
    """A content stream that does not inflate, among pages that are blank because nothing is on them."""
    path = raw_pdf(
        tmp_path / "a.pdf",
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R 4 0 R]/Count 2>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 40 30]>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 40 30]/Contents 5 0 R>>",
        "<</Filter/FlateDecode/Length 12>>stream\nno zlib data\nendstream",
    )
    assert codes(path) == [None, "broken_page"]


def test_a_page_of_which_something_is_left_is_kept_with_the_complaint(tmp_path: Path):
    path = raw_pdf(
        tmp_path / "a.pdf",
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 40 30]/Contents[4 0 R 5 0 R]>>",
        "<</Length 14>>stream\n0 0 20 20 re f\nendstream",
        "<</Filter/FlateDecode/Length 12>>stream\nno zlib data\nendstream",
    )
    assert "zlib error" in str(raster(path).sized.warning)


@pytest.mark.parametrize(
    ("of_the_tree", "of_the_page", "code"),
    [
        ("", "library error: malloc (99 bytes) failed", ErrorCode.OUT_OF_MEMORY),
        ("", "openjpeg error: Not enough memory to decode", ErrorCode.OUT_OF_MEMORY),
        ("", "ignoring zlib error: incorrect data check", None),
        ("", "format error: object is not a stream", ErrorCode.BROKEN_PAGE),
        ("", "fine\ncannot load content stream part 1/1", ErrorCode.BROKEN_PAGE),
        ("non-page object in page tree", "", ErrorCode.BROKEN_PAGE),
        ("format error: non-page object in page tree\npage tree load failed", "", None),
        ("", "mirrored fonts", None),
    ],
)
def test_what_is_said_of_a_blank_page_decides_whether_it_is_one(
    of_the_tree: str, of_the_page: str, code: ErrorCode | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = pdf_of_pages(tmp_path / "a.pdf", "/MediaBox[0 0 40 30]")
    document = probe(Source(uri_of_path(str(path)))).document
    said = iter(["", "", of_the_tree, of_the_page])
    monkeypatch.setattr(mupdf, "complaints", lambda: next(said, ""))
    (made,) = render_pages(document, 0, 1, AS_IS)
    assert (made.failure.code if isinstance(made, Unrendered) else None) == code


@pytest.mark.parametrize("password", [None, "open sesame"])
def test_a_page_of_which_mupdf_draws_nothing_is_drawn_by_pdfium(
    password: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with pymupdf.open() as made:
        made.new_page(width=100, height=60).draw_rect((10, 10, 50, 40), color=None, fill=(0, 0, 0))
        how = {"encryption": pymupdf.PDF_ENCRYPT_AES_256, "user_pw": password, "owner_pw": "x"} if password else {}
        made.save(tmp_path / "a.pdf", **how)
    limits = RasterLimits(passwords=("wrong", "open sesame"))
    document = probe(Source(uri_of_path(str(tmp_path / "a.pdf"))), limits=limits).document
    monkeypatch.setattr(mupdf, "_pixels", lambda _, sized: np.full((sized.height_px, sized.width_px), 255, np.uint8))
    said = iter(["", "", "", "jbig2dec error: ran off the end"])
    monkeypatch.setattr(mupdf, "complaints", lambda: next(said, ""))
    (found,) = render_pages(document, 0, 1, replace(AS_IS, dpi=72), limits)
    assert isinstance(found, Raster)
    assert found.sized.warning == (
        "renderer: MuPDF: nothing could be drawn: jbig2dec error: ran off the end; drawn by PDFium"
    )
    assert (found.pixels.shape, found.sized.channels) == ((60, 100), 1)
    assert found.pixels[25, 30] == 0
    assert found.pixels[50, 80] == 255


# too large


def test_an_image_of_more_pixels_than_the_limit_is_not_decoded_wherever_it_is_asked_for(tmp_path: Path):
    path = _png(tmp_path / "a.png", 50, 30)
    found = probe(Source(uri_of_path(str(path))), limits=TINY_IMAGES)
    assert found.failure is None, "its pages are counted all the same"
    question = ("render", found.document, 0, AS_IS, TINY_IMAGES)
    alone = bytes.fromhex(quarantine._answer(question).partition(b"\n")[0].decode())
    assert b"page_too_large" in alone
    together = [item for block in _blocks(found.document, TINY_IMAGES) for item in block.told]
    for made in (*render_pages(found.document, 0, 1, AS_IS, TINY_IMAGES), *together):
        assert isinstance(made, Unrendered)
        assert made.failure.code == ErrorCode.PAGE_TOO_LARGE
        words = "50 x 30 are 1,500 pixels, the limit is 1,000 (--max-image-pixels)"
        assert made.failure.message == words
    (planned,) = size_pages(found.document, AS_IS, TINY_IMAGES)
    assert isinstance(planned, Unrendered)


def _blocks(document, limits):
    return render_blocks([Piece(document, 0, 1)], AS_IS, limits, alone=False)


def test_one_frame_too_large_takes_no_other_down(tmp_path: Path):
    frames = [Image.new("L", size, 99) for size in ((30, 30), (60, 60), (31, 31))]
    frames[0].save(tmp_path / "a.tif", save_all=True, append_images=frames[1:])
    document = probe(Source(uri_of_path(str(tmp_path / "a.tif"))), limits=TINY_IMAGES).document
    made = list(render_pages(document, 0, 3, AS_IS, TINY_IMAGES))
    assert [isinstance(item, Raster) for item in made] == [True, False, True]


def test_the_limit_is_an_option_that_does_not_alter_the_fingerprint(tmp_path: Path):
    config = JobConfig(engine="fake", max_image_pixels=1000, page_timeout=7.0, rasterizer_memory_mb=9)
    limits = raster_limits(config)
    assert limits == RasterLimits(7.0, 9 << 20, max_image_pixels=1000, fetching=limits.fetching)
    assert limits.fetching.run != raster_limits(config).fetching.run
    parts = [prepare(c).spec.fingerprint_parts() for c in (config, JobConfig(engine="fake"))]
    assert parts[0] == parts[1]
    _png(tmp_path / "a.png", 50, 30)
    plan = make_plan(JobConfig(inputs=(str(tmp_path),), engine="fake", max_image_pixels=1000))
    assert [code for _, code, _ in plan.unreadable] == ["page_too_large"]


def test_the_rows_of_a_run_say_what_was_refused_and_what_was_made_smaller(tmp_path: Path):
    (tmp_path / "in").mkdir()
    _png(tmp_path / "in" / "large.png", 50, 30)
    pdf(tmp_path / "in" / "wide.pdf", (400, 300, BLACK))
    inputs, out = (str(tmp_path / "in"),), str(tmp_path / "out")
    options = {"engine": "fake", "runner": "local", "progress": "none", "dpi": 72.0, **documents.READ_EVERY_PAGE}
    run(JobConfig(inputs=inputs, out=out, max_image_pixels=1000, max_page_pixels=10_000, **options))
    columns = ("status", "error_code", "error_message")
    rows = sorted(row for part in read_columns(Store.open(out), "pages", columns) for row in part)
    refused = "50 x 30 are 1,500 pixels, the limit is 1,000 (--max-image-pixels)"
    smaller = "rendered smaller: 400 x 300 would be 120,000 pixels, the limit is 10,000"
    assert rows == [("failed", "page_too_large", refused), ("ok", None, smaller)]


# bombs in what surrounds the pixels


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png_with(path: Path, *chunks: bytes) -> Path:
    made = io.BytesIO()
    Image.fromarray(picture()).save(made, "PNG")
    whole = made.getvalue()
    path.write_bytes(whole[:33] + b"".join(chunks) + whole[33:])
    return path


@pytest.mark.parametrize(("kind", "head"), [(b"zTXt", b"c\0\0"), (b"iTXt", b"c\0\1\0\0\0"), (b"iCCP", b"c\0\0")])
def test_text_that_inflates_without_end_makes_a_document_broken(kind: bytes, head: bytes, tmp_path: Path):
    bomb = _chunk(kind, head + zlib.compress(bytes(40 << 20)))
    failure = failure_of(_png_with(tmp_path / "a.png", bomb))
    assert failure is not None
    assert failure.code == ErrorCode.BROKEN_DOCUMENT


def test_a_colour_profile_of_some_mebibytes_is_none_of_them(tmp_path: Path):
    profile = _chunk(b"iCCP", b"c\0\0" + zlib.compress(bytes(3 << 20)))
    assert codes(_png_with(tmp_path / "a.png", profile)) == [None]


@pytest.mark.parametrize(("num_frames", "back_to"), [(1, 0), (3, 0), (3, 1), (3, 2), (3, None), (500, None)])
def test_frames_that_lead_back_to_earlier_ones_are_each_one_page(num_frames: int, back_to: int | None, tmp_path: Path):
    assert codes(documents.tiff_chain(tmp_path / "a.tif", num_frames, back_to)) == [None] * num_frames


def test_a_gif_of_thousands_of_frames_is_so_many_pages(tmp_path: Path):
    made = io.BytesIO()
    Image.new("P", (1, 1)).save(made, "GIF")
    whole = made.getvalue()
    start = whole.index(b",", 13)
    (tmp_path / "a.gif").write_bytes(whole[:start] + whole[start:-1] * 3000 + b";")
    document = probe(Source(uri_of_path(str(tmp_path / "a.gif")))).document
    assert document.page_count == 3000
    assert all(isinstance(made, Raster) for made in render_pages(document, 2984, 3000, AS_IS))


def test_an_animated_webp_is_a_page_a_frame(tmp_path: Path):
    frames = [Image.new("L", (16, 16), tone) for tone in range(0, 250, 5)]
    frames[0].save(tmp_path / "a.webp", save_all=True, append_images=frames[1:], lossless=True)
    assert codes(tmp_path / "a.webp") == [None] * 50


@pytest.mark.parametrize("count", [10**6, 2**31 - 1, -1, 10**20])
def test_a_pdf_that_lies_about_its_pages_gives_no_rows_for_those_that_are_not(count: int, tmp_path: Path):
    page = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 40 30]>>"
    path = raw_pdf(
        tmp_path / "a.pdf", "<</Type/Catalog/Pages 2 0 R>>", f"<</Type/Pages/Kids[3 0 R]/Count {count}>>", page
    )
    found = probe(Source(uri_of_path(str(path))))
    assert found.document.page_count in (None, 1)
