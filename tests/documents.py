"""Small documents made on the spot, each named by what is special about it."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pymupdf
from PIL import Image, ImageDraw

READ_EVERY_PAGE: dict[str, Any] = {"text_layer": "never", "orientation": "keep", "read_blank": True}
"""Options of a job in which every page goes to the engine as it is, whatever is on it."""

EVERY_PAGE_READ = ("--text-layer", "never", "--orientation", "keep", "--read-blank")
"""The same as flags."""


def pdf(path: Path, num_pages: int, *, width_pt: float = 200, height_pt: float = 120) -> Path:
    """A PDF whose pages say which they are."""
    document = pymupdf.open()
    for index in range(num_pages):
        page = document.new_page(width=width_pt, height=height_pt)
        page.insert_text((20, 60), f"page {index + 1} of {path.name}", fontsize=12)
    document.save(path)
    return path


def png(path: Path, text: str, size: tuple[int, int] = (240, 80)) -> Path:
    """A picture of a line of text."""
    image = Image.new("L", size, "white")
    ImageDraw.Draw(image).text((10, 30), text, fill="black")
    image.save(path)
    return path


def tiff(path: Path, num_frames: int) -> Path:
    """A TIFF of which every frame is a page."""
    frames = [Image.new("L", (60 + 10 * i, 40), 255 - i) for i in range(num_frames)]
    frames[0].save(path, save_all=True, append_images=frames[1:])
    return path


def tiff_chain(path: Path, num_frames: int, back_to: int | None = None) -> Path:
    """Frames of one pixel, without Pillow; after the last comes the one of this number again, if any."""
    tags = ((256, 3, 1), (257, 3, 1), (258, 3, 8), (259, 3, 1), (262, 3, 1), (273, 4, 8), (278, 3, 1), (279, 4, 1))
    entries = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in tags)
    frame = struct.pack("<H", len(tags)) + entries
    after = [12 + (number + 1) * (len(frame) + 4) for number in range(num_frames)]
    after[-1] = 0 if back_to is None else 12 + back_to * (len(frame) + 4)
    path.write_bytes(
        b"II*\0" + struct.pack("<I", 12) + bytes(4) + b"".join(frame + struct.pack("<I", a) for a in after)
    )
    return path


def encrypted_pdf(path: Path, *, owner_only: bool = False) -> Path:
    """A PDF that asks for a password, or one that only its owner may change."""
    document = pymupdf.open()
    document.new_page().insert_text((20, 60), "behind a lock")
    document.save(path, encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="" if owner_only else "user", owner_pw="owner")
    return path


def pdf_of(path: Path, *objects: str | tuple[str, bytes], trailer: str = "<</Root 1 0 R>>") -> Path:
    """A PDF of these objects, numbered from 1, each a text or a dictionary's entries and a stream; without a table."""
    parts = [b"%PDF-1.7\n"]
    for number, made in enumerate(objects, 1):
        entries, stream = made if isinstance(made, tuple) else (None, b"")
        if entries is not None:
            data = f"<<{entries}/Length {len(stream)}>>stream\n".encode("latin-1") + stream + b"\nendstream"
        else:
            data = str(made).encode("latin-1")
        parts.append(b"%d 0 obj %b endobj\n" % (number, data))
    path.write_bytes(b"".join((*parts, f"trailer {trailer}\n".encode("latin-1"))))
    return path


MARK = b"0 0 40 40 re f\n"
"""What a page draws that is as it should be: a black square in its lower left corner."""


def pdf_with_an_odd_page(
    path: Path, content: bytes, *more: str | tuple[str, bytes], entries: str = "", filters: str = ""
) -> Path:
    """Three pages of 200 by 120 points: a good one, an odd one, a good one.

    `entries` are the odd page's own, `filters` its content stream's; `more` are objects from number 8 on.
    """
    page = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 120]"
    odd = f"{page}/Contents 7 0 R {entries}>>"
    return pdf_of(
        path,
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R 4 0 R 5 0 R]/Count 3>>",
        f"{page}/Contents 6 0 R>>",
        odd,
        f"{page}/Contents 6 0 R>>",
        ("", MARK),
        (filters, content),
        *more,
    )


def zip_of(path: Path, members: Mapping[str, bytes]) -> Path:
    """A ZIP archive of these files."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def strangers_folder(root: Path) -> Path:
    """What a folder of real life looks like: documents of several kinds, one of them twice, and rubbish among them."""
    (root / "sub folder").mkdir(parents=True)
    pdf(root / "a.pdf", 5)
    pdf(root / "sub folder" / "b #1 100%.PDF", 3, width_pt=300)
    (root / "sub folder" / "a again.pdf").write_bytes((root / "a.pdf").read_bytes())
    png(root / "c.png", "a picture")
    tiff(root / "d.tif", 3)
    encrypted_pdf(root / "locked.pdf")
    (root / "empty.pdf").write_bytes(b"")
    (root / "cut.pdf").write_bytes(b"%PDF-1.7\n1 0 obj\n<<")
    (root / "text.tif").write_text("this is no picture")
    zip_of(root / "notes.docx", {"[Content_Types].xml": b"<Types/>", "word/document.xml": b"<w/>"})
    (root / ".hidden.pdf").write_bytes(b"%PDF-1.7")
    return root


ROWS_OF_STRANGERS_FOLDER = 5 + 3 + 5 + 1 + 3 + 5
"""Pages, and one row for each of the five files that have none."""
