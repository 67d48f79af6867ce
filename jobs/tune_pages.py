"""The pages that `pagemill tune` measures with: those of the input that an engine would get, by bucket, in files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from tqdm import tqdm

from jobs.prepare import Prepared
from pipeline.bucket import Edges, Lengths
from pipeline.config import JobConfig
from pipeline.document import Source
from pipeline.errors import InputError, PageFault
from pipeline.page import Raster, RasterRule, SizedPage
from pipeline.raster import probe, render_pages, size_pages
from pipeline.result import Probe
from pipeline.selection import Selection
from pipeline.source import Discovery
from pipeline.tuning.sheet import Sheet

SAMPLES = Path(__file__).resolve().parents[1] / "sample_docs"

MOST_PAGES, MOST_OF_A_DOCUMENT = 256, 32
"""Pages that are rendered to choose from, and of one document, so that a long one does not stand for all."""


@dataclass(slots=True)
class Pages:
    """Sheets by bucket, how many pages of each bucket were seen, and what to tell of it all."""

    sheets: list[Sheet] = field(default_factory=list)
    buckets: dict[int, list[int]] = field(default_factory=dict)
    num_seen: Counter[int] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def most_common(self, num_buckets: int) -> list[int]:
        """The buckets with most pages, those first."""
        return sorted(self.buckets, key=lambda name: (-self.num_seen[name], name))[:num_buckets]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Pages to keep of each bucket, bytes of pixels in all, and how many buckets; `folder` is where they are put."""

    folder: Path
    pages_per_bucket: int
    num_bytes: int
    num_buckets: int


def gather(config: JobConfig, prepared: Prepared, wanted: Wanted) -> Pages:
    """Render pages of the input, or of the samples of a checkout, until there are enough to choose from.

    Raises:
        UsageError: an input does not exist, there are no samples, or no page can be rendered.
    """
    rule, inputs = prepared.spec.raster, config.inputs
    if not inputs:
        if not SAMPLES.is_dir():
            raise InputError("there are no sample documents beside this installation: pagemill tune INPUT")
        inputs, rule = (str(SAMPLES),), replace(rule, text_layer="never")
    discovery = Discovery(inputs, config.exclude)
    discovery.check()
    found = _gathered(discovery, prepared, rule, config.selection, wanted)
    if not found.sheets and (rule.text_layer != "never" or rule.skip_blank):
        rule = replace(rule, text_layer="never", skip_blank=False)
        found = _gathered(Discovery(inputs, config.exclude), prepared, rule, config.selection, wanted)
        if found.sheets:
            found.notes.append(
                "a run would ask no engine about these pages (text of their own, or blank); they are read"
            )
    if not found.sheets:
        raise InputError("no page of the input can be rendered: pagemill plan INPUT says why")
    if not config.inputs:
        found.notes.append("measured on the sample documents: name an INPUT to measure on pages like yours")
    return found


def _gathered(
    discovery: Discovery, prepared: Prepared, rule: RasterRule, selection: Selection, wanted: Wanted
) -> Pages:
    pages, num_bytes = Pages(), 0
    edges = _edges(discovery, prepared, rule, selection, wanted.num_buckets)
    rasters = islice(_rasters(discovery, prepared, rule, selection), MOST_PAGES)
    for raster in tqdm(rasters, "rendering", unit=" pages", leave=False, disable=None):
        name = edges.bucket_of(raster.sized.length)
        pages.num_seen[name] += 1
        kept = pages.buckets.setdefault(name, [])
        if len(kept) < wanted.pages_per_bucket and (not kept or num_bytes < wanted.num_bytes):
            number = len(pages.sheets)
            pages.sheets.append(Sheet.lay_down(raster, wanted.folder / f"{number}.npy"))
            kept.append(number)
            num_bytes += raster.sized.num_bytes
    for kept in pages.buckets.values():
        kept.sort(key=lambda number: -pages.sheets[number].sized.length)
    return pages


def _edges(discovery: Discovery, prepared: Prepared, rule: RasterRule, selection: Selection, num_buckets: int) -> Edges:
    """The buckets that a run over these pages would choose, but so many; nothing is rendered for it."""
    lengths, discovery = Lengths(), Discovery(discovery.inputs, discovery.exclude)  # one tells of a source once only
    for found in _documents(discovery.sources(), discovery, prepared):
        with suppress(PageFault):
            sized = size_pages(found.document, rule, prepared.limits, selection)
            for page in islice((item for item in sized if isinstance(item, SizedPage)), MOST_OF_A_DOCUMENT):
                lengths.add(page.length)
        if lengths.num_pages >= MOST_PAGES:
            break
    return lengths.edges(num_buckets)


def _documents(sources: Iterable[Source], discovery: Discovery, prepared: Prepared) -> Iterator[Probe]:
    """Those that can be opened, also in archives; what cannot be read is a run's affair."""
    for source in sources:
        found = probe(source, hash_content=False, limits=prepared.limits)
        if found.members:
            yield from _documents(discovery.within(found.members), discovery, prepared)
        elif found.failure is None:
            yield found


def _rasters(discovery: Discovery, prepared: Prepared, rule: RasterRule, selection: Selection) -> Iterator[Raster]:
    """The pages for the engine."""
    for found in _documents(discovery.sources(), discovery, prepared):
        asked = selection.mask(found.document.page_count or 0)
        indices = (index for index in range(found.document.page_count or 0) if asked >> index & 1)
        for index in islice(indices, MOST_OF_A_DOCUMENT):
            for made in render_pages(found.document, index, index + 1, rule, prepared.limits):
                if isinstance(made, Raster):
                    yield made
