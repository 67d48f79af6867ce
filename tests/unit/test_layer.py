"""Text layers: what is taken from them, and every kind that must not be."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pymupdf
import pytest
from PIL import Image

from pipeline.document import Source, uri_of_path
from pipeline.page import Page, RasterRule
from pipeline.raster import probe, render_pages
from pipeline.raster.layer import Layer
from pipeline.raster.mupdf import MupdfReader
from pipeline.raster.piece import pieces_of
from pipeline.result import Settled, Status
from tests import documents

RULE = RasterRule(150, 10**7, text_layer="auto", skip_blank=True)
LINES = (
    "The river rose in the night and took the lower",
    "bridge with it before anyone had thought to close",
    "the road. In the morning the ferryman found two",
    "planks and a lantern on the bank below the mill.",
)
TEXT = "\n".join(LINES)
LETTERS = sum(not character.isspace() for character in TEXT)


def _layer(path: Path, index: int = 0) -> Layer:
    document = probe(Source(uri_of_path(str(path)))).document
    reader = MupdfReader(str(path), document.media_type or "", document.page_count)
    try:
        return reader.layer(Page(document.uri, document.document_id or "", index, document.page_count or 0), RULE)
    finally:
        reader.close()


def _written(
    page: pymupdf.Page, *, top: float = 100, left: float = 72, lines: tuple[str, ...] = LINES, **how: object
) -> None:
    for row, line in enumerate(lines):
        page.insert_text((left, top + 18 * row), line, **{"fontsize": 12, **how})


@pytest.fixture
def made(tmp_path: Path) -> Callable[[Callable[[pymupdf.Page], None]], Layer]:
    """What is found of a page that a function has written on."""

    def make(write: Callable[[pymupdf.Page], None]) -> Layer:
        document = pymupdf.open()
        write(document.new_page(width=595, height=842))
        document.save(tmp_path / "made.pdf")
        return _layer(tmp_path / "made.pdf")

    return make


Made = Callable[[Callable[[pymupdf.Page], None]], Layer]


def test_text_of_a_page_as_large_as_a_wall_is_seen(tmp_path: Path):
    document = pymupdf.open()
    _written(
        document.new_page(width=14_400, height=14_400), top=1000, lines=("A page of five metres a side",), fontsize=300
    )
    document.save(tmp_path / "wall.pdf")
    found = _layer(tmp_path / "wall.pdf")
    assert (found.verdict, found.recognition and found.recognition.text) == ("sound", "A page of five metres a side")


def _span(text: str, x: float, step: float) -> dict[str, object]:
    """A span as MuPDF gives it, its letters in the order of reading, `step` points apart."""
    places = [x + step * i for i in range(len(text))]
    letters = [
        {"c": letter, "origin": (place, 100.0), "bbox": (place, 90.0, place + abs(step), 102.0)}
        for letter, place in zip(text, places, strict=True)
    ]
    ends = (letters[0]["origin"][0], letters[-1]["origin"][0])  # type: ignore[index]
    box = (min(ends), 90.0, max(ends) + abs(step), 102.0)
    return {"chars": letters, "bbox": box, "size": 12.0, "char_flags": 16, "alpha": 255, "font": "Yas"}


@pytest.mark.parametrize(
    ("found", "read"),
    [
        ("٩١ اسفند ٧٩٣١", "١٩ اسفند ١٣٩٧"),
        ("١/٢٠/٩٧٣١ ،٥٫٤", "١٣٧٩/٠٢/١ ،٤٫٥"),
        ("עמוד 21", "עמוד 12"),
        ("قبـ ـل", "قبــل"),
    ],
)
def test_numbers_in_text_from_right_to_left_are_read_from_the_left(found: str, read: str):
    line = {"dir": (1.0, 0.0), "wmode": 0, "spans": [_span(found, 400, -7)]}
    (piece,) = pieces_of({"blocks": [{"lines": [line]}]}, (0, 0, 600, 800))
    assert piece.text == read


@pytest.mark.parametrize(
    ("found", "read"),
    [
        ("sử|dụng", "sử dụng"),
        ("Thế|Thành", "Thế Thành"),
        ("한국|어", "한국 어"),
        ("ὁ|λόγος", "ὁ λόγος"),
        ("日本|語", "日本語"),
        ("sử |dụng", "sử dụng"),
    ],
)
@pytest.mark.parametrize("num_spans", [1, 2])
def test_a_blank_that_is_only_a_gap_is_one_in_scripts_that_have_blanks(found: str, read: str, num_spans: int):
    before, after = found.split("|")
    spans = [_span(before, 100, 7), _span(after, 104 + 7 * len(before), 7)]
    if num_spans == 1:
        spans = [{**spans[0], "chars": [*spans[0]["chars"], *spans[1]["chars"]]}]  # type: ignore[misc]
    line = {"dir": (1.0, 0.0), "wmode": 0, "spans": spans}
    (piece,) = pieces_of({"blocks": [{"lines": [line]}]}, (0, 0, 600, 800))
    assert piece.text == read


def test_a_number_that_stands_as_it_is_read_stays_so():
    line = {"dir": (1.0, 0.0), "wmode": 0, "spans": [_span("page 1397", 100, 7)]}
    (piece,) = pieces_of({"blocks": [{"lines": [line]}]}, (0, 0, 600, 800))
    assert piece.text == "page 1397"


def _picture(lines: int = 12) -> bytes:
    """A picture of text, as a scanner would make it."""
    source = pymupdf.open()
    page = source.new_page(width=400, height=300)
    for row in range(lines):
        page.insert_text((20, 30 + 22 * row), LINES[row % 4], fontsize=14)
    return bytes(page.get_pixmap(dpi=150).tobytes("png"))


def _noise() -> bytes:
    file = io.BytesIO()
    dice = np.random.default_rng(0)
    small = Image.fromarray(dice.integers(0, 255, (12, 16, 3), np.uint8))
    small.resize((640, 480), Image.Resampling.BICUBIC).save(file, "JPEG")
    return file.getvalue()


def test_a_page_of_text_is_taken_with_its_lines_where_they_stand(made: Made):
    layer = made(_written)
    assert layer.verdict == "sound"
    assert layer.recognition is not None
    assert layer.recognition.text == TEXT
    assert [line.text for line in layer.recognition.lines] == list(LINES)
    x0, y0, x1, y1 = layer.recognition.lines[0].bbox
    assert (x0, y0 < 100 * 150 / 72 < y1) == (pytest.approx(72 * 150 / 72, abs=3), True)
    assert x1 < 595 * 150 / 72
    assert layer.recognition.confidence is None


@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_a_page_that_its_rotation_makes_upright_is_taken(rotation: int, tmp_path: Path):
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    page.set_rotation(rotation)
    for row, line in enumerate(LINES):
        at = pymupdf.Point(72, 100 + 18 * row) * page.derotation_matrix
        page.insert_text(at, line, fontsize=12, rotate=rotation)
    document.save(tmp_path / "a.pdf")
    layer = _layer(tmp_path / "a.pdf")
    assert layer.verdict == "sound"
    assert layer.recognition is not None
    assert layer.recognition.text == TEXT
    assert layer.recognition.lines[0].bbox[0] == pytest.approx(150, abs=3)


def test_text_that_lies_on_its_side_is_left_to_the_engine(made: Made):
    layer = made(lambda page: _written(page, top=600, rotate=90))
    assert layer.verdict == "turned: 100% of the letters do not run across the page"
    assert layer.recognition is None


def test_columns_are_read_one_after_the_other(made: Made):
    left = tuple(f"left column row {n} of the page" for n in range(20))
    right = tuple(f"right column row {n} of the page" for n in range(20))

    def write(page: pymupdf.Page) -> None:
        for row in range(20):
            _written(page, top=100 + 18 * row, lines=(left[row],))
            _written(page, top=100 + 18 * row, left=320, lines=(right[row],))

    layer = made(write)
    assert layer.recognition is not None
    assert layer.recognition.text.split() == " ".join(left + right).split()


def test_a_page_without_letters_has_no_layer(made: Made):
    assert made(lambda page: None) == Layer("absent")
    assert made(lambda page: page.insert_image(page.rect, stream=_picture())).verdict == "absent"


def test_an_older_ocr_under_or_over_a_scan_is_hidden(made: Made):
    def invisible(page: pymupdf.Page) -> None:
        page.insert_image(page.rect, stream=_picture())
        _written(page, top=300, render_mode=3)

    def under(page: pymupdf.Page) -> None:
        _written(page, top=300)
        page.insert_image(page.rect, stream=_picture())

    for write in (invisible, under):
        found = made(write)
        assert found.verdict == f"hidden: {LETTERS} letters that are not to be seen"
        assert found.num_chars == LETTERS


@pytest.mark.parametrize(
    "how",
    [{"color": (1, 1, 1)}, {"color": (0.97, 0.97, 0.97)}, {"fill_opacity": 0, "stroke_opacity": 0}, {"render_mode": 3}],
    ids=["white", "nearly white", "transparent", "not painted"],
)
def test_text_that_nobody_sees_is_not_on_the_page(how: dict[str, object], made: Made):
    def write(page: pymupdf.Page) -> None:
        _written(page)
        _written(page, top=400, lines=("unseen",), **how)

    layer = made(write)
    assert layer.verdict == "sound"
    assert layer.recognition is not None
    assert layer.recognition.text == TEXT


def test_text_outside_of_the_page_or_behind_a_patch_is_not_on_it(made: Made):
    def write(page: pymupdf.Page) -> None:
        _written(page, top=300)
        _written(page, top=500, lines=("covered",))
        page.draw_rect((60, 480, 200, 520), fill=(1, 1, 1), color=None)
        _written(page, top=40, lines=("cut off",))
        page.set_cropbox((0, 60, 595, 842))

    layer = made(write)
    assert layer.recognition is not None
    assert layer.recognition.text == TEXT
    assert layer.recognition.lines[0].bbox[1] < (300 - 60) * 150 / 72 < layer.recognition.lines[0].bbox[3]


def test_a_scan_with_a_printed_number_on_it_is_left_to_the_engine(made: Made):
    def write(page: pymupdf.Page) -> None:
        page.insert_image((60, 60, 540, 420), stream=_picture())
        page.insert_text((480, 820), "ABC-000123", fontsize=10)

    found = made(write)
    assert found.verdict.startswith("sparse: ")
    assert found.num_chars == len("ABC-000123")


def test_a_paragraph_in_a_picture_beside_the_text_is_noticed(made: Made):
    def write(page: pymupdf.Page) -> None:
        _written(page)
        page.insert_image((72, 300, 472, 600), stream=_picture(lines=2))

    assert made(write).verdict.startswith("sparse: ")


def test_a_photograph_a_chart_and_rules_are_no_text(made: Made):
    def write(page: pymupdf.Page) -> None:
        _written(page)
        page.insert_image((72, 200, 272, 350), stream=_noise())
        page.draw_line((72, 190), (500, 190))
        for bar in range(8):
            page.draw_rect((300 + 20 * bar, 350 - 12 * bar, 314 + 20 * bar, 350), fill=(0.2, 0.3, 0.6))

    assert made(write).verdict == "sound"


def test_form_fields_and_notes_on_the_page_are_read_as_they_are_shown(made: Made):
    def write(page: pymupdf.Page) -> None:
        _written(page)
        widget = pymupdf.Widget()
        widget.field_name, widget.field_type = "name", pymupdf.PDF_WIDGET_TYPE_TEXT
        widget.rect, widget.field_value, widget.text_fontsize = pymupdf.Rect(72, 200, 300, 220), "Ada Lovelace", 11
        page.add_widget(widget)
        page.add_freetext_annot(pymupdf.Rect(72, 240, 300, 270), "see page nine", fontsize=11)

    layer = made(write)
    assert layer.verdict == "sound"
    assert layer.recognition is not None
    assert layer.recognition.text.replace("\n\n", "\n") == f"{TEXT}\nAda Lovelace\nsee page nine"


def test_letters_drawn_twice_to_look_bold_are_read_once(made: Made):
    def write(page: pymupdf.Page) -> None:
        _written(page)
        _written(page, left=72.4)

    layer = made(write)
    assert layer.recognition is not None
    assert layer.recognition.text == TEXT


def _with_font(tmp_path: Path, unicode_of: Callable[[int], str] | None) -> Layer:
    """A page set in a font that says of each letter what `unicode_of` makes of it."""
    mapping = b""
    if unicode_of is not None:
        pairs = "".join(f"<{code:02x}> <{ord(unicode_of(code)):04x}>\n" for code in range(32, 127))
        mapping = (
            "/CIDInit /ProcSet findresource begin 12 dict begin begincmap\n"
            "1 begincodespacerange <00> <ff> endcodespacerange\n"
            f"95 beginbfchar\n{pairs}endbfchar endcmap end end"
        ).encode()
    content = b"BT /F1 12 Tf 18 TL 72 742 Td " + b" ".join(f"({line}) Tj T*".encode() for line in LINES) + b" ET"
    path = documents.pdf_of(
        tmp_path / "font.pdf",
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        ("", content),
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 6 0 R>>",
        ("", mapping),
    )
    return _layer(path)


@pytest.mark.parametrize(
    ("unicode_of", "verdict"),
    [
        (chr, "sound"),
        (lambda code: "\ufffd", "garbled: 100% of the glyphs have no Unicode"),
        (lambda code: chr(0xE000 + code), "garbled: 100% of the glyphs have no Unicode"),
        (lambda code: chr(code + 1) if 97 <= code < 122 else chr(code), "garbled: a line reads otherwise on the page"),
        (lambda code: "e" if code > 64 else chr(code), "garbled: "),
        (lambda code: "aeiou"[code % 5] if code > 64 else chr(code), "garbled: a line reads otherwise on the page"),
    ],
    ids=["right", "unmapped", "private", "shifted", "one letter", "plausible"],
)
def test_a_font_that_lies_of_its_letters_is_found_out(unicode_of: Callable[[int], str], verdict: str, tmp_path: Path):
    layer = _with_font(tmp_path, unicode_of)
    assert layer.verdict.startswith(verdict)
    assert (layer.recognition is not None) == (verdict == "sound")


def test_a_taken_page_is_settled_and_not_rendered(tmp_path: Path):
    document = probe(Source(uri_of_path(str(documents.pdf(tmp_path / "a.pdf", 1))))).document
    (made,) = render_pages(document, 0, 1, RULE)
    assert isinstance(made, Settled)
    assert made.status is Status.TEXT_LAYER
    assert made.recognition is not None
    assert made.recognition.text == "page 1 of a.pdf"
    assert (made.sized.width_px, made.sized.height_px, made.sized.text_layer) == (417, 250, "sound")


def test_too_many_pieces_of_text_are_not_looked_at(made: Made, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pipeline.raster.layer._MAX_PIECES", 3)
    assert made(_written) == Layer("garbled: 4 pieces of text on one page", num_chars=LETTERS)


def test_a_fault_on_the_way_to_the_text_is_one_of_the_layer_alone(made: Made, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> None:
        raise RuntimeError("code=7: no such font")

    monkeypatch.setattr("pipeline.raster.mupdf.pieces_of", fail)
    assert made(_written).verdict == "broken: no such font"
