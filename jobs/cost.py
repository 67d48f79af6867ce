"""What a plan costs: hours and money, extrapolated from a run that is finished. The formulas are in docs/sizing.md."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from pipeline.errors import ConfigurationError
from pipeline.parquet import part_keys, read_columns, read_part
from pipeline.stats import Buckets, BucketTotals
from pipeline.store import Store

_COLUMNS = ("run_id", "config_fingerprint", "outcome", "config", "totals", "started_at", "finished_at")
_ENDED = ("done", "pages_failed", "out_of_time")
_LEAST_PAGES = 30
"""Fewer pages than these say little; the estimate says so."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a finished run tells of the pages that its engines have read."""

    run_id: str
    pages: int
    engine_pages: int
    engines: int
    seconds: float
    engine_s: float
    raster_s: float
    raster_bytes: int
    costs: tuple[tuple[float, float], ...]
    """Mean length of a bucket's pages and seconds of an engine for one of them, by length."""
    is_same: bool

    @classmethod
    def newest(cls, store: Store, engine: str, fingerprint: str) -> Measured:
        """The newest run in an output that is like the plan, or else one of the same engine.

        Raises:
            ConfigurationError: there is none; the message says what to do.
            StorageError: the output cannot be read.
        """
        rows = [dict(zip(_COLUMNS, row, strict=True)) for part in read_columns(store, "runs", _COLUMNS) for row in part]
        rows = [row for row in rows if row["outcome"] in _ENDED and json.loads(row["totals"]).get("batched_pages")]
        same = [row for row in rows if row["config_fingerprint"] == fingerprint]
        kin = [row for row in rows if json.loads(row["config"]).get("engine") in (engine, "auto")]
        if not same and not kin:
            raise ConfigurationError(
                f"no finished run of engine {engine} in {store.location} to go by: read some of the documents first"
                " (pagemill run INPUT... OUT --max-pages-per-document 20) and name that output with --from"
            )
        row = max(same or kin, key=lambda row: str(row["run_id"]))
        return cls._of(row, _num_engines(store, row["run_id"]), is_same=bool(same))

    @classmethod
    def _of(cls, row: Mapping[str, Any], engines: int, *, is_same: bool) -> Measured:
        totals = json.loads(row["totals"])
        buckets = Buckets({int(name): BucketTotals(**bucket) for name, bucket in totals["buckets"].items()})
        read = [bucket for bucket in buckets.values() if bucket.pages and bucket.engine_s]
        return cls(
            run_id=row["run_id"],
            pages=totals["pages"] - totals["pages_copied"],
            engine_pages=totals["batched_pages"],
            engines=engines,
            seconds=max(1e-9, (row["finished_at"] - row["started_at"]).total_seconds()),
            engine_s=sum(bucket.engine_s for bucket in read),
            raster_s=totals["raster_s"],
            raster_bytes=totals["raster_bytes"],
            costs=tuple(
                sorted((bucket.length_tokens / bucket.pages, bucket.engine_s / bucket.pages) for bucket in read)
            ),
            is_same=is_same,
        )

    @property
    def busy(self) -> float:
        """The share of the run in which its engines worked, 0 to 1: they wait for the start, and for pages."""
        return min(1.0, self.engine_s / (self.seconds * self.engines))

    def engine_s_of(self, length: float) -> float:
        """Seconds of an engine for a page of this length.

        Between two that were measured in a straight line, beyond them in proportion to the length.
        """
        first, last = self.costs[0], self.costs[-1]
        if length <= first[0] or length >= last[0]:
            nearest = first if length <= first[0] else last
            return nearest[1] * length / nearest[0]
        below, above = next((a, b) for a, b in pairwise(self.costs) if length <= b[0])
        return below[1] + (above[1] - below[1]) * (length - below[0]) / (above[0] - below[0])


@dataclass(frozen=True, slots=True)
class Cost:
    """What a plan comes to."""

    from_run: str
    pages: int
    engine_pages: int
    gpus: int
    gpu_hours: float
    hours: float
    price_per_gpu_hour: float
    money: float
    busy: float
    pages_per_s: float
    raster_cores: float
    raster_bytes_per_s: float
    input_bytes_per_s: float
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, buckets: Sequence[tuple[int, int]], size_bytes: int, run: Measured, *, price: float, gpus: int = 0
    ) -> Cost:
        """The cost of pages given as number of pages and sum of lengths, by bucket.

        Args:
            buckets: Pages and tokens of each bucket of the plan.
            size_bytes: Of all documents.
            run: What to go by.
            price: Of one engine's GPU for an hour, in any currency.
            gpus: Engines at work; 0 takes as many as the run had.
        """
        share = min(1.0, run.engine_pages / max(1, run.pages))
        pages = sum(count for count, _ in buckets)
        work_s = share * sum(count * run.engine_s_of(tokens / count) for count, tokens in buckets if count)
        gpu_hours, gpus = work_s / run.busy / 3600, gpus or run.engines
        hours = gpu_hours / gpus
        pages_per_s = pages / (hours * 3600) if hours else 0.0
        return cls(
            from_run=run.run_id,
            pages=pages,
            engine_pages=round(share * pages),
            gpus=gpus,
            gpu_hours=gpu_hours,
            hours=hours,
            price_per_gpu_hour=price,
            money=gpu_hours * price,
            busy=run.busy,
            pages_per_s=pages_per_s,
            raster_cores=pages_per_s * run.raster_s / max(1, run.pages),
            raster_bytes_per_s=pages_per_s * run.raster_bytes / max(1, run.pages),
            input_bytes_per_s=size_bytes / (hours * 3600) if hours else 0.0,
            notes=tuple(_notes(run, gpus)),
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """The same for a person."""
        yield f"goes by    run {self.from_run}, whose engines worked {self.busy:.0%} of the time"
        to_read = f"{self.engine_pages} of {self.pages} pages go to an engine"
        yield f"work       {to_read}: {_number(self.gpu_hours)} GPU hours"
        rate = f"{_number(self.pages_per_s)} pages/s"
        yield f"time       {_number(self.hours)} hours with {self.gpus} GPU{'s' if self.gpus > 1 else ''}, {rate}"
        yield f"price      {self.money:,.2f} at {self.price_per_gpu_hour:g} a GPU hour"
        bytes_per_s = (
            f"{self.raster_bytes_per_s / 1e6:.1f} MB/s of rasters, {self.input_bytes_per_s / 1e6:.1f} MB/s read"
        )
        yield f"besides    {_number(self.raster_cores)} CPU cores to rasterize, {bytes_per_s}"
        yield from (f"note       {note}" for note in self.notes)


def check_price(price: float | None, out: str, gpus: int) -> bool:
    """Whether a price is asked for, and all that it takes is told.

    Raises:
        ConfigurationError: something is missing or makes no sense.
    """
    if price is None:
        if out or gpus:
            raise ConfigurationError("--from and --gpus are for a price: give --price-per-gpu-hour, too")
        return False
    if not 0 <= price < math.inf or gpus < 0:
        raise ConfigurationError("--price-per-gpu-hour must be a price, and --gpus a number of GPUs")
    if not out:
        raise ConfigurationError("--price-per-gpu-hour goes by a finished run: name its output with --from OUT")
    return True


def _num_engines(store: Store, run_id: str) -> int:
    """How many engines have read batches in a run."""
    actors = {
        (node, actor)
        for key in part_keys(store, "batches")
        for run, node, actor in read_part(store, key, ("run_id", "node", "actor"))
        if run == run_id and actor is not None
    }
    return max(1, len(actors))


def _notes(run: Measured, gpus: int) -> Iterator[str]:
    if not run.is_same:
        yield "that run had other options of the engine or the raster: the estimate is rough"
    if run.engine_pages < _LEAST_PAGES:
        yield f"that run has read {run.engine_pages} pages only: the estimate is rough"
    if gpus > run.engines:
        yield f"{gpus} GPUs are taken to be as busy as {run.engines} were: that takes the CPU cores named above"


def _number(value: float) -> str:
    """Three figures, as people write them."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
