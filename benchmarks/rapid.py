"""RapidOCR as a run has it, against a plain `RapidOCR()` loop and against itself one page at a time.

    python benchmarks/rapid.py [--rounds 3] [--dense 10] [--batch-size 0] [--json FILE]

The same rasters, made once at the engine's own size: every page of the sample documents, and dense pages of print set
by `printed_pages.py`. They are read by

* plain: one process, `RapidOCR()` with its settings, which takes every core by threads of its own;
* pooled: `RapidOcrEngine` in two processes of one thread, in batches as the packer makes them;
* single: the same two processes, one page a batch.

The three take turns, round by round, in an order that changes. Start-up does not count, nor does the first page that
each process reads. CPU is that of the readers, in all threads: it says more than the clock where others use the
machine. Then texts are compared: pooled and single must agree to the letter, and what is read is held
against the truth, with the order of the text counting as in the golden tests, and as a bag of letters, without.
The file is not called after the library: scripts beside it would import it in its place.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import pickle
import resource
import statistics
import tempfile
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any

import numpy as np
import pymupdf
from printed_pages import A4_PX, printed
from rapidfuzz.distance import Levenshtein

from pipeline.batch import BatchLimits
from pipeline.document import Source, uri_of_path
from pipeline.engines.rapidocr import DPI, RapidOcrEngine, RapidOcrOptions
from pipeline.packer import Packer
from pipeline.page import Page, Raster, SizedPage
from pipeline.raster import probe, render_pages

SAMPLES = Path(__file__).resolve().parents[1] / "sample_docs"
DENSE = ("one column", "two columns", "tables", "letters", "contents", "three columns", "forms", "mixed columns")
WAYS = ("plain", "pooled", "single")
NUM_PROCESSES = 2


@dataclass(frozen=True, slots=True)
class Case:
    """A page and what is printed on it; `kind` is "samples" or "dense"."""

    kind: str
    raster: Raster
    truth: str | None


@dataclass(frozen=True, slots=True)
class Read:
    """What one task gave: the numbers of its pages, their texts, seconds of CPU, and its process's resident peak."""

    numbers: tuple[int, ...]
    texts: tuple[str, ...]
    cpu_s: float
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds of a way in one round, by the clock and of CPU, and the highest resident peak of its processes."""

    seconds: float
    cpu_s: float
    peak_bytes: int


def sample_cases() -> Iterator[Case]:
    """Every page of the samples, as `--text-layer never` has them rendered for the engine."""
    rule = RapidOcrEngine.spec(RapidOcrOptions()).raster
    for path in sorted(p for p in SAMPLES.iterdir() if p.suffix in (".pdf", ".png", ".jpg", ".tiff")):
        document = probe(Source(uri_of_path(str(path)))).document
        truth = (SAMPLES / "truth" / f"{path.name}.txt").read_text(encoding="utf-8").split("\f")
        for made in render_pages(document, 0, document.page_count or 0, rule):
            if isinstance(made, Raster):
                yield Case("samples", made, truth[made.sized.page.page_index])


def dense_cases(num_pages: int) -> Iterator[Case]:
    """A4 pages of print at the engine's resolution, gray."""
    for number in range(num_pages):
        page = printed(DENSE[number % len(DENSE)], number, "lines")
        document, scale = pymupdf.open(), 72 / DPI
        sheet = document.new_page(width=A4_PX[0] * scale, height=A4_PX[1] * scale)
        font = pymupdf.Font("helv")
        for line in (line for row in page.rows for line in row):
            x0, y0, x1, y1 = (value * scale for value in line.bbox)
            size = min((x1 - x0) / font.text_length(line.text, 1), 0.95 * (y1 - y0))
            sheet.insert_text((x0, y1 - 0.25 * (y1 - y0)), line.text, fontsize=size, fontname="helv")
        drawn = sheet.get_pixmap(dpi=int(DPI), colorspace=pymupdf.csGRAY)
        pixels = np.frombuffer(drawn.samples, np.uint8).reshape(drawn.height, drawn.width)
        rule = RapidOcrEngine.spec(RapidOcrOptions()).raster
        length = rule.length(drawn.width, drawn.height)
        sized = SizedPage(
            Page("file:///dense.pdf", "0" * 64, number, num_pages), drawn.width, drawn.height, 1, DPI, 0, length
        )
        yield Case("dense", Raster(sized, pixels), page.text)


def batches(cases: Sequence[Case], batch_size: int) -> list[tuple[int, ...]]:
    """Numbers of the pages of each batch, as the packer puts them together, costliest first."""
    packer = Packer.of(BatchLimits.of(batch_size, 256))
    number_of = {case.raster.sized: number for number, case in enumerate(cases)}
    made = []
    for case in cases:
        packer.add(case.raster.sized)
    while (batch := packer.take(force=True)) is not None:
        made.append(tuple(number_of[sized] for sized in batch.pages))
    return sorted(made, key=lambda numbers: -sum(cases[n].raster.pixels.size for n in numbers))


_reader: Any = None
_cases: list[Case] = []


def _load(path: str, way: str) -> None:
    """In a process of its own: load the pages and what reads them, and read a page."""
    global _reader, _cases  # noqa: PLW0603
    with open(path, "rb") as file:
        _cases = pickle.load(file)
    if way == "plain":
        from rapidocr import RapidOCR

        _reader = RapidOCR(params={"Global.log_level": "critical"})
    else:
        _reader = RapidOcrEngine(RapidOcrOptions())
    _read((0,))


def _read(numbers: tuple[int, ...]) -> Read:
    pages = [_cases[number].raster for number in numbers]
    started = time.process_time()
    if isinstance(_reader, RapidOcrEngine):
        texts = tuple(page.text for page in _reader.recognize(pages).pages)
    else:
        found = [_reader(raster.pixels[..., ::-1] if raster.pixels.ndim == 3 else raster.pixels) for raster in pages]
        texts = tuple("\n".join(page.txts or ()) for page in found)
    cpu_s = time.process_time() - started
    return Read(numbers, texts, cpu_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def measure(pool: Pool, tasks: Sequence[tuple[int, ...]]) -> tuple[Took, dict[int, str]]:
    """Read all tasks once: what they took, and the text of each page."""
    started = time.perf_counter()
    done = pool.map(_read, tasks, chunksize=1)
    seconds = time.perf_counter() - started
    texts = {number: text for read in done for number, text in zip(read.numbers, read.texts, strict=True)}
    return Took(seconds, sum(read.cpu_s for read in done), max(read.peak_bytes for read in done)), texts


def letters(text: str) -> str:
    """The text as it is compared: NFKC, without white space."""
    return "".join(unicodedata.normalize("NFKC", text).split())


def error_rates(cases: Sequence[Case], texts: dict[int, str], kind: str) -> tuple[float, float]:
    """Character error rate over all pages of a kind: with the order counting, and of the bag of letters."""
    edits = missed = total = 0
    for number, case in enumerate(cases):
        if case.kind == kind and case.truth is not None:
            want, got = letters(case.truth), letters(texts[number])
            edits += Levenshtein.distance(want, got)
            want_bag, got_bag = Counter(want), Counter(got)
            missed += max((want_bag - got_bag).total(), (got_bag - want_bag).total())
            total += len(want)
    return edits / max(1, total), missed / max(1, total)


def report(cases: Sequence[Case], took: dict[str, list[Took]], texts: dict[str, dict[int, str]]) -> dict[str, Any]:
    """Print the table and return its figures."""
    print(
        f"{'way':<8}{'pages/s':>9}{'ratio':>7}{'min':>6}{'max':>6}{'CPU s':>8}{'MB':>6}   error in order / of the bag"
    )
    figures: dict[str, Any] = {}
    for way in WAYS:
        ratios = [plain.seconds / mine.seconds for plain, mine in zip(took["plain"], took[way], strict=True)]
        rate = len(cases) / statistics.median(mine.seconds for mine in took[way])
        cpu_s = statistics.median(mine.cpu_s for mine in took[way])
        peak = max(mine.peak_bytes for mine in took[way])
        errors = {kind: error_rates(cases, texts[way], kind) for kind in ("samples", "dense")}
        told = ", ".join(f"{kind} {order:.4f} / {bag:.4f}" for kind, (order, bag) in errors.items())
        spread = f"{statistics.median(ratios):>7.2f}{min(ratios):>6.2f}{max(ratios):>6.2f}"
        print(f"{way:<8}{rate:>9.2f}{spread}{cpu_s:>8.1f}{peak / 1e6:>6.0f}   {told}")
        figures[way] = {
            "pages_per_s": rate,
            "ratios": ratios,
            "took": [asdict(mine) for mine in took[way]],
            "errors": errors,
        }
    pairs = list(zip(took["single"], took["pooled"], strict=True))
    for unit in ("seconds", "cpu_s"):
        gained = [getattr(single, unit) / getattr(pooled, unit) for single, pooled in pairs]
        print(
            f"pooled against single, {unit}: {statistics.median(gained):.3f} ({min(gained):.3f} to {max(gained):.3f})"
        )
    same = texts["pooled"] == texts["single"]
    print(f"pooled and single read {'the same' if same else 'NOT THE SAME'}")
    return {**figures, "same_texts": same}


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dense", type=int, default=10, help="dense pages beside the samples")
    parser.add_argument("--batch-size", type=int, default=0, help="pages of a batch; the engine's own if 0")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    cases = [*sample_cases(), *dense_cases(options.dense)]
    batch_size = options.batch_size or RapidOcrEngine.spec(RapidOcrOptions()).needs.batch_size
    alone = [numbers for number in batches(cases, batch_size) for numbers in ((n,) for n in number)]
    tasks = {"plain": alone, "pooled": batches(cases, batch_size), "single": alone}
    print(f"{len(cases)} pages, {options.rounds} rounds, batches of {batch_size}, {os.cpu_count()} cores", flush=True)
    took: dict[str, list[Took]] = {way: [] for way in WAYS}
    texts: dict[str, dict[int, str]] = {}
    spawn = multiprocessing.get_context("spawn")
    with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
        pickle.dump(cases, file)
        file.flush()
        pools = {
            way: spawn.Pool(1 if way == "plain" else NUM_PROCESSES, initializer=_load, initargs=(file.name, way))
            for way in WAYS
        }
        for pool in pools.values():
            pool.map(_read, [(0,)] * 8, chunksize=1)
        for number in range(options.rounds):
            for way in (*WAYS[number % 3 :], *WAYS[: number % 3]):
                spent, texts[way] = measure(pools[way], tasks[way])
                took[way].append(spent)
            told = (f"{way} {took[way][-1].seconds:.1f} s ({took[way][-1].cpu_s:.1f} of CPU)" for way in WAYS)
            print(f"round {number + 1}: " + ", ".join(told), flush=True)
        for pool in pools.values():
            pool.terminate()
    figures = report(cases, took, texts)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
