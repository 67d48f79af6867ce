"""Small files for the tests of rasterizing, and a short way from a file to its rasters."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pymupdf
from numpy.typing import NDArray
from PIL import Image

from pipeline.document import Source, uri_of_path
from pipeline.page import Page, Raster, RasterRule, SizedPage
from pipeline.raster import probe, render_pages, size_pages
from pipeline.result import Failure, Unrendered

AS_IS = RasterRule(dpi=72, max_pixels=10**8)
"""One pixel a point, and images as they are."""

BLACK, RED, WHITE = (0, 0, 0), (1, 0, 0), (1, 1, 1)


def failure_of(path: Path) -> Failure | None:
    """Why a file cannot be opened, if it cannot."""
    return probe(Source(uri_of_path(str(path)))).failure


def rendered(path: Path, rule: RasterRule = AS_IS) -> list[Raster | Unrendered]:
    """All pages of a file that opens."""
    found = probe(Source(uri_of_path(str(path))))
    assert found.failure is None, found.failure
    document = found.document
    return list(render_pages(document, 0, document.page_count or 0, rule))


def sized(path: Path, rule: RasterRule = AS_IS) -> list[SizedPage | Unrendered]:
    """The measures of all pages of a file that opens."""
    return list(size_pages(probe(Source(uri_of_path(str(path)))).document, rule))


def rasters(path: Path, rule: RasterRule = AS_IS) -> list[Raster]:
    """All pages of a file of which none may fail."""
    found = rendered(path, rule)
    assert all(isinstance(item, Raster) for item in found), found
    return [item for item in found if isinstance(item, Raster)]


def raster(path: Path, rule: RasterRule = AS_IS) -> Raster:
    """The only page of a file."""
    (only,) = rasters(path, rule)
    return only


def codes(path: Path) -> list[str | None]:
    """The code of each page's failure, None for a page with pixels."""
    return [None if isinstance(item, Raster) else str(item.failure.code) for item in rendered(path)]


def picture(height_px: int = 20, width_px: int = 30) -> NDArray[np.uint8]:
    """Gray paper of which every corner has another tone, so that no turn and no mirror leaves it as it was."""
    pixels = np.full((height_px, width_px), 255, np.uint8)
    pixels[: height_px // 2, : width_px // 2] = 0
    pixels[: height_px // 2, width_px // 2 :] = 120
    return pixels


def pdf(path: Path, *pages: tuple[float, float, tuple[float, float, float]]) -> Path:
    """A PDF of pages of this width and height in points, each with its left upper quarter in this colour."""
    document = pymupdf.open()
    for width_pt, height_pt, colour in pages:
        page = document.new_page(width=width_pt, height=height_pt)
        page.draw_rect((0, 0, width_pt / 2, height_pt / 2), color=None, fill=colour)
    document.save(path)
    return path


def raw_pdf(path: Path, *objects: str) -> Path:
    """A PDF of objects numbered from 1, without a table of them: MuPDF finds them by reading through."""
    body = "".join(f"{number} 0 obj {text} endobj\n" for number, text in enumerate(objects, 1))
    path.write_bytes(f"%PDF-1.4\n{body}trailer <</Root 1 0 R>>\n".encode("latin-1"))
    return path


def pdf_of_pages(path: Path, *pages: str) -> Path:
    """A PDF whose page dictionaries hold these entries."""
    kids = " ".join(f"{number} 0 R" for number in range(3, 3 + len(pages)))
    tree = f"<</Type/Pages/Kids[{kids}]/Count {len(pages)}>>"
    dictionaries = [f"<</Type/Page/Parent 2 0 R {entries}>>" for entries in pages]
    return raw_pdf(path, "<</Type/Catalog/Pages 2 0 R>>", tree, *dictionaries)


_XPS = "http://schemas.microsoft.com/xps/2005/06"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_XPS_TYPES = {
    "fdseq": "vnd.ms-package.xps-fixeddocumentsequence+xml",
    "fdoc": "vnd.ms-package.xps-fixeddocument+xml",
    "fpage": "vnd.ms-package.xps-fixedpage+xml",
    "rels": "vnd.openxmlformats-package.relationships+xml",
}


def xps(path: Path, width: int, height: int, *also: str) -> Path:
    """The smallest XPS: one page, in units of 1/96 inch, its left upper quarter black; and pages that are `also`."""
    types = "".join(f'<Default Extension="{e}" ContentType="application/{t}"/>' for e, t in _XPS_TYPES.items())
    kind = f"{_XPS}/fixedrepresentation"
    start = f'<Relationship Type="{kind}" Target="/seq.fdseq" Id="r1"/>'
    quarter = f"M 0,0 L {width / 2},0 {width / 2},{height / 2} 0,{height / 2} Z"
    document = '<DocumentReference Source="/d.fdoc"/>'
    pages = "".join(f'<PageContent Source="/{n}.fpage"/>' for n in range(1, 2 + len(also)))
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">{types}</Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">{start}</Relationships>',
        "seq.fdseq": f'<FixedDocumentSequence xmlns="{_XPS}">{document}</FixedDocumentSequence>',
        "d.fdoc": f'<FixedDocument xmlns="{_XPS}">{pages}</FixedDocument>',
        "1.fpage": f'<FixedPage Width="{width}" Height="{height}" xml:lang="en" xmlns="{_XPS}">'
        f'<Path Data="{quarter}" Fill="#FF000000"/></FixedPage>',
    }
    parts |= {f"{number}.fpage": text for number, text in enumerate(also, 2)}
    with zipfile.ZipFile(path, "w") as package:
        for name, text in parts.items():
            package.writestr(name, text)
    return path


def png_that_claims(path: Path, width_px: int, height_px: int) -> Path:
    """A PNG whose header tells of a large picture that is not there."""
    Image.new("L", (1, 1)).save(path)
    data = bytearray(path.read_bytes())
    data[16:24] = width_px.to_bytes(4, "big") + height_px.to_bytes(4, "big")
    data[29:33] = _crc(bytes(data[12:29]))
    path.write_bytes(data)
    return path


def _crc(data: bytes) -> bytes:
    return zipfile.crc32(data).to_bytes(4, "big")


def a_page_of(path: Path) -> Page:
    """The first page of a file, as a reader is asked for it."""
    return Page(uri_of_path(str(path)), "", 0, 1)
