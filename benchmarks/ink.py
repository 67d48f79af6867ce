"""How well the length of a page's text is told beforehand: from its ink, and from what like pages of a run gave.

    python benchmarks/ink.py [--pages N] [--lag N] [--seed N] [PDF ...]

Pages whose own text is sound (`pipeline.raster.layer`) are drawn at 200 dpi as for HunyuanOCR; their characters, blanks
not counted, stand for the tokens of an answer (so nothing can be said here of how well a layer's size tells). Of each
PDF up to N pages in a row are taken, from a place drawn from the seed. With the PDFs come those of sample_docs and
sheets set by `printed_pages`, one document a kind.

For each way of telling: the rank correlation, and the standard deviation of the logarithm of characters over what was
told, once by pages, once with each document weighing the same; its two parts, between documents and within one; and
1.48 times the median deviation, which outliers do not move. An `Expectation` is asked about each page before it is
told of it, documents in an order drawn from the seed; it is told --lag pages later, as many as are being read.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from printed_pages import LATIN_KINDS, printed

from pipeline.document import Source, absolute_path, uri_of_path
from pipeline.errors import PageFault
from pipeline.expectation import TOKENS_PER_CHAR, Expectation
from pipeline.page import Page, RasterRule, SizedPage
from pipeline.raster import probe
from pipeline.raster.ink import ink_mask
from pipeline.raster.mupdf import MupdfReader
from pipeline.raster.strokes import printed_chars

RULE = RasterRule(200, 2048**2, 32, "hunyuan_visual_tokens", text_layer="auto", min_pixels=512**2)
SAMPLES = Path(__file__).resolve().parents[1] / "sample_docs"


@dataclass(frozen=True, slots=True)
class Seen:
    """A page with its evidence: characters it has, its share of ink, and the milliseconds of CPU of measuring."""

    sized: SizedPage
    num_chars: int
    ink_share: float
    cost_ms: float


def _seen(sized: SizedPage, pixels: NDArray[np.uint8], num_chars: int) -> Seen:
    started = time.process_time()
    chars = printed_chars(pixels)
    cost_ms = 1000 * (time.process_time() - started)
    return Seen(replace(sized, ink_chars=chars), num_chars, float(ink_mask(pixels[::2, ::2]).mean()), cost_ms)


def pages_of(path: Path, num_pages: int, seed: int) -> Iterator[Seen]:
    """Pages of a PDF, in a row, as far as their text is sound."""
    document = probe(Source(uri_of_path(absolute_path(str(path))))).document
    count = document.page_count or 0
    if not count:
        return
    reader = MupdfReader(str(path), document.media_type or "", count)
    first = random.Random(f"{seed} {path.name}").randint(0, max(0, count - num_pages))
    for index in range(first, min(count, first + num_pages)):
        page = Page(document.uri, document.document_id or "", index, count)
        try:
            text = reader.layer(page, RULE).recognition
            num_chars = sum(not character.isspace() for character in text.text) if text else 0
            if num_chars:
                yield _seen(*reader.render(page, RULE), num_chars)
        except PageFault as fault:
            print(f"{path} page {index + 1}: {fault}")
    reader.close()


def sheets(num_pages: int) -> Iterator[Seen]:
    """Sheets of our own making in Latin letters, drawn here."""
    for kind in LATIN_KINDS:
        for index in range(num_pages):
            lines = [line for row in printed(kind, index, "lines").rows for line in row]
            image = Image.new("L", (1240, 1760), 255)
            draw = ImageDraw.Draw(image)
            for line in lines:
                x0, y0, _, y1 = line.bbox
                draw.text((x0, y0), line.text, font=ImageFont.load_default(max(8, 0.75 * (y1 - y0))), fill=0)
            sized = SizedPage(Page(kind, kind, index, num_pages), *image.size, 1, 150.0, 0, RULE.length(*image.size))
            yield _seen(sized, np.asarray(image), sum(len(line.text.replace(" ", "")) for line in lines))


def expected(pages: Sequence[Seen], lag: int) -> list[float]:
    """What an `Expectation` says of each page before it is told of it."""
    expectation, unread, found = Expectation(), deque[Seen](), []
    for page in pages:
        found.append(expectation.of(page.sized) / TOKENS_PER_CHAR)
        unread.append(page)
        if len(unread) > lag:
            read = unread.popleft()
            expectation.tell(read.sized, max(1, round(read.num_chars * TOKENS_PER_CHAR)))
    return found


def _ranks(values: Sequence[float]) -> NDArray[np.float64]:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[inverse])


def row(name: str, pages: Sequence[Seen], told: Sequence[float]) -> str:
    """A line of the table."""
    chars = np.array([page.num_chars for page in pages], float)
    residual = np.log(chars) - np.log(np.maximum(told, 1.0))
    of_documents: dict[str, list[float]] = {}
    for page, value in zip(pages, residual, strict=True):
        of_documents.setdefault(page.sized.page.document_id, []).append(float(value))
    means = [statistics.fmean(values) for values in of_documents.values()]
    squares = [math.fsum((v - m) ** 2 for v in values) for values, m in zip(of_documents.values(), means, strict=True)]
    within = math.sqrt(sum(squares) / max(1, len(pages) - len(means)))
    middle = statistics.fmean(means)
    alike = math.sqrt(
        statistics.fmean(statistics.fmean((v - middle) ** 2 for v in values) for values in of_documents.values())
    )
    robust = 1.4826 * float(np.median(np.abs(residual - np.median(residual))))
    ranks = _ranks(told), _ranks(chars.tolist())
    rank = float(np.corrcoef(*ranks)[0, 1]) if len(set(told)) > 1 else math.nan
    figures = (rank, float(residual.std()), alike, statistics.stdev(means), within, robust)
    return f"| {name} | " + " | ".join(f"{figure:.2f}" for figure in figures) + " |"


def report(title: str, documents: Sequence[Sequence[Seen]], lag: int) -> None:
    """Print the table of these documents, in their order."""
    pages = [page for document in documents for page in document]
    print(f"\n{title}: {len(pages)} pages of {len(documents)} documents\n")
    print("| told by | rank | sd | sd, documents alike | between | within | 1.48 MAD |\n|---|---|---|---|---|---|---|")
    area = [page.sized.width_px * page.sized.height_px for page in pages]
    print(row("length (visual tokens)", pages, [page.sized.length for page in pages]))
    print(row("share of ink times pixels", pages, [p.ink_share * a for p, a in zip(pages, area, strict=True)]))
    print(row("`ink_chars`", pages, [page.sized.ink_chars or 0.0 for page in pages]))
    for number in sorted({0, lag}):
        print(row(f"`Expectation`, told {number} pages later", pages, expected(pages, number)))
    told = expected(pages, lag)
    firsts = [
        n for n, p in enumerate(pages) if n == 0 or p.sized.page.document_id != pages[n - 1].sized.page.document_id
    ]
    print(row("the same, first pages of documents", [pages[n] for n in firsts], [told[n] for n in firsts]))
    costs = [page.cost_ms for page in pages]
    middle, mean = statistics.median(costs), statistics.fmean(costs)
    print(f"\nmeasuring: {middle:.2f} ms of CPU a page in the middle, {mean:.2f} ms on average")


def _documents(found: Iterable[list[Seen]], seed: int) -> list[list[Seen]]:
    documents = [pages for pages in found if pages]
    random.Random(seed).shuffle(documents)
    return documents


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--pages", type=int, default=20, help="pages of each document, in a row")
    parser.add_argument("--lag", type=int, default=32, help="pages between the question and the answer")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    made: dict[str, list[Seen]] = {}
    for page in sheets(asked.pages):
        made.setdefault(page.sized.page.document_id, []).append(page)
    samples = [list(pages_of(path, asked.pages, asked.seed)) for path in sorted(SAMPLES.glob("*.pdf"))]
    report("Sheets of our own making", _documents(made.values(), asked.seed), asked.lag)
    report("sample_docs", _documents(samples, asked.seed), asked.lag)
    if asked.files:
        given = (list(pages_of(path, asked.pages, asked.seed)) for path in asked.files)
        report("The PDFs given", _documents(given, asked.seed), asked.lag)


if __name__ == "__main__":
    main()
