"""Counts and timings of a run that merge in any grouping, with `Totals()` as the neutral element. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from pipeline.batch import padding_share
from pipeline.result import BatchReport, PageResult, Status


def _counter() -> Counter[str]:
    return Counter()


@dataclass(frozen=True, slots=True)
class BucketTotals:
    """The batches of one bucket: what they held, what was padding, and the decode slots that waited.

    `slots` and `idle_slots` count steps of slots, for engines that say how many of theirs stood idle. `engine_s` are
    seconds that engines worked, summed over all of them.
    """

    pages: int = 0
    batches: int = 0
    length_tokens: int = 0
    padded_tokens: int = 0
    slots: float = 0.0
    idle_slots: float = 0.0
    engine_s: float = 0.0

    def __add__(self, other: BucketTotals) -> BucketTotals:
        """Field by field."""
        return BucketTotals(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def padding_ratio(self) -> float:
        """Padding's share of the padded whole, 0 to 1."""
        return padding_share(self.padded_tokens, self.length_tokens)

    @property
    def idle_ratio(self) -> float | None:
        """Share of the slots that waited, 0 to 1; None where no engine has told of slots."""
        return self.idle_slots / self.slots if self.slots else None

    @property
    def pages_per_s(self) -> float | None:
        """Pages that one engine read a second; None where no time was told."""
        return self.pages / self.engine_s if self.engine_s else None


class Buckets(dict[int, BucketTotals]):
    """Batches by bucket; the sum of two has what either has."""

    def __add__(self, other: Buckets) -> Buckets:
        """Bucket by bucket."""
        if not other or not self:
            return self or other
        return Buckets({name: _either(self.get(name), other.get(name)) for name in sorted({*self, *other})})

    def whole(self) -> BucketTotals:
        """All buckets together."""
        return sum(self.values(), BucketTotals())


@dataclass(frozen=True, slots=True)
class Totals:
    """What a run, or a part of one, has done; `a + b` is what both have done together.

    `documents_new` have their first row in `documents`, `documents_changed` one that tells of other bytes than the row
    before; `documents_vanished` were told of and are no longer there. `pages` are rows, of which `pages_copied` were
    read under another name of the same bytes.
    `raster_s` and `engine_s` are seconds summed over all processes, not of the clock on the wall.
    """

    documents: int = 0
    documents_already_done: int = 0
    documents_new: int = 0
    documents_changed: int = 0
    documents_vanished: int = 0
    pages: int = 0
    pages_copied: int = 0
    pages_already_done: int = 0
    pages_failed_before: int = 0
    pages_by_status: Mapping[str, int] = field(default_factory=_counter)
    failures_by_code: Mapping[str, int] = field(default_factory=_counter)
    characters: int = 0
    raster_s: float = 0.0
    engine_s: float = 0.0
    raster_bytes: int = 0
    buckets: Buckets = field(default_factory=Buckets)

    def __add__(self, other: Totals) -> Totals:
        """Field by field: numbers add, counters add per key."""
        values: dict[str, Any] = {f.name: _plus(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}
        return Totals(**values)

    def as_dict(self) -> dict[str, object]:
        """Plain numbers and dictionaries, for JSON."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        whole = self.buckets.whole()
        values |= {"batches": whole.batches, "batched_pages": whole.pages}
        values |= {"length_tokens": whole.length_tokens, "padded_tokens": whole.padded_tokens}
        values["buckets"] = {str(name): asdict(bucket) for name, bucket in self.buckets.items()}
        return {name: dict(v) if isinstance(v, Mapping) else v for name, v in values.items()}

    @property
    def pages_failed(self) -> int:
        """Rows with status `failed`, documents that could not be opened among them."""
        return self.pages_by_status.get(Status.FAILED, 0)

    @property
    def padding_ratio(self) -> float:
        """Padding's share of all tokens the engine was given, 0 to 1."""
        return self.buckets.whole().padding_ratio

    @property
    def batches(self) -> int:
        """Batches that were read."""
        return self.buckets.whole().batches

    @property
    def batched_pages(self) -> int:
        """Pages in them that were told of."""
        return self.buckets.whole().pages


def of_result(result: PageResult) -> Totals:
    """One row's contribution."""
    sized = result.sized
    code = Counter({str(result.failure.code): 1}) if result.failure else Counter[str]()
    return Totals(
        pages=1,
        pages_by_status=Counter({str(result.status): 1}),
        failures_by_code=code,
        characters=len(result.recognition.text) if result.recognition else 0,
        raster_s=sized.raster_s if sized else 0.0,
        raster_bytes=sized.num_bytes if sized else 0,
    )


def of_batch(report: BatchReport) -> Totals:
    """One batch's contribution; of one that was cut short, those of its pages that were told of."""
    return Totals(engine_s=report.total_s or 0.0, buckets=Buckets({report.batch.bucket: _of_bucket(report)}))


def _of_bucket(report: BatchReport) -> BucketTotals:
    """Of an engine that reads several batches at once, its own work on the batch counts, where it tells of it."""
    batch, times, idle = report.batch, report.timings, report.idle_ratio
    worked = [s for s in (times.preprocess_s, times.transfer_s, times.prefill_s, times.decode_s) if s is not None]
    written = sum(report.output_tokens)
    slots = written / (1 - idle) if idle is not None and idle < 1 else 0.0
    return BucketTotals(
        pages=report.num_pages,
        batches=1,
        length_tokens=sum(batch.lengths),
        padded_tokens=batch.padded_tokens,
        slots=slots,
        idle_slots=slots - written if slots else 0.0,
        engine_s=sum(worked) if times.decode_s is not None else report.total_s or 0.0,
    )


def _either(one: BucketTotals | None, other: BucketTotals | None) -> BucketTotals:
    return (one or BucketTotals()) + (other or BucketTotals())


def _plus(left: object, right: object) -> object:
    if isinstance(left, Counter) and isinstance(right, Counter):
        return left + right
    if isinstance(left, Buckets) and isinstance(right, Buckets):
        return left + right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left + right
    raise TypeError(f"cannot add {type(left).__name__} and {type(right).__name__}")
