"""Pages that are one scan: decoded and not drawn, with nothing to tell it by but the time it takes."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pymupdf
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageCms

from pipeline.page import Raster, RasterRule
from pipeline.raster import mupdf
from tests import documents

from .rasters import AS_IS, raster

WIDTH, HEIGHT = 160, 220
FULL = "160 0 0 220 0 0"
CLOSE = 2.5
"""Mean difference, of 255, between two decoders and two ways to make a picture smaller."""


@pytest.fixture(autouse=True)
def _small_pages_are_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scans here are small, so that they are made fast; how large a small one is taken to be has its own test."""
    monkeypatch.setattr("pipeline.page.SMALL_SCAN_PT2", 0.0)


def _tones(mode: str = "L") -> Image.Image:
    """Smooth shades with shapes in them, no corner like another."""
    down, across = np.mgrid[0:HEIGHT, 0:WIDTH]
    gray = (60 + across / WIDTH * 120 + down / HEIGHT * 60).astype(np.uint8)
    gray[20:60, 15:70], gray[150:200, 100:110] = 10, 250
    if mode == "L":
        return Image.fromarray(gray)
    if mode == "1":
        return Image.fromarray(gray).convert("1", dither=Image.Dither.NONE)
    return Image.merge("RGB", [Image.fromarray(part) for part in (gray, gray // 2, 255 - gray)])


def _jpeg(image: Image.Image, **how: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=95, subsampling=0, **how)
    return file.getvalue()


def _fax(image: Image.Image) -> bytes:
    """One strip of CCITT group 4, as it lies in a TIFF."""
    file = io.BytesIO()
    image.save(file, "TIFF", compression="group4", tiffinfo={278: image.height})
    tiff = Image.open(io.BytesIO(file.getvalue()))
    (start,), (length,) = tiff.tag_v2[273], tiff.tag_v2[279]  # type: ignore[attr-defined]
    return file.getvalue()[start : start + length]


KINDS: dict[str, Callable[[], tuple[str, bytes]]] = {
    "gray JPEG": lambda: ("/ColorSpace/DeviceGray/BitsPerComponent 8/Filter/DCTDecode", _jpeg(_tones())),
    "colour JPEG": lambda: ("/ColorSpace/DeviceRGB/BitsPerComponent 8/Filter/DCTDecode", _jpeg(_tones("RGB"))),
    "colour JPEG, progressive": lambda: (
        "/ColorSpace/DeviceRGB/BitsPerComponent 8/Filter/DCTDecode",
        _jpeg(_tones("RGB"), progressive=True),
    ),
    "fax": lambda: (
        (
            "/ColorSpace/DeviceGray/BitsPerComponent 1/Filter/CCITTFaxDecode"
            f"/DecodeParms<</K -1/Columns {WIDTH}/Rows {HEIGHT}>>"
        ),
        _fax(_tones("1")),
    ),
    "bits": lambda: (
        "/ColorSpace/DeviceGray/BitsPerComponent 1/Filter/FlateDecode",
        zlib.compress(_tones("1").tobytes()),
    ),
    "gray": lambda: (
        "/ColorSpace/DeviceGray/BitsPerComponent 8/Filter/FlateDecode",
        zlib.compress(_tones().tobytes()),
    ),
    "colour": lambda: (
        "/ColorSpace/DeviceRGB/BitsPerComponent 8/Filter/FlateDecode",
        zlib.compress(_tones("RGB").tobytes()),
    ),
}


def _page(
    path: Path,
    entries: str,
    data: bytes,
    *objects: tuple[str, bytes],
    matrix: str = FULL,
    page: str = "",
    also: str = "",
) -> Path:
    """A page that draws one picture; object 6 and those after it are what its entries may refer to."""
    return documents.pdf_of(
        path,
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 {WIDTH} {HEIGHT}]/Contents 4 0 R"
        f"/Resources<</XObject<</I 5 0 R>>>>{page}>>",
        ("", f"q {matrix} cm /I Do Q {also}".encode()),
        (f"/Type/XObject/Subtype/Image/Width {WIDTH}/Height {HEIGHT}{entries}", data),
        *objects,
    )


@pytest.fixture
def was_drawn(monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Tells whether MuPDF has drawn the page since this was asked last."""
    seen: list[bool] = []
    draw = mupdf._draw

    def noted(*given: Any) -> NDArray[Any]:
        seen.append(True)
        return draw(*given)

    def asked() -> bool:
        found = bool(seen)
        seen.clear()
        return found

    monkeypatch.setattr(mupdf, "_draw", noted)
    return asked


def _drawn(path: Path, made: Raster) -> NDArray[Any]:
    """The same page by MuPDF's own drawing, without any of ours."""
    with pymupdf.open(path) as document:
        page = document[0]
        height_px, width_px = made.pixels.shape[:2]
        matrix = pymupdf.Matrix(width_px / page.rect.width, height_px / page.rect.height)
        space = pymupdf.csGRAY if made.pixels.ndim == 2 else pymupdf.csRGB
        drawn = page.get_pixmap(matrix=matrix, colorspace=space)
        shape = (drawn.height, drawn.width, drawn.n) if drawn.n == 3 else (drawn.height, drawn.width)
        return np.frombuffer(drawn.samples, np.uint8).reshape(shape)


def _difference(path: Path, made: Raster) -> float:
    drawn = _drawn(path, made).astype(int)
    assert drawn.shape == made.pixels.shape
    return float(np.abs(drawn - made.pixels).mean())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dpi", [72, 50, 31])
def test_a_scan_of_every_plain_kind_looks_as_mupdf_draws_it(kind: str, dpi: int, tmp_path: Path, was_drawn):
    path = _page(tmp_path / "a.pdf", *KINDS[kind]())
    made = raster(path, replace(AS_IS, dpi=dpi))
    assert was_drawn() == (dpi == 31 and "JPEG" not in kind), "MuPDF reduces in less memory what is not a JPEG"
    assert _difference(path, made) < CLOSE
    assert made.sized.channels == (3 if "colour" in kind else 1)
    assert made.sized.warning is None


MATRICES = {
    "mirrored": "-160 0 0 220 160 0",
    "upside down": "160 0 0 -220 0 220",
    "by half a turn": "-160 0 0 -220 160 220",
    "cropped": "170 0 0 230 -5 -6",
    "moved": "158 0 0 217 1.3 1.6",
}
QUARTERS = {"left": "0 160 -220 0 220 0", "right": "0 -160 220 0 0 160", "mirrored": "0 160 220 0 0 0"}


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize("kind", ["gray JPEG", "colour JPEG", "bits"])
@pytest.mark.parametrize("matrix", MATRICES)
def test_a_scan_that_is_turned_mirrored_or_cropped_stands_as_mupdf_draws_it(
    matrix: str, kind: str, rotation: int, tmp_path: Path, was_drawn
):
    path = _page(tmp_path / "a.pdf", *KINDS[kind](), matrix=MATRICES[matrix], page=f"/Rotate {rotation}")
    made = raster(path, replace(AS_IS, dpi=60))
    assert not was_drawn()
    assert _difference(path, made) < CLOSE
    assert made.sized.rotation == rotation


@pytest.mark.parametrize("rotation", [0, 90])
@pytest.mark.parametrize("matrix", QUARTERS)
def test_a_scan_that_its_matrix_turns_by_a_quarter_stands_as_mupdf_draws_it(
    matrix: str, rotation: int, tmp_path: Path, was_drawn
):
    box = f"/MediaBox[0 0 {HEIGHT} {WIDTH}]/Rotate {rotation}"
    path = _page(tmp_path / "a.pdf", *KINDS["colour JPEG"](), matrix=QUARTERS[matrix], page=box)
    made = raster(path, replace(AS_IS, dpi=60))
    assert not was_drawn()
    assert _difference(path, made) < CLOSE


@pytest.mark.parametrize("matrix", ["159 0 0 219 0.5 0.5", "160 0 0 220 0.4 0", "161 0 0 219 -0.5 0.5"])
def test_a_scan_a_pixel_larger_or_smaller_than_its_place_is_moved_by_no_more(matrix: str, tmp_path: Path):
    path = _page(tmp_path / "a.pdf", *KINDS["gray JPEG"](), matrix=matrix)
    assert _difference(path, raster(path)) < 2 * CLOSE


def test_the_box_and_the_unit_of_the_page_move_the_scan_with_it(tmp_path: Path, was_drawn):
    page = "/MediaBox[-20 30 140 250]/CropBox[-18 35 140 250]/UserUnit 1.2"
    path = _page(tmp_path / "a.pdf", *KINDS["colour JPEG"](), matrix="160 0 0 220 -20 30", page=page)
    made = raster(path, replace(AS_IS, dpi=45))
    assert not was_drawn()
    assert _difference(path, made) < CLOSE


def test_a_clip_along_the_edges_of_the_scan_takes_nothing_away(tmp_path: Path, was_drawn):
    path = _page(tmp_path / "a.pdf", *KINDS["gray JPEG"](), matrix=f"0 0 160 220 re W n {FULL}")
    made = raster(path, replace(AS_IS, dpi=60))
    assert not was_drawn()
    assert _difference(path, made) < CLOSE


_SWAPPED = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
_SWAPPED = _SWAPPED.replace(b"rXYZ", b"????").replace(b"gXYZ", b"rXYZ").replace(b"????", b"gXYZ")
_SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
_MASK = (
    f"/Type/XObject/Subtype/Image/Width {WIDTH}/Height {HEIGHT}/ColorSpace/DeviceGray/BitsPerComponent 8",
    bytes(range(WIDTH)) * HEIGHT,
)
_STENCIL = (
    f"/Type/XObject/Subtype/Image/Width {WIDTH}/Height {HEIGHT}/ImageMask true/BitsPerComponent 1",
    b"\xf0" * (WIDTH // 8 * HEIGHT),
)


def _cmyk() -> bytes:
    return _jpeg(_tones("RGB").convert("CMYK"))


UNUSUAL: dict[str, Callable[[Path], Path]] = {
    "inverted by Decode": lambda p: _page(p, KINDS["gray JPEG"]()[0] + "/Decode[1 0]", _jpeg(_tones())),
    "a soft mask": lambda p: _page(p, KINDS["colour JPEG"]()[0] + "/SMask 6 0 R", _jpeg(_tones("RGB")), _MASK),
    "a mask": lambda p: _page(p, KINDS["colour JPEG"]()[0] + "/Mask 6 0 R", _jpeg(_tones("RGB")), _STENCIL),
    "a colour that is see-through": lambda p: _page(p, KINDS["gray"]()[0] + "/Mask[0 90]", KINDS["gray"]()[1]),
    "a stencil": lambda p: _page(p, "/ImageMask true/BitsPerComponent 1", _STENCIL[1]),
    "CMYK": lambda p: _page(p, "/ColorSpace/DeviceCMYK/BitsPerComponent 8/Filter/DCTDecode", _cmyk()),
    "a palette": lambda p: _page(p, "/ColorSpace[/Indexed/DeviceRGB 1<ff000000ff00>]/BitsPerComponent 1", _STENCIL[1]),
    "another profile": lambda p: _page(
        p,
        "/ColorSpace[/ICCBased 6 0 R]/BitsPerComponent 8/Filter/DCTDecode",
        _jpeg(_tones("RGB")),
        ("/N 3", _SWAPPED),
    ),
    "what device colours stand for": lambda p: _page(
        p,
        KINDS["colour JPEG"]()[0],
        _jpeg(_tones("RGB")),
        ("/N 3", _SWAPPED),
        page="/Resources<</XObject<</I 5 0 R>>/ColorSpace<</DefaultRGB[/ICCBased 6 0 R]>>>>",
    ),
    "coded as RGB, says the PDF": lambda p: _page(
        p, KINDS["colour JPEG"]()[0] + "/DecodeParms<</ColorTransform 0>>", _jpeg(_tones("RGB"))
    ),
    "coded as RGB, says the file": lambda p: _page(p, KINDS["colour JPEG"]()[0], _jpeg(_tones("RGB"), keep_rgb=True)),
    "JPEG of another size": lambda p: _page(p, KINDS["gray JPEG"]()[0], _jpeg(_tones().resize((80, 110)))),
    "two pictures": lambda p: _page(p, *KINDS["gray JPEG"](), also="q 40 0 0 40 9 9 cm /I Do Q"),
    "turned by a little": lambda p: _page(p, *KINDS["gray JPEG"](), matrix="160 3 -3 220 0 0"),
    "see-through": lambda p: _page(
        p,
        *KINDS["gray JPEG"](),
        page="/Resources<</XObject<</I 5 0 R>>/ExtGState<</G<</ca 0.5>>>>>>",
        matrix=f"/G gs {FULL}",
    ),
    "a clip": lambda p: _page(p, *KINDS["gray JPEG"](), matrix=f"20 20 90 150 re W n {FULL}"),
    "a clip with a curve": lambda p: _page(
        p, *KINDS["gray JPEG"](), matrix=f"0 0 m 160 0 l 160 220 l 60 200 60 220 0 220 c W n {FULL}"
    ),
    "a line over it": lambda p: _page(p, *KINDS["gray JPEG"](), also="5 w 0 0 m 100 200 l S"),
    "mostly off the page": lambda p: _page(p, *KINDS["gray JPEG"](), matrix="320 0 0 440 -80 -100"),
}


@pytest.mark.parametrize("what", UNUSUAL)
def test_what_is_out_of_the_ordinary_is_left_to_mupdf(what: str, tmp_path: Path, was_drawn):
    path = UNUSUAL[what](tmp_path / "a.pdf")
    made = raster(path, replace(AS_IS, dpi=60))
    assert was_drawn()
    assert _difference(path, made) < 0.5
    assert made.sized.warning == ("renderer: padding truncated image" if what == "JPEG of another size" else None)


def test_a_scan_is_not_enlarged_by_us(tmp_path: Path, was_drawn):
    path = _page(tmp_path / "a.pdf", *KINDS["gray JPEG"]())
    made = raster(path, RasterRule(72, 10**8, min_pixels=100_000))
    assert was_drawn()
    assert _difference(path, made) < 0.5


def test_a_profile_of_the_screen_is_no_hindrance(tmp_path: Path, was_drawn):
    entries = "/ColorSpace[/ICCBased 6 0 R]/BitsPerComponent 8/Filter/DCTDecode"
    path = _page(tmp_path / "a.pdf", entries, _jpeg(_tones("RGB")), ("/N 3", _SRGB))
    made = raster(path, replace(AS_IS, dpi=60))
    assert not was_drawn()
    assert _difference(path, made) < CLOSE


def test_a_fax_that_is_inverted_by_decode_is_decoded_so(tmp_path: Path):
    entries, data = KINDS["fax"]()
    path = _page(tmp_path / "a.pdf", f"{entries}/Decode[1 0]", data)
    assert _difference(path, raster(path, replace(AS_IS, dpi=60))) < CLOSE


@pytest.mark.parametrize("kind", ["gray JPEG", "colour JPEG"])
def test_a_jpeg_that_is_cut_short_is_drawn_and_complained_of(kind: str, tmp_path: Path, was_drawn):
    entries, data = KINDS[kind]()
    path = _page(tmp_path / "a.pdf", entries, data[: len(data) * 2 // 3])
    made = raster(path)
    assert was_drawn()
    assert made.sized.warning == "renderer: premature end of file in jpeg"
    assert _difference(path, made) < 0.5


def test_a_fax_that_is_broken_is_complained_of_as_in_a_drawing(tmp_path: Path):
    entries, data = KINDS["fax"]()
    path = _page(tmp_path / "a.pdf", entries, data[: len(data) // 3] + b"\xa5" * 90)
    said = raster(path).sized.warning
    lined = _page(tmp_path / "b.pdf", entries, data[: len(data) // 3] + b"\xa5" * 90, also="0 0 m 1 1 l S")
    assert said == raster(lined).sized.warning


@pytest.mark.parametrize("rotation", [0, 90])
def test_jpegs_among_other_things_look_as_mupdf_decodes_them(rotation: int, tmp_path: Path):
    document = pymupdf.open()
    page = document.new_page(width=300, height=400)
    page.draw_rect((20, 20, 280, 300), fill=(0.1, 0.5, 0.3))
    page.insert_image((40, 40, 240, 250), stream=_jpeg(_tones("RGB").resize((480, 660))), keep_proportion=False)
    page.insert_image((150, 150, 290, 390), stream=_jpeg(_tones().resize((320, 440))), keep_proportion=False)
    page.insert_text((60, 100), "over it", fontsize=30)
    page.set_rotation(rotation)
    document.save(tmp_path / "a.pdf")
    made = raster(tmp_path / "a.pdf", replace(AS_IS, dpi=144))
    assert _difference(tmp_path / "a.pdf", made) < 0.5
    assert np.array_equal(made.pixels, raster(tmp_path / "a.pdf", replace(AS_IS, dpi=144)).pixels)


def _gray_in_rgb(spread: int) -> Image.Image:
    gray = np.asarray(_tones()).copy()
    other = gray.copy()
    other[100, 77] = max(0, int(other[100, 77]) - spread)
    return Image.merge("RGB", [Image.fromarray(part) for part in (gray, gray, other)])


@pytest.mark.parametrize(("spread", "channels"), [(0, 1), (5, 1), (6, 3)])
def test_a_page_in_rgb_without_a_colour_has_one_channel(spread: int, channels: int, tmp_path: Path):
    image = _gray_in_rgb(spread)
    entries = "/ColorSpace/DeviceRGB/BitsPerComponent 8/Filter/FlateDecode"
    data = zlib.compress(image.tobytes())
    paths = [
        _page(tmp_path / "a.pdf", entries, data),
        _page(tmp_path / "b.pdf", entries, data, also="0 g 5 w 0 0 m 50 50 l S"),
        tmp_path / "c.png",
    ]
    image.save(paths[-1])
    for path in paths:
        made = raster(path)
        assert (made.sized.channels, made.pixels.ndim) == ((1, 2) if channels == 1 else (3, 3)), path.name


def test_a_raster_without_colour_is_gray_as_mupdf_makes_it_gray(tmp_path: Path):
    data = zlib.compress(_gray_in_rgb(0).tobytes())
    path = _page(tmp_path / "a.pdf", "/ColorSpace/DeviceRGB/BitsPerComponent 8/Filter/FlateDecode", data)
    assert np.abs(raster(path).pixels.astype(int) - np.asarray(_tones())).max() <= 1
