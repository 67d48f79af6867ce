"""Broken documents of our own making, each as a writer of its file and what a run is to say of it."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from tests import documents
from tests.documents import MARK, pdf_of, pdf_with_an_odd_page

PAGE = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 120]"
ROOT = "<</Type/Catalog/Pages 2 0 R>>"


@dataclass(frozen=True, slots=True)
class Broken:
    """How to make a file, and the codes of its rows: one for each page (None is `ok`), or the document's own."""

    make: Callable[[Path], object]
    codes: tuple[str | None, ...]


def _cut(path: Path, share: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])


def _pdf_cut_in_the_middle(path: Path) -> None:
    """Pages that are whole, and one whose content is cut; the tree of pages stands first."""
    noise = os.urandom(2000).hex().encode()
    pdf_of(
        path,
        ROOT,
        "<</Type/Pages/Kids[3 0 R 4 0 R]/Count 2>>",
        f"{PAGE}/Contents 5 0 R>>",
        f"{PAGE}/Contents 6 0 R>>",
        ("", MARK),
        ("", MARK + b"% " + noise),
    )
    _cut(path, 0.6)


def _wrong_table(path: Path) -> None:
    documents.pdf(path, 2)
    data = path.read_bytes()
    at = data.rindex(b"startxref")
    path.write_bytes(data[:at] + b"startxref\n17\n%%EOF\n")


def _broken_frame(path: Path) -> None:
    frames = [Image.linear_gradient("L").resize((60, 40 + n)) for n in range(3)]
    frames[0].save(path, save_all=True, append_images=frames[1:], compression="tiff_lzw")
    with Image.open(path) as image:
        image.seek(1)
        start = image.tag_v2[273][0]
    data = bytearray(path.read_bytes())
    data[start : start + 40] = b"\xff" * 40
    path.write_bytes(data)


def _picture_cut(path: Path) -> None:
    Image.effect_noise((200, 150), 60).save(path)
    _cut(path, 0.5)


def _bmp_that_claims(path: Path) -> None:
    Image.new("L", (4, 4)).save(path)
    data = bytearray(path.read_bytes())
    data[18:26] = struct.pack("<ii", 100_000, 100_000)
    path.write_bytes(data)


FILES: dict[str, Broken] = {
    "cut_in_the_middle.pdf": Broken(_pdf_cut_in_the_middle, (None, None)),
    "cyclic_tree.pdf": Broken(
        lambda path: pdf_of(
            path, ROOT, "<</Type/Pages/Kids[3 0 R 2 0 R 4 0 R]/Count 3>>", f"{PAGE}>>", "<</Type/Pages/Kids[2 0 R]>>"
        ),
        (None, "broken_page", "broken_page"),
    ),
    "wrong_table.pdf": Broken(_wrong_table, (None, None)),
    "broken_stream.pdf": Broken(
        lambda path: pdf_with_an_odd_page(path, b"no zlib data", filters="/Filter/FlateDecode"),
        (None, "broken_page", None),
    ),
    "too_many_pages_told.pdf": Broken(
        lambda path: pdf_of(path, ROOT, "<</Type/Pages/Kids[3 0 R]/Count 2000000>>", f"{PAGE}>>"),
        (None,),
    ),
    "page_of_no_size.pdf": Broken(
        lambda path: pdf_of(
            path,
            ROOT,
            "<</Type/Pages/Kids[3 0 R 4 0 R]/Count 2>>",
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 0 0]>>",
            f"{PAGE}>>",
        ),
        (None, None),
    ),
    "header_alone.pdf": Broken(lambda path: path.write_bytes(b"%PDF-1.7\n"), ("broken_document",)),
    "cut.png": Broken(_picture_cut, ("broken_page",)),
    "cut.jpg": Broken(_picture_cut, ("broken_page",)),
    "one_bad_frame.tif": Broken(_broken_frame, (None, "broken_page", None)),
    "frames_in_a_circle.tif": Broken(lambda path: documents.tiff_chain(path, 3, back_to=1), (None, None, None)),
    "claims_much.bmp": Broken(_bmp_that_claims, ("page_too_large",)),
    "nothing.pdf": Broken(lambda path: path.write_bytes(b""), ("empty_file",)),
    "dangling.pdf": Broken(lambda path: path.symlink_to("nowhere.pdf"), ("not_found",)),
    "circle.pdf": Broken(lambda path: path.symlink_to(path.name), ("unreadable",)),
    "pipe.pdf": Broken(os.mkfifo, ("not_a_file",)),
    "good.pdf": Broken(lambda path: documents.pdf(path, 2), (None, None)),
}
"""Of a PDF without a size MuPDF makes a page of letter size, and of one cut the pages that are there."""


def broken_folder(root: Path) -> dict[str, tuple[str | None, ...]]:
    """All of them in one folder, beside a folder that is named like a document; the codes of each file's rows."""
    root.mkdir()
    for name, broken in FILES.items():
        broken.make(root / name)
    (root / "folder.pdf").mkdir()
    documents.pdf(root / "folder.pdf" / "inside.pdf", 1)
    return {**{name: broken.codes for name, broken in FILES.items()}, "folder.pdf/inside.pdf": (None,)}
