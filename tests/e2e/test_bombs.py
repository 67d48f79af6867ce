"""Small files that ask for much: the limits hold where a rasterizing process keeps them, and the neighbours go on."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image

from pipeline.page import RasterLimits
from tests import documents
from tests.fuzz.examiner import Examiner

LIMITS = RasterLimits(page_timeout_s=3, memory_bytes=300 << 20)
SIDE = 40_000
IMAGE = f"/Type/XObject/Subtype/Image/Width {SIDE}/Height {SIDE}"
DRAW, USES_8 = b"q 200 0 0 120 0 0 cm /X Do Q", "/Resources<</XObject<</X 8 0 R>>>>"


@pytest.fixture(scope="module")
def examiner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Examiner]:
    with (tmp_path_factory.mktemp("log") / "stderr").open("wb") as log:
        examiner = Examiner(log, LIMITS)
        yield examiner
        examiner.close()


def _deflated(unit: bytes, num_bytes: int, times: int = 1) -> bytes:
    """A stream that inflates to so much, deflated so often."""
    packer, chunk = zlib.compressobj(6), unit * ((1 << 20) // len(unit))
    data = b"".join(packer.compress(chunk) for _ in range(num_bytes // len(chunk))) + packer.flush()
    for _ in range(times - 1):
        data = zlib.compress(data, 9)
    return data


def _content(path: Path, unit: bytes, num_bytes: int) -> Path:
    filters = "/Filter[/FlateDecode/FlateDecode]"
    return documents.pdf_with_an_odd_page(path, _deflated(unit, num_bytes, 2), filters=filters)


def _image(path: Path, entries: str, data: bytes) -> Path:
    return documents.pdf_with_an_odd_page(path, DRAW, (f"{IMAGE}{entries}", data), entries=USES_8)


def _flate(path: Path) -> Path:
    entries = "/BitsPerComponent 1/ColorSpace/DeviceGray/Filter[/FlateDecode/FlateDecode]"
    return _image(path, entries, _deflated(bytes(64), SIDE * SIDE // 8 + (1 << 20), 2))


def _fax(path: Path) -> Path:
    parameters = f"/DecodeParms<</K -1/Columns {SIDE}/Rows {SIDE}>>"
    entries = f"/BitsPerComponent 1/ColorSpace/DeviceGray/Filter/CCITTFaxDecode{parameters}"
    return _image(path, entries, b"\xff" * (SIDE // 8 + 1))


def _jpx(path: Path) -> Path:
    """A code stream whose one tile claims to be as large as the picture claims to be."""
    made = io.BytesIO()
    Image.new("L", (64, 64), 100).save(made, "JPEG2000")
    data = bytearray(made.getvalue())
    header, size = data.index(b"ihdr"), data.index(b"\xff\x51")
    for at in (header + 4, size + 6, size + 22):
        data[at : at + 8] = SIDE.to_bytes(4, "big") * 2
    return _image(path, "/Filter/JPXDecode", bytes(data))


def _laughs(path: Path) -> Path:
    """Forms that draw ten others each, twelve times over, and nothing at the end."""
    forms = [
        (f"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X {9 + level} 0 R>>>>", b"/X Do " * 10)
        for level in range(12)
    ]
    last = ("/Type/XObject/Subtype/Form/BBox[0 0 9 9]", b"")
    return documents.pdf_with_an_odd_page(path, b"/X Do", *forms, last, entries=USES_8)


BOMBS: dict[str, tuple[Callable[[Path], Path], set[str | None]]] = {
    "a_flate_image": (_flate, {None, "page_timeout"}),
    "a_fax_image": (_fax, {None, "page_timeout"}),
    "a_jpeg_2000_image": (_jpx, {"broken_page", "out_of_memory"}),
    "a_string_without_end": (lambda path: _content(path, b"(", 1 << 29), {"out_of_memory"}),
    "lines_without_end": (lambda path: _content(path, b"0 0 m 9 9 l ", 1 << 29), {"out_of_memory", "page_timeout"}),
    "nested_states": (lambda path: _content(path, b"q ", 1 << 28), {"broken_page"}),
    "forms_within_forms": (_laughs, {"page_timeout", "out_of_memory"}),
}
"""How to make it, and what may become of the page."""


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_in_a_pdf_costs_its_own_page_at_most(name: str, examiner: Examiner, tmp_path: Path) -> None:
    make, expected = BOMBS[name]
    path = make(tmp_path / "bomb.pdf")
    assert path.stat().st_size < 200_000
    pages = examiner.examine(path).answer["pages"]
    assert [index for index, *_ in pages] == [0, 1, 2]
    assert [code for _, code, _, _ in (pages[0], pages[2])] == [None, None]
    assert pages[1][1] in expected, pages[1]


def test_a_picture_that_inflates_beyond_the_memory_is_out_of_memory(examiner: Examiner, tmp_path: Path) -> None:
    Image.new("L", (19_900, 19_900), 255).save(tmp_path / "a.png")
    seen = examiner.examine(tmp_path / "a.png")
    assert seen.died is not None, "it was tried alone before it failed"
    assert [code for _, code, _, _ in seen.answer["pages"]] == ["out_of_memory"]


def test_a_tiff_with_all_the_frames_it_can_number_is_read_or_told_within_the_time(
    examiner: Examiner, tmp_path: Path
) -> None:
    answer = examiner.examine(documents.tiff_chain(tmp_path / "a.tif", 65_535)).answer
    assert answer.get("failure", ["page_timeout"])[0] == "page_timeout"
    assert "failure" in answer or answer["count"] == 65_535
