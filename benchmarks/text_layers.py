"""Which pages of PDFs are taken from their own text, why the others are not, and what the look costs.

    python benchmarks/text_layers.py [--pages N] [--all] PDF ...

Prints a count for each verdict, the milliseconds of CPU a page, and with --all a line for each page that is not taken.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

from pipeline.document import Source, absolute_path, uri_of_path
from pipeline.errors import PageFault
from pipeline.page import Page, RasterRule
from pipeline.raster import probe
from pipeline.raster.mupdf import MupdfReader

RULE = RasterRule(150, 10**7, text_layer="auto")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--pages", type=int, default=5, help="pages of each file")
    parser.add_argument("--all", action="store_true", help="tell of each page that is not taken")
    asked = parser.parse_args()
    verdicts: Counter[str] = Counter()
    costs = []
    for path in asked.files:
        document = probe(Source(uri_of_path(absolute_path(path)))).document
        if not document.page_count:
            continue
        reader = MupdfReader(path, document.media_type or "", document.page_count)
        for index in range(min(asked.pages, document.page_count)):
            page = Page(document.uri, document.document_id or "", index, document.page_count)
            started = time.process_time()
            try:
                found = reader.layer(page, RULE)
            except PageFault as fault:
                found = None
                print(f"{path} page {index + 1}: {fault}")
            costs.append(time.process_time() - started)
            if found is None:
                continue
            verdicts[found.verdict.partition(":")[0]] += 1
            if asked.all and not found.recognition:
                print(f"{path} page {index + 1}: {found.verdict}")
        reader.close()
    print(f"{sum(verdicts.values())} pages:", ", ".join(f"{count} {name}" for name, count in verdicts.most_common()))
    costs.sort()
    print(
        f"{1000 * sum(costs) / len(costs):.1f} ms of CPU a page, {1000 * costs[len(costs) // 2]:.1f} ms in the middle"
    )


if __name__ == "__main__":
    main()
