"""The whole pipeline with an engine that does no work, against a bare two-process PyMuPDF loop.

    python benchmarks/throughput.py [--pages 2000] [--rounds 3] [--kinds mix ...] [--json FILE]

Both read the same pages at the same size (A4 at 200 dpi). The pipeline hashes the files, renders in Ray tasks,
buckets, packs, hands pixels to actors and commits Parquet; the loop calls `page.get_pixmap(dpi=200)` in two
processes and throws the pixels away. They take turns, round by round, and what counts is the ratio. Neither
start-up counts: the pipeline's time starts when Ray is up, the loop's when both processes have drawn a page.

Kinds of pages: scans in gray and in colour (one JPEG a page, 200 dpi), born-digital reports (two columns of text,
a chart, a photo), and a mix with as many pages of each. Plain text is measured beside them: it renders in 2 ms,
so its figure is the price of moving a page rather than of making one. The memory of the driver is read from
/proc after 200 pages and after all pages.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pymupdf
from PIL import Image

ROOT = Path(__file__).parents[1]
DPI = 200
PAGES_PER_DOCUMENT = 100
MIX = [("mix", kind) for kind in ("gray scans", "colour scans", "reports")]
KINDS = ("mix", "gray scans", "colour scans", "reports", "plain text")
TEXT = """the mill stood where the river bent and every page that came down the road was read before the night
fell over the long rows of paper that people had carried there from towns nobody could name any more"""
WORDS = TEXT.split()


@dataclass(frozen=True, slots=True)
class Round:
    """Pages a second of both, and the driver's resident memory in bytes after 200 pages and at the end."""

    bare: float
    pipeline: float
    memory_early_bytes: int
    memory_late_bytes: int


def text_document(num_pages: int, seed: int) -> pymupdf.Document:
    """Pages of about 500 words at 10 pt."""
    document = pymupdf.open()
    chooser = random.Random(seed)
    for _ in range(num_pages):
        page = document.new_page(width=595, height=842)
        words = " ".join(chooser.choice(WORDS) for _ in range(500))
        if page.insert_textbox((50, 50, 545, 800), words, fontsize=10) < 0:
            raise RuntimeError("the text does not fit its page")
    return document


def report_document(num_pages: int, seed: int) -> pymupdf.Document:
    """Pages as reports have them: a heading, two columns of text, a chart of a few hundred strokes, a photo."""
    document, numbers = pymupdf.open(), np.random.default_rng(seed)
    chooser = random.Random(seed)
    for _ in range(num_pages):
        page = document.new_page(width=595, height=842)
        page.insert_text((50, 60), " ".join(chooser.sample(WORDS, 6)), fontsize=18, fontname="hebo")
        for left in (50, 305):
            words = " ".join(chooser.choice(WORDS) for _ in range(150))
            if page.insert_textbox((left, 80, left + 240, 480), words, fontsize=10, fontname="tiro") < 0:
                raise RuntimeError("the text does not fit its column")
        for colour in ((0.1, 0.2, 0.7), (0.8, 0.3, 0.1)):
            heights = 640 + np.cumsum(numbers.normal(0, 4, 120))
            page.draw_polyline([(50 + 2 * x, float(y)) for x, y in enumerate(heights)], color=colour, width=0.8)
        for x in range(50, 291, 12):
            page.draw_line((x, 560), (x, 720), color=(0.8, 0.8, 0.8), width=0.3)
        photo = Image.fromarray(numbers.integers(0, 255, (60, 90, 3), np.uint8)).resize((900, 600), 3)
        stream = io.BytesIO()
        photo.save(stream, "JPEG", quality=85)
        page.insert_image(pymupdf.Rect(305, 560, 545, 720), stream=stream.getvalue())
    return document


def scanned_document(num_pages: int, seed: int, *, colour: bool) -> pymupdf.Document:
    """The same kind of pages as pictures: noise, JPEG, 200 dpi."""
    document, noise = pymupdf.open(), np.random.default_rng(seed)
    for source in text_document(num_pages, seed):
        drawn = source.get_pixmap(dpi=DPI, colorspace=pymupdf.csRGB)
        pixels = np.frombuffer(drawn.samples, np.uint8).reshape(drawn.height, drawn.width, 3).astype(np.float32)
        pixels += noise.normal(-8, 6, pixels.shape[:2])[..., None]
        if colour:
            pixels[..., 2] -= 20
        image = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
        stream = io.BytesIO()
        (image if colour else image.convert("L")).save(stream, "JPEG", quality=75)
        page = document.new_page(width=595, height=842)
        page.insert_image(page.rect, stream=stream.getvalue())
    return document


def make_corpus(kind: str, num_pages: int, folder: Path) -> Path:
    """A folder of documents of 100 pages; ten different pages of each kind are repeated to fill them."""
    makers = {
        "gray scans": lambda: scanned_document(10, 1, colour=False),
        "colour scans": lambda: scanned_document(10, 2, colour=True),
        "reports": lambda: report_document(10, 3),
        "plain text": lambda: text_document(10, 4),
    }
    target = folder / kind.replace(" ", "_")
    target.mkdir()
    sources = [
        pymupdf.open(stream=makers[k]().tobytes(), filetype="pdf") for k in makers if kind == k or (kind, k) in MIX
    ]
    for number in range(-(-num_pages // PAGES_PER_DOCUMENT)):
        document = pymupdf.open()
        for _ in range(PAGES_PER_DOCUMENT // 10):
            document.insert_pdf(sources[number % len(sources)])
        document.save(target / f"{number:04d}.pdf")
    return target


def _draw(work: tuple[str, int, int]) -> None:
    path, first, stop = work
    document = pymupdf.open(path)
    for index in range(first, stop):
        document[index].get_pixmap(dpi=DPI)


def bare_rate(corpus: Path) -> float:
    """Pages a second of two processes that only draw."""
    paths = sorted(map(str, corpus.iterdir()))
    pieces = [(path, first, first + 25) for path in paths for first in range(0, PAGES_PER_DOCUMENT, 25)]
    # Ray runs its workers at this niceness; at the same one, other work on the machine slows both alike.
    with multiprocessing.get_context("spawn").Pool(2, initializer=os.nice, initargs=(15,)) as pool:
        pool.map(_draw, [(paths[0], 0, 1)] * 8, chunksize=1)
        started = time.perf_counter()
        pool.map(_draw, pieces, chunksize=1)
        return len(paths) * PAGES_PER_DOCUMENT / (time.perf_counter() - started)


def resident_bytes(pid: int) -> int:
    """Memory of a process that is its own: resident less what it maps of shared memory."""
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")


def pipeline_rate(corpus: Path, out: Path, num_pages: int) -> Round:
    """Run the job as a user would, and watch the driver's memory while its rows come in."""
    words = ["--engine", "fake", "--engine-option", "read=false", "--dpi", str(DPI)]
    words += ["--text-layer", "never", "--orientation", "keep", "--read-blank"]
    often = ["--commit-pages", "100", "--progress", "none", "--json"]
    running = subprocess.Popen(
        [sys.executable, str(ROOT / "run_batch.py"), str(corpus), str(out), *words, *often],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    memory: dict[int, int] = {}
    watcher = threading.Thread(target=_watch, args=(running, out, memory))
    watcher.start()
    stdout, _ = running.communicate()
    watcher.join()
    totals = json.loads(stdout)
    if totals["pages"] != num_pages or totals["exit_code"]:
        raise RuntimeError(f"the run went wrong: {totals}")
    early = next((bytes_ for parts, bytes_ in sorted(memory.items()) if parts >= 2), 0)
    return Round(0.0, totals["pages_per_s"], early, memory[max(memory)])


def _watch(running: subprocess.Popen[str], out: Path, memory: dict[int, int]) -> None:
    while running.poll() is None:
        try:
            if used := resident_bytes(running.pid):  # nothing is left of a process that ends
                memory[len(list(out.glob("pages/*/*.parquet")))] = used
        except (OSError, IndexError):
            return
        time.sleep(0.1)


def measure(corpus: Path, num_pages: int, scratch: Path, *, pipeline_first: bool) -> Round:
    """One round: both in turn, the order changing from round to round."""
    out = scratch / "out"
    ours = pipeline_rate(corpus, out, num_pages) if pipeline_first else None
    bare = bare_rate(corpus)
    ours = ours or pipeline_rate(corpus, out, num_pages)
    shutil.rmtree(out)
    return Round(bare, ours.pipeline, ours.memory_early_bytes, ours.memory_late_bytes)


def main() -> None:
    """Measure every kind and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    num_pages = -(-options.pages // PAGES_PER_DOCUMENT) * PAGES_PER_DOCUMENT
    figures = {}
    print(f"{num_pages} pages of each kind, {options.rounds} rounds, {os.cpu_count()} cores")
    print(f"{'pages':<14}{'bare /s':>10}{'pipeline /s':>13}{'ratio':>8}{'min':>7}{'max':>7}{'driver MB':>16}")
    with tempfile.TemporaryDirectory(prefix="pagemill-bench-") as folder:
        for kind in options.kinds:
            corpus = make_corpus(kind, num_pages, Path(folder))
            rounds = [
                measure(corpus, num_pages, Path(folder), pipeline_first=bool(n % 2)) for n in range(options.rounds)
            ]
            shutil.rmtree(corpus)
            ratios = [r.pipeline / r.bare for r in rounds]
            bare, ours = (statistics.median(getattr(r, name) for r in rounds) for name in ("bare", "pipeline"))
            early, late = (
                statistics.median(getattr(r, name) for r in rounds) / 1e6
                for name in ("memory_early_bytes", "memory_late_bytes")
            )
            ratio = statistics.median(ratios)
            memory = f"{early:.0f} to {late:.0f}"
            print(
                f"{kind:<14}{bare:>10.1f}{ours:>13.1f}{ratio:>8.2f}{min(ratios):>7.2f}{max(ratios):>7.2f}{memory:>16}",
                flush=True,
            )
            figures[kind] = {"bare": bare, "pipeline": ours, "ratios": ratios, "driver_mb": [early, late]}
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
