"""Which pages of PDFs are taken from their own text, why the others are not, and what the look costs.

    python benchmarks/text_layers.py [--pages N] [--all] [--spoil] [--read] PDF ...

Prints a count for each verdict, the milliseconds of CPU a page, and with --all a line for each page that is not taken.

With --spoil, each page that is taken is made again in three ways that must not be: `codes`, every font says the letter
after the one it shows; `one font`, the least used font does so; `scan`, a picture of the page over its invisible text.
A page that is still taken is named. Fonts without a ToUnicode map, and those with less than twelve letters on the
page, are not spoiled.

With --read, RapidOCR reads each page that is taken as well, if nine tenths of its letters are of scripts that it knows:
how much longer that takes, and the pages on which less than 80 % of the three-letter runs of one text are in the
other, to be looked at by a person.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pymupdf

from pipeline.document import Document, Source, absolute_path, uri_of_path
from pipeline.engines.rapidocr import RapidOcrEngine, RapidOcrOptions
from pipeline.errors import PageFault
from pipeline.page import Page, Raster, RasterRule
from pipeline.raster import probe, render_pages
from pipeline.raster.layer import Layer
from pipeline.raster.mupdf import MupdfReader

RULE = RasterRule(150, 10**7, text_layer="auto")
MIN_LETTERS = 12
ALIKE = 0.8


def layers(path: str, num_pages: int) -> Iterator[tuple[int, Layer, float]]:
    """The verdict on each of the first pages, and the seconds of CPU that it took."""
    document: Document = probe(Source(uri_of_path(absolute_path(path)))).document
    if not document.page_count:
        return
    reader = MupdfReader(path, document.media_type or "", document.page_count)
    for index in range(min(num_pages, document.page_count)):
        page = Page(document.uri, document.document_id or "", index, document.page_count)
        started = time.process_time()
        try:
            found = reader.layer(page, RULE)
        except PageFault as fault:
            print(f"{path} page {index + 1}: {fault}")
        else:
            yield index, found, time.process_time() - started
    reader.close()


def spoiled(path: str, index: int) -> Iterator[tuple[str, bytes]]:
    """The page, alone in a PDF, made unsound in each way that it can be."""
    with pymupdf.open(path) as document:
        maps = _letters_by_map(document, document[index])
        alone = pymupdf.open()
        alone.insert_pdf(document, from_page=index, to_page=index)
    ways = {"codes": tuple(maps), "one font": tuple(maps)[-1:] if len(maps) > 1 else ()}
    for way, numbers in ways.items():
        if numbers:
            with pymupdf.open(path) as document:
                for number in numbers:
                    document.update_stream(number, _next_letters(document.xref_stream(number)))
                document.select([index])
                yield way, document.tobytes()
    yield "scan", _scanned(alone[0])


def _letters_by_map(document: pymupdf.Document, page: pymupdf.Page) -> dict[int, int]:
    """Numbers of the page's ToUnicode maps and how many letters use each, the most used one first."""
    letters: Counter[str] = Counter()
    for block in page.get_text("dict", flags=pymupdf.TEXT_MEDIABOX_CLIP)["blocks"]:
        for span in (span for line in block.get("lines", ()) for span in line["spans"]):
            letters[span["font"]] += sum(map(str.isalpha, span["text"]))
    found = {}
    for number, _, _, name, *_ in page.get_fonts():
        kind, value = document.xref_get_key(number, "ToUnicode")
        if kind == "xref" and letters[name.rpartition("+")[2]] >= MIN_LETTERS:
            found[int(value.split()[0])] = letters[name.rpartition("+")[2]]
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _next_letters(cmap: bytes) -> bytes:
    """The map with the last number of each line, which is a letter, one higher."""

    def one_higher(match: re.Match[bytes]) -> bytes:
        return b"<%0*X>" % (len(match[1]), (int(match[1], 16) + 1) % 16 ** len(match[1]))

    parts = re.split(rb"(begin(?:bfchar|bfrange)|end(?:bfchar|bfrange))", cmap)
    inside = [i for i, part in enumerate(parts) if parts[i - 1].startswith(b"begin") and i]
    for i in inside:
        pairs = rb"<([0-9A-Fa-f]+)>(?=\s*(?:$|<[0-9A-Fa-f]+>\s*<|\n|\r))"
        parts[i] = re.sub(rb"<([0-9A-Fa-f]+)>(?=[ \t]*[\r\n]|\s*$)", one_higher, parts[i]) or re.sub(
            pairs, one_higher, parts[i]
        )
    return b"".join(parts)


def _scanned(page: pymupdf.Page) -> bytes:
    """A picture of the page over its words, invisible."""
    made = pymupdf.open()
    copy = made.new_page(width=page.rect.width, height=page.rect.height)
    for x0, _, _, y1, word, *_ in page.get_text("words"):
        copy.insert_text((x0, y1), word, fontsize=8, render_mode=3, fontname="china-s")
    copy.insert_image(copy.rect, stream=page.get_pixmap(dpi=150).tobytes("jpeg"))
    return bytes(made.tobytes())


def spoil(path: str, index: int, text: str, counts: Counter[tuple[str, bool]]) -> None:
    """Count whether a page is taken after it was spoiled, and tell if so; where its text stays the same it was not."""
    with tempfile.TemporaryDirectory() as folder:
        for way, data in spoiled(path, index):
            file = Path(folder, f"{way}.pdf")
            file.write_bytes(data)
            for _, found, _ in layers(str(file), 1):
                if found.recognition and found.recognition.text == text:
                    continue
                taken = found.recognition is not None
                counts[way, taken] += 1
                if taken:
                    print(f"TAKEN {path} page {index + 1}, spoiled: {way}")


class Reader:
    """RapidOCR on one thread, and what it took."""

    def __init__(self) -> None:
        self._engine = RapidOcrEngine(RapidOcrOptions())
        self.seconds: list[float] = []
        self.alike: list[float] = []

    def read(self, path: str, index: int, text: str) -> None:
        """Have the page read, and tell if it reads otherwise than its layer."""
        document = probe(Source(uri_of_path(absolute_path(path)))).document
        started = time.process_time()
        (raster,) = render_pages(document, index, index + 1, replace(RULE, text_layer="never"))
        assert isinstance(raster, Raster), raster
        (page,) = self._engine.recognize([raster]).pages
        self.seconds.append(time.process_time() - started)
        one, other = _runs_of_three(text), _runs_of_three(page.text)
        self.alike.append((one & other).total() / max(1, one.total(), other.total()))
        if self.alike[-1] < ALIKE:
            print(f"{path} page {index + 1}: {self.alike[-1]:.0%} alike")


def _is_known(text: str) -> bool:
    letters = [letter for letter in text if letter.isalpha()]
    known = ("LATIN", "CJK UNIFIED", "HIRAGANA", "KATAKANA")
    return sum(unicodedata.name(letter, "").startswith(known) for letter in letters) >= 0.9 * len(letters) > 0


def _runs_of_three(text: str) -> Counter[str]:
    letters = "".join(filter(str.isalnum, unicodedata.normalize("NFKD", text).casefold()))
    return Counter(letters[at : at + 3] for at in range(len(letters) - 2))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--pages", type=int, default=5, help="pages of each file")
    parser.add_argument("--all", action="store_true", help="tell of each page that is not taken")
    parser.add_argument("--spoil", action="store_true", help="make each page unsound and look again")
    parser.add_argument("--read", action="store_true", help="have RapidOCR read each page that is taken")
    asked = parser.parse_args()
    reader = Reader() if asked.read else None
    verdicts: Counter[str] = Counter()
    counts: Counter[tuple[str, bool]] = Counter()
    costs = []
    for path in asked.files:
        for index, found, seconds in list(layers(path, asked.pages)):
            costs.append(seconds)
            verdicts[found.verdict.partition(":")[0]] += 1
            if asked.all and not found.recognition:
                print(f"{path} page {index + 1}: {found.verdict}")
            if asked.spoil and found.recognition:
                spoil(path, index, found.recognition.text, counts)
            if reader and found.recognition and _is_known(found.recognition.text):
                reader.read(path, index, found.recognition.text)
    print(f"{sum(verdicts.values())} pages:", ", ".join(f"{count} {name}" for name, count in verdicts.most_common()))
    costs.sort()
    print(
        f"{1000 * sum(costs) / len(costs):.1f} ms of CPU a page, {1000 * costs[len(costs) // 2]:.1f} ms in the middle"
    )
    if reader and reader.seconds:
        took = sum(reader.seconds) / len(reader.seconds)
        print(f"RapidOCR: {took:.1f} s of CPU a page, {took * len(costs) / sum(costs):.0f} times as much")
        print(f"alike: {sum(alike >= ALIKE for alike in reader.alike)} of {len(reader.alike)} pages")
    for way in sorted({way for way, _ in counts}):
        print(f"spoiled, {way}: {counts[way, False]} refused, {counts[way, True]} taken")


if __name__ == "__main__":
    main()
