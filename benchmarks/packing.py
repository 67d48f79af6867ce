"""How much of a batch is padding and waiting: the packer against arrival order, on a realistic mix of pages.

    python benchmarks/packing.py [--pages 50000] [--batch-size 8 16 32] [--window 512] [--alike 0.5] [--million]

No pixels: pages are sizes, as HunyuanOCR takes them (sides multiples of 32, at most 2048 by 2048 pixels), in the order
in which documents of several pages arrive. The mix: 60 % A4 and letter at 200 dpi, upright; 10 % of them lying; 10 %
receipts, 80 mm wide and 100 to 400 mm long; 10 % photos of phones, 4 : 3 and 16 : 9, lying and upright; 5 % slides; 5 %
A3 drawings. Answers are long-tailed (median 400 tokens, 95th percentile 1,800); `--alike` says which share of the
variance of their logarithm lies between documents, whose pages are alike then. What a page's ink
and earlier pages tell of its answer is wrong by a factor, whose logarithm is drawn from two normal distributions: 0.15
wide, and for 13 % of the pages 0.68. Together they have the standard deviation, 0.28, and the 1.48 MAD, 0.17, that
`python benchmarks/ink.py` has measured (`Expectation`, told 32 pages later). `--noise` makes all of it larger.

The packer is asked as an engine that is the slowest part asks it: the window is full whenever a batch is taken. Padding
is the share of tokens that would be padding if every page of a batch were as long as its longest. Idle slots are those
of static batches, which wait for the longest answer. With `--million`, a million pages are planned and the time and the
memory are told.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from pipeline.batch import Batch, BatchLimits
from pipeline.packer import Packer
from pipeline.page import Page, RasterRule, SizedPage

RULE = RasterRule(200, 2048 * 2048, 32, "hunyuan_visual_tokens", min_pixels=512 * 512)
MEDIAN_TOKENS, P95_TOKENS = 400, 1800
LOG_SD = math.log(P95_TOKENS / MEDIAN_TOKENS) / 1.645

NARROW, WIDE, SHARE_OF_WIDE = 0.15, 0.68, 0.13
"""How far expected answers are off, in logarithms."""

MM = 72 / 25.4
A4, LETTER, A3 = (595.0, 842.0), (612.0, 792.0), (842.0, 1191.0)
PHOTOS = ((4032, 3024), (3024, 4032), (4000, 2250), (2250, 4000), (3264, 2448), (2448, 3264))
SLIDES = ((720.0, 540.0), (960.0, 540.0))
KINDS = {"upright": 0.6, "lying": 0.1, "receipt": 0.1, "photo": 0.1, "slide": 0.05, "drawing": 0.05}


@dataclass(frozen=True, slots=True)
class Drawn:
    """A page, the tokens of its answer, and what is expected of them beforehand."""

    sized: SizedPage
    tokens: int
    expected: float


@dataclass(slots=True)
class Waste:
    """Sums over batches: `slots` are steps of static batches, each slot counted for as long as its batch lasts."""

    pages: int = 0
    batches: int = 0
    tokens: int = 0
    padded: int = 0
    written: int = 0
    slots: int = 0

    def add(self, lengths: list[int], answers: list[int]) -> None:
        """Count one batch."""
        self.pages += len(lengths)
        self.batches += 1
        self.tokens += sum(lengths)
        self.padded += max(lengths) * len(lengths) - sum(lengths)
        self.written += sum(answers)
        self.slots += max(answers) * len(answers)

    @property
    def padding(self) -> float:
        """Padding's share of the padded whole."""
        return self.padded / (self.tokens + self.padded)

    @property
    def idle(self) -> float:
        """Share of the slots' steps that waited for a longer answer."""
        return 1 - self.written / self.slots


def size_of(kind: str, dice: random.Random) -> tuple[int, int]:
    """Sides of a raster in pixels."""
    if kind in ("upright", "lying"):
        width, height = A4 if dice.random() < 0.6 else LETTER
        fit = RULE.fit_points(*((width, height) if kind == "upright" else (height, width)))
    elif kind == "receipt":
        fit = RULE.fit_points(80 * MM, dice.uniform(100, 400) * MM)
    elif kind == "photo":
        fit = RULE.fit_pixels(*dice.choice(PHOTOS), None)
    elif kind == "slide":
        fit = RULE.fit_points(*dice.choice(SLIDES))
    else:
        fit = RULE.fit_points(*(A3 if dice.random() < 0.5 else A3[::-1]))
    return fit.width_px, fit.height_px


def pages(count: int, seed: int, noise: float, pages_per_document: int, alike: float = 0.0) -> Iterator[Drawn]:
    """Pages document by document; photos and receipts are documents of one page each."""
    dice = random.Random(seed)
    between, within = (LOG_SD * math.sqrt(share) for share in (alike, 1 - alike))
    made, number = 0, 0
    while made < count:
        kind = dice.choices(list(KINDS), [share / mean_pages(k, pages_per_document) for k, share in KINDS.items()])[0]
        size, level = size_of(kind, dice), dice.gauss(0, between)
        pages_here = 1 if mean_pages(kind, pages_per_document) == 1 else dice.randint(1, 2 * pages_per_document - 1)
        for index in range(min(pages_here, count - made)):
            tokens = max(1, round(MEDIAN_TOKENS * math.exp(level + dice.gauss(0, within))))
            page = Page(f"file:///{number}", "", index, pages_here)
            sized = SizedPage(page, *size, 1, 200.0, 0, RULE.length(*size))
            error = dice.gauss(0, noise * (WIDE if dice.random() < SHARE_OF_WIDE else NARROW))
            yield Drawn(sized, tokens, tokens * math.exp(error))
            made += 1
        number += 1


def mean_pages(kind: str, pages_per_document: int) -> int:
    """Pages of a document of this kind, on average."""
    return 1 if kind in ("receipt", "photo") else pages_per_document


def packed(drawn: Iterable[Drawn], limits: BatchLimits, expect: Callable[[SizedPage], float]) -> Iterator[Batch]:
    """What an engine gets that is slower than the rasterizers: it finds the window full."""
    packer = Packer.of(limits, expect)
    for one in drawn:
        packer.add(one.sized)
        if packer.is_full and (batch := packer.take()):
            yield batch
    while batch := packer.take(force=True):
        yield batch


def compare(drawn: list[Drawn], batch_size: int, window: int) -> dict[str, Waste]:
    """Arrival order, by length alone, and by length and expected answer."""
    by_key = {one.sized.page.key: one for one in drawn}
    arrival, by_length, whole = Waste(), Waste(), Waste()
    rest = iter(drawn)
    while batch := list(islice(rest, batch_size)):
        arrival.add([one.sized.length for one in batch], [one.tokens for one in batch])
    limits = BatchLimits.of(batch_size, window)
    for waste, expect in ((by_length, lambda _: 0.0), (whole, lambda sized: by_key[sized.page.key].expected)):
        for cut in packed(drawn, limits, expect):
            waste.add(cut.lengths, [by_key[sized.page.key].tokens for sized in cut.pages])
    return {"arrival order": arrival, "by length": by_length, "by length and answer": whole}


def plan_a_million(noise: float, window: int) -> None:
    """Time of one core, in seconds, and memory; the making of the pages is not counted."""
    expected = {}

    def drawn() -> Iterator[Drawn]:
        chunk = list(pages(20_000, 5, noise, 10))
        for turn in range(50):
            for one in chunk:
                sized, page = one.sized, one.sized.page
                again = Page(f"{page.uri}/{turn}", page.document_id, page.page_index, page.page_count)
                expected[again.key] = one.expected
                yield Drawn(SizedPage(again, sized.width_px, sized.height_px, 1, 200.0, 0, sized.length), 0, 0.0)

    def timed(work: Iterable[object]) -> float:
        started = time.process_time()
        for _ in work:
            pass
        return time.process_time() - started

    making_s = timed(drawn())
    expected.clear()
    limits = BatchLimits.of(8, window)
    whole_s = timed(packed(drawn(), limits, lambda sized: expected.pop(sized.page.key)))
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"a million pages planned in {whole_s - making_s:.1f} s of one core (and {making_s:.1f} s to make them)")
    print(f"memory of the process at its height: {memory_mb:.0f} MB")


def main() -> None:
    """Print a table; as JSON with --json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=50_000)
    parser.add_argument("--batch-size", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--alike", type=float, default=0.0, help="share of the variance that lies between documents")
    parser.add_argument("--noise", type=float, default=1.0, metavar="FACTOR")
    parser.add_argument("--documents", type=int, default=10, metavar="PAGES", help="mean pages of a document")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if asked.million:
        plan_a_million(asked.noise, asked.window)
        return
    drawn = list(pages(asked.pages, asked.seed, asked.noise, asked.documents, asked.alike))
    found = {size: compare(drawn, size, asked.window) for size in asked.batch_size}
    if asked.json:
        print(json.dumps({size: {k: [w.padding, w.idle] for k, w in rows.items()} for size, rows in found.items()}))
        return
    print(f"{'batch':>6} {'order':<22} {'padding':>8} {'idle slots':>11} {'pages a batch':>14}")
    for size, rows in found.items():
        for name, waste in rows.items():
            mean = waste.pages / waste.batches
            print(f"{size:>6} {name:<22} {waste.padding:>8.2%} {waste.idle:>11.1%} {mean:>14.2f}")


if __name__ == "__main__":
    main()
