"""How much error reading order adds to a page whose characters are right.

    python benchmarks/reading_order.py [--pages 200] [--kinds tables ...] [--views lines ...] [--worst 0]

Pages of `printed_pages.py` are shuffled, ordered, and compared with what was set. A page's figure is the character
error rate of its text in percent (Levenshtein; a run of white space counts as one space); as every character is
right, all of it is the order's. For each kind and view: the mean, the share of pages above 3 points, the worst page.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from concurrent.futures import ProcessPoolExecutor

from printed_pages import KINDS, VIEWS, printed
from rapidfuzz.distance import Levenshtein

from pipeline.order import page_text, reading_order

MOST = 3.0
"""Points that an order may add."""


def points(kind: str, seed: int, view: str) -> tuple[float, float]:
    """Points of error that the order adds to this page, and the seconds that ordering took."""
    page = printed(kind, seed, view)
    lines = [line for row in page.rows for line in row]
    random.Random(seed).shuffle(lines)
    start = time.perf_counter()
    rows = reading_order(lines)
    took = time.perf_counter() - start
    want, got = " ".join(page.text.split()), " ".join(page_text(rows).split())
    return 100 * min(1.0, Levenshtein.distance(want, got) / max(1, len(want))), took


def measure(job: tuple[str, str, int]) -> tuple[str, str, list[tuple[float, float]]]:
    """All pages of one kind in one view."""
    kind, view, num_pages = job
    return kind, view, [points(kind, seed, view) for seed in range(num_pages)]


def main() -> None:
    """A line for each kind and view, and how many of them are within three points."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--views", nargs="+", choices=VIEWS, default=VIEWS)
    parser.add_argument("--worst", type=int, default=0, help="name the seeds of so many of the worst pages")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    jobs = [(kind, view, options.pages) for kind in options.kinds for view in options.views]
    means: list[float] = []
    print(f"{'kind':28}{'view':10}{'mean':>7}{'above 3':>9}{'worst':>8}{'ms':>7}")
    with ProcessPoolExecutor(options.processes) as pool:
        for kind, view, found in pool.map(measure, jobs):
            added = [value for value, _ in found]
            means.append(statistics.fmean(added))
            above = 100 * sum(value > MOST for value in added) / len(added)
            milliseconds = 1000 * statistics.fmean(took for _, took in found)
            print(f"{kind:28}{view:10}{means[-1]:7.2f}{above:8.1f}%{max(added):8.1f}{milliseconds:7.1f}", flush=True)
            if options.worst:
                ranked = sorted(range(len(added)), key=lambda seed: -added[seed])[: options.worst]
                print("    " + ", ".join(f"seed {seed}: {added[seed]:.1f}" for seed in ranked))
    within = sum(mean <= MOST for mean in means)
    print(f"{within} of {len(means)} within {MOST:g} points; mean of all {statistics.fmean(means):.2f}")


if __name__ == "__main__":
    main()
