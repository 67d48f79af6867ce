"""Pages a second of one core: Pagemill's rasterizing against what people write with other libraries, in turn.

    python benchmarks/rasterize.py [--pages N] [--rounds N]

A4 at 200 dpi, made here: text, a report, gray and colour scans (JPEG), a fax (CCITT G4). Ours is `render_pages`;
PyMuPDF's is `get_pixmap` to an array in RGB, pdf2image's `convert_from_path` (poppler) and pypdfium2's
`render().to_numpy()`, as their manuals show it. All of them copy each raster into a buffer that stands for shared
memory, and begin with MuPDF's store empty. Peers that are not installed are left out. Figures are medians over rounds
in which each has its turn.
"""

from __future__ import annotations

import argparse
import io
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pymupdf
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from pipeline.document import Source, uri_of_path
from pipeline.page import Raster, RasterRule
from pipeline.raster import probe, render_pages

DPI = 200
SIZE = (1654, 2339)
RULE = RasterRule(DPI, 10**8)
WORDS = "the river rose in the night and took the lower bridge with it before anyone had thought to close the road "


def _scan(mode: str, seed: int) -> Image.Image:
    dice = np.random.default_rng(seed)
    image = Image.new("L", SIZE, 244)
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(26)
    for row in range(52):
        draw.text((150, 150 + 40 * row), (WORDS * 2)[row % 60 : row % 60 + 95], font=font, fill=30)
    pixels = np.asarray(image).astype(np.int16) + dice.normal(0, 4, SIZE[::-1]).astype(np.int16)
    gray = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
    if mode == "1":
        return gray.convert("1", dither=Image.Dither.NONE)
    return (
        gray
        if mode == "L"
        else Image.merge("RGB", (gray, gray.point(lambda v: v * 0.97), gray.point(lambda v: v * 0.9)))
    )


def _scans(path: Path, mode: str, num_pages: int) -> None:
    if mode == "1":  # Pillow writes these as CCITT G4; MuPDF would store the bits as they are
        first, *others = (_scan(mode, number) for number in range(num_pages))
        first.save(path, "PDF", resolution=DPI, save_all=True, append_images=others)
        return
    document = pymupdf.open()
    for number in range(num_pages):
        file = io.BytesIO()
        _scan(mode, number).save(file, "JPEG", quality=85)
        page = document.new_page(width=595, height=842)
        page.insert_image(page.rect, stream=file.getvalue(), keep_proportion=False)
    document.save(path)


def _texts(path: Path, num_pages: int, *, is_report: bool) -> None:
    document = pymupdf.open()
    for number in range(num_pages):
        page = document.new_page(width=595, height=842)
        for row in range(30 if is_report else 52):
            page.insert_text((54, 60 + 14 * row), f"{number} {(WORDS * 2)[row % 60 : row % 60 + 90]}", fontsize=10)
        if is_report:
            for bar in range(20):
                page.draw_rect(
                    (60 + 24 * bar, 780 - 12 * (bar % 9), 78 + 24 * bar, 790), fill=(0.2, 0.4, 0.1 + bar / 30)
                )
            file = io.BytesIO()
            _scan("RGB", number).resize((600, 400)).save(file, "JPEG")
            page.insert_image((60, 500, 300, 660), stream=file.getvalue())
    document.save(path)


BUFFER = np.ones(3 * (SIZE[0] + 10) * (SIZE[1] + 10), np.uint8)


def _keep(pixels: NDArray[Any]) -> None:
    BUFFER[: pixels.size] = pixels.reshape(-1)


def ours(path: Path) -> int:
    """As the pipeline does it."""
    document = probe(Source(uri_of_path(str(path)))).document
    for made in render_pages(document, 0, document.page_count or 0, RULE):
        assert isinstance(made, Raster), made
        _keep(made.pixels)
    return document.page_count or 0


def mupdf(path: Path) -> int:
    """PyMuPDF as its manual has it."""
    with pymupdf.open(path) as document:
        for page in document:
            drawn = page.get_pixmap(dpi=DPI)
            _keep(np.frombuffer(drawn.samples, np.uint8))
        return len(document)


def poppler(path: Path) -> int:
    """pdf2image as its manual has it."""
    from pdf2image import convert_from_path

    pages = convert_from_path(str(path), dpi=DPI, thread_count=1)
    for page in pages:
        _keep(np.asarray(page))
    return len(pages)


def pdfium(path: Path) -> int:
    """pypdfium2 as its manual has it."""
    import pypdfium2

    document = pypdfium2.PdfDocument(str(path))
    for page in document:
        _keep(page.render(scale=DPI / 72).to_numpy())
    return len(document)


PEERS: dict[str, Callable[[Path], int]] = {"get_pixmap": mupdf, "pdf2image": poppler, "pypdfium2": pdfium}


def _installed() -> dict[str, Callable[[Path], int]]:
    from importlib.util import find_spec

    return {n: f for n, f in PEERS.items() if n == "get_pixmap" or find_spec(n)}


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
    with tempfile.TemporaryDirectory(prefix="pagemill-bench-") as folder:
        files = {
            "text": Path(folder, "text.pdf"),
            "report": Path(folder, "report.pdf"),
            "gray scan (JPEG)": Path(folder, "gray.pdf"),
            "colour scan (JPEG)": Path(folder, "colour.pdf"),
            "fax (CCITT G4)": Path(folder, "fax.pdf"),
        }
        _texts(files["text"], asked.pages, is_report=False)
        _texts(files["report"], asked.pages, is_report=True)
        for name, mode in (("gray scan (JPEG)", "L"), ("colour scan (JPEG)", "RGB"), ("fax (CCITT G4)", "1")):
            _scans(files[name], mode, asked.pages)
        peers = _installed()
        print("| pages | ours, pages/s | " + " | ".join(f"against {name}" for name in peers) + " |")
        print("|---|---|" + "---|" * len(peers))
        for name, path in files.items():
            taken: dict[str, list[float]] = {"ours": [], **{peer: [] for peer in peers}}
            for _ in range(asked.rounds):
                for who, run in {"ours": ours, **peers}.items():
                    pymupdf.TOOLS.store_shrink(100)  # what the one before has left there is freed in nobody's time
                    started = time.perf_counter()
                    run(path)
                    taken[who].append(time.perf_counter() - started)
            middle = {who: statistics.median(times) for who, times in taken.items()}
            ratios = " | ".join(f"{middle[peer] / middle['ours']:.2f}" for peer in peers)
            print(f"| {name} | {asked.pages / middle['ours']:.1f} | {ratios} |", flush=True)


if __name__ == "__main__":
    main()
