"""How many pages are turned upright: rotated copies of pages whose text says which way up they are.

    python benchmarks/orientation.py [PDF ...]

Pages of the PDFs with at least 80 letters, nine tenths of them upright, or by default every page of the sample
documents that is not blank, are drawn at 150 dpi, turned by 0, 90, 180 and 270 degrees, and shown to
`pipeline.raster.upright`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pymupdf
from numpy.typing import NDArray

from pipeline.document import Source, uri_of_path
from pipeline.page import Raster, RasterRule
from pipeline.raster import probe, render_pages
from pipeline.raster.upright import quarters_to_upright

SAMPLES = Path(__file__).resolve().parents[1] / "sample_docs"
DPI, MIN_LETTERS, MOST_PAGES = 150, 80, 10


def pages(path: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """The first upright pages of text of a PDF, as gray rasters."""
    with pymupdf.open(path) as document:
        for page in list(document)[:MOST_PAGES]:
            blocks = page.get_text("dict")["blocks"]
            spans = [
                (line["dir"], span["text"]) for b in blocks for line in b.get("lines", []) for span in line["spans"]
            ]
            upright = sum(len(text) for direction, text in spans if direction == (1.0, 0.0))
            if upright >= max(MIN_LETTERS, 0.9 * sum(len(text) for _, text in spans)):
                drawn = page.get_pixmap(dpi=DPI, colorspace="gray")
                samples = np.frombuffer(drawn.samples, np.uint8)
                yield f"{path.name} page {page.number + 1}", samples.reshape(drawn.height, drawn.width)


def samples() -> Iterator[tuple[str, NDArray[Any]]]:
    """Every page of the sample documents that is not blank; all of them stand upright."""
    rule = RasterRule(DPI, 4_400_000, skip_blank=True)
    for path in sorted(path for path in SAMPLES.iterdir() if path.suffix in (".pdf", ".png", ".jpg", ".tiff")):
        document = probe(Source(uri_of_path(str(path)))).document
        for made in render_pages(document, 0, document.page_count or 0, rule):
            if isinstance(made, Raster):
                yield f"{path.name} page {made.sized.page.page_index + 1}", made.pixels


def main(paths: list[str]) -> None:
    """Measure and print."""
    num_pages = right = worse = 0
    seconds = {"upright": 0.0, "turned": 0.0}
    for found in map(pages, map(Path, paths)) if paths else [samples()]:
        for name, pixels in found:
            num_pages += 1
            for quarters in range(4):
                copy = np.ascontiguousarray(np.rot90(pixels, -quarters))
                started = time.process_time()
                turned = quarters_to_upright(copy)
                seconds["turned" if quarters else "upright"] += time.process_time() - started
                if (turned + quarters) % 4 == 0:
                    right += 1
                else:
                    worse += turned != 0
                    print(f"{name}, turned by {90 * quarters}: would be turned by {90 * turned}")
    copies = 4 * num_pages
    print(f"{num_pages} pages, {copies} copies: {right / copies:.2%} right, {worse} made worse")
    print(f"{1000 * seconds['upright'] / num_pages:.1f} ms of CPU for a page that is upright,", end=" ")
    print(f"{1000 * seconds['turned'] / (3 * num_pages):.1f} ms for one that is not")


if __name__ == "__main__":
    main(sys.argv[1:])
