"""Small documents made on the spot, each named by what is special about it."""

from __future__ import annotations

from pathlib import Path

import pymupdf
from PIL import Image, ImageDraw


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


def encrypted_pdf(path: Path) -> Path:
    """A PDF that asks for a password."""
    document = pymupdf.open()
    document.new_page()
    document.save(path, encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="user", owner_pw="owner")
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
    (root / "notes.docx").write_bytes(b"PK\x03\x04 not an XPS package")
    (root / ".hidden.pdf").write_bytes(b"%PDF-1.7")
    return root


ROWS_OF_STRANGERS_FOLDER = 5 + 3 + 5 + 1 + 3 + 5
"""Pages, and one row for each of the five files that have none."""
