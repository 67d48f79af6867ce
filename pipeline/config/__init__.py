"""What a job may be told: declared once here, closed, and the source of flags and job-file keys alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, fields
from datetime import datetime
from typing import Any, get_type_hints

from pipeline.config.documents import InputOptions, PageOptions, RasterOptions
from pipeline.config.reading import BatchOptions, EngineOptions
from pipeline.config.running import OutputOptions, RunnerOptions
from pipeline.errors import ConfigurationError, ErrorCode
from pipeline.option import check, coerce, nearest, number_or_auto
from pipeline.schedule import FailureBudget, clock_time, next_time
from pipeline.selection import Selection

ENGINE_FLAGS = ("model", "revision", "task", "prompt", "decode", "quantize")
"""Options of a job that are passed, where they are set, to the engine as its options of the same names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConfig(RunnerOptions, OutputOptions, BatchOptions, RasterOptions, PageOptions, EngineOptions, InputOptions):
    """Everything a run can be told. Job-file keys are the field names, flags the same with dashes."""

    inputs: tuple[str, ...] = ()
    out: str = ""

    def __post_init__(self) -> None:
        for item in fields(self):
            check(item, getattr(self, item.name))
        Selection.parse(self.pages)
        number_or_auto("--batch-size", self.batch_size)
        clock_time("--stop-at", self.stop_at)
        FailureBudget.parse("--max-failed-pages", self.max_failed_pages)
        unknown = [code for code in self.codes_to_retry or () if code not in tuple(ErrorCode)]
        if unknown:
            raise ConfigurationError(
                f"--retry-failed: no error code '{unknown[0]}'{nearest(unknown[0], tuple(ErrorCode))}"
            )

    @property
    def asked_batch_size(self) -> int | None:
        """Pages in a batch, if a number was asked for."""
        return number_or_auto("--batch-size", self.batch_size)

    @property
    def codes_to_retry(self) -> frozenset[str] | None:
        """Error codes of pages to read again; None for all of them."""
        if self.retry_failed == "all":
            return None
        return frozenset(code.strip() for code in self.retry_failed.split(",") if code.strip())

    @property
    def failure_budget(self) -> FailureBudget | None:
        """How many pages may fail, if anybody has said."""
        return FailureBudget.parse("--max-failed-pages", self.max_failed_pages)

    def ends_at(self, now: datetime) -> datetime | None:
        """When a run that starts now is to stop, if at all."""
        at = clock_time("--stop-at", self.stop_at)
        return next_time(at, now) if at else None

    @property
    def selection(self) -> Selection:
        """The pages asked for."""
        return Selection.parse(self.pages, self.max_pages_per_document)

    def as_json(self) -> str:
        """The resolved configuration, keys sorted, as it is written beside the output."""
        return json.dumps(asdict(self), sort_keys=True)


def option_fields() -> list[Field[Any]]:
    """The fields that are options (all but `inputs` and `out`), in the order of declaration."""
    return [f for f in fields(JobConfig) if f.metadata]


def from_mapping(values: Mapping[str, Any]) -> dict[str, Any]:
    """Check the keys and types of a job file and give values fit for `JobConfig`.

    Raises:
        ConfigurationError: an unknown key (the message names the nearest known one) or a wrong type.
    """
    types_by_name = get_type_hints(JobConfig)
    return {key: coerce(key, value, types_by_name) for key, value in values.items()}
