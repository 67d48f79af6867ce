"""`pagemill plan`: what a run would do, without an engine and without rendering a page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from jobs.cost import Cost, Measured
from jobs.prepare import Prepared, prepare
from pipeline.batch import Batch, padding_share
from pipeline.config import JobConfig
from pipeline.document import Source
from pipeline.errors import ConfigurationError, PageFault
from pipeline.packer import Packer
from pipeline.page import Page, RasterLimits, SizedPage
from pipeline.raster import probe, size_pages
from pipeline.result import Failure, Probe, Stage
from pipeline.selection import Selection
from pipeline.source import Discovery
from pipeline.store import Store


@dataclass(slots=True)
class BucketPlan:
    """What one bucket would hold."""

    pages: int = 0
    batches: int = 0
    tokens: int = 0
    padded_tokens: int = 0
    batch_size: int = 0
    smallest_px: tuple[int, int] = (0, 0)
    largest_px: tuple[int, int] = (0, 0)

    def add(self, batch: Batch) -> None:
        """Count one batch."""
        self.batch_size = max(self.batch_size, batch.cut.size_limit if batch.cut else 0)
        sizes = sorted(((s.width_px, s.height_px) for s in batch.pages), key=lambda wh: wh[0] * wh[1])
        area = self.smallest_px[0] * self.smallest_px[1]
        if not self.pages or sizes[0][0] * sizes[0][1] < area:
            self.smallest_px = sizes[0]
        if sizes[-1][0] * sizes[-1][1] > self.largest_px[0] * self.largest_px[1]:
            self.largest_px = sizes[-1]
        self.pages += len(batch.pages)
        self.batches += 1
        self.tokens += sum(batch.lengths)
        self.padded_tokens += batch.padded_tokens


@dataclass(slots=True)
class Plan:
    """Documents, pages, buckets and batches of a job, and what cannot be read."""

    engine: str
    dpi: float
    documents_by_type: Counter[str] = field(default_factory=Counter)
    pages_by_type: Counter[str] = field(default_factory=Counter)
    size_bytes: int = 0
    unreadable: list[tuple[str, str, str]] = field(default_factory=list)
    num_ignored: int = 0
    pages_copied: int = 0
    buckets: dict[int, BucketPlan] = field(default_factory=dict)
    fingerprint: str = ""
    cost: Cost | None = None

    @property
    def pages(self) -> int:
        """Pages that would be rendered; `pages_copied` are those of bytes that are read under another name."""
        return sum(bucket.pages for bucket in self.buckets.values())

    def as_json(self) -> str:
        """The plan for a program to read."""
        buckets = [
            {
                "bucket": name,
                "pages": b.pages,
                "batches": b.batches,
                "batch_size": b.batch_size,
                "padding_ratio": round(padding_share(b.padded_tokens, b.tokens), 6),
                "smallest_px": b.smallest_px,
                "largest_px": b.largest_px,
            }
            for name, b in sorted(self.buckets.items())
        ]
        unreadable = [dict(zip(("uri", "code", "message"), row, strict=True)) for row in self.unreadable]
        values = {
            "engine": self.engine,
            "dpi": self.dpi,
            "documents": sum(self.documents_by_type.values()),
            "documents_by_type": dict(self.documents_by_type),
            "pages": self.pages,
            "pages_copied": self.pages_copied,
            "pages_by_type": dict(self.pages_by_type),
            "size_bytes": self.size_bytes,
            "ignored": self.num_ignored,
            "unreadable": unreadable,
            "buckets": buckets,
            **({"cost": self.cost.as_dict()} if self.cost else {}),
        }
        return json.dumps(values)

    def add_cost(self, out: str, price: float, gpus: int) -> None:
        """Say what all this costs, going by a finished run in an output.

        Raises:
            UsageError: there is no such output, or no run to go by.
            StorageError: it cannot be read.
        """
        run = Measured.newest(Store.existing(out), self.engine, self.fingerprint)
        buckets = [(bucket.pages, bucket.tokens) for bucket in self.buckets.values()]
        self.cost = Cost.of(buckets, self.size_bytes, run, price=price, gpus=gpus)

    def as_text(self) -> str:
        """The plan for a person to read."""
        return "\n".join(_lines(self))


def make_plan(config: JobConfig) -> Plan:
    """Probe every document, size every page, and pack them as a run would.

    Raises:
        UsageError: an input does not exist, or the engine or an option is unknown.
    """
    if not config.inputs:
        raise ConfigurationError("name at least one input: pagemill plan INPUT...")
    prepared = prepare(config, must_run=False)
    limits = prepared.batch_limits(config)
    discovery = Discovery(config.inputs, config.exclude)
    discovery.check()
    plan = Plan(prepared.spec.identity.name, prepared.spec.raster.dpi, fingerprint=prepared.spec.fingerprint())
    packer = Packer.of(limits)
    for sized in _sized_pages(discovery, prepared, config.selection, plan):
        packer.add(sized)
        _count(plan, iter(packer.take, None))
    _count(plan, iter(lambda: packer.take(force=True), None))
    plan.num_ignored = discovery.num_ignored
    return plan


@dataclass(slots=True)
class _Twins:
    """Finds bytes that were seen before; only files of one size are hashed."""

    _first_of_size: dict[int, Source | None] = field(default_factory=dict)
    _seen: set[str | None] = field(default_factory=set)

    def has(self, source: Source, size_bytes: int) -> bool:
        """Whether a file has the bytes of one before it."""
        if size_bytes not in self._first_of_size:
            self._first_of_size[size_bytes] = source
            return False
        if first := self._first_of_size[size_bytes]:
            self._seen.add(probe(first).document.document_id)
            self._first_of_size[size_bytes] = None
        document_id = probe(source).document.document_id
        is_twin = document_id in self._seen
        self._seen.add(document_id)
        return is_twin


def _sized_pages(discovery: Discovery, prepared: Prepared, selection: Selection, plan: Plan) -> Iterator[SizedPage]:
    rule, limits = prepared.spec.raster, prepared.limits
    twins = _Twins()
    for source, found in _probed(discovery.sources(), discovery, limits):
        document = found.document
        if found.failure is not None:
            _note(plan, source.uri, found.failure)
            continue
        kind = document.media_type or ""
        plan.documents_by_type[kind] += 1
        plan.size_bytes += document.size_bytes or 0
        if twins.has(source, document.size_bytes or 0):
            plan.pages_copied += selection.mask(document.page_count or 0).bit_count()
            continue
        try:
            for item in size_pages(document, rule, limits, selection):
                if isinstance(item, SizedPage):
                    plan.pages_by_type[kind] += 1
                    yield item
                else:
                    _note(plan, _where(item.page), item.failure)
        except PageFault as fault:
            _note(plan, source.uri, Failure.of(Stage.DISCOVER, fault))


def _probed(sources: Iterable[Source], discovery: Discovery, limits: RasterLimits) -> Iterator[tuple[Source, Probe]]:
    """Each source that is no archive, and the members of those that are."""
    for source in sources:
        found = probe(source, hash_content=False, limits=limits)
        if found.members:
            yield from _probed(discovery.within(found.members), discovery, limits)
        if found.failure is not None or not found.members:
            yield source, found


def _note(plan: Plan, where: str, failure: Failure) -> None:
    plan.unreadable.append((where, str(failure.code), failure.message))


def _where(page: Page) -> str:
    return f"{page.uri}#page={page.page_index + 1}"


def _count(plan: Plan, batches: Iterable[Batch]) -> None:
    for batch in batches:
        plan.buckets.setdefault(batch.bucket, BucketPlan()).add(batch)


def _lines(plan: Plan) -> Iterator[str]:
    yield f"engine     {plan.engine}, {plan.dpi:g} dpi"
    yield f"documents  {sum(plan.documents_by_type.values())}, {_size(plan.size_bytes)}"
    for kind, count in plan.documents_by_type.most_common():
        yield f"           {count:>7} {kind}, {plan.pages_by_type[kind]} pages"
    copied = f", and {plan.pages_copied} to be copied, since the same bytes are there under another name"
    yield f"pages      {plan.pages}{copied if plan.pages_copied else ''}"
    if plan.num_ignored:
        yield f"left out   {plan.num_ignored} files and folders (hidden, unfinished, or by an ignore pattern)"
    if plan.buckets:
        yield ""
        yield f"{'bucket':>8} {'pages':>7} {'batches':>8} {'of up to':>9} {'padding':>8}  rasters"
        for name, bucket in sorted(plan.buckets.items()):
            yield _bucket_line(f"<= {name}", bucket)
        padded = sum(b.padded_tokens for b in plan.buckets.values())
        tokens = sum(b.tokens for b in plan.buckets.values())
        batches = sum(b.batches for b in plan.buckets.values())
        yield f"{'all':>8} {plan.pages:>7} {batches:>8} {'':>9} {padding_share(padded, tokens):>8.1%}"
    if plan.cost:
        yield ""
        yield from plan.cost.lines()
    for where, code, message in plan.unreadable[:20]:
        yield f"cannot read {where}: {code}, {message}"
    if len(plan.unreadable) > 20:
        yield f"... and {len(plan.unreadable) - 20} more that cannot be read"


def _bucket_line(name: str, bucket: BucketPlan) -> str:
    ratio = padding_share(bucket.padded_tokens, bucket.tokens)
    smallest, largest = ("{} x {}".format(*size) for size in (bucket.smallest_px, bucket.largest_px))
    sizes = smallest if smallest == largest else f"{smallest} to {largest}"
    return f"{name:>8} {bucket.pages:>7} {bucket.batches:>8} {bucket.batch_size:>9} {ratio:>8.1%}  {sizes}"


def _size(num_bytes: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if num_bytes < 1000 or unit == "GB":
            return f"{num_bytes:.0f} {unit}" if unit == "bytes" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1000
    raise AssertionError("unreachable")
