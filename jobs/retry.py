"""`pagemill retry`: the last run of an output once more, with the pages that failed."""

from __future__ import annotations

import json
from typing import Any

from pipeline.config import JobConfig, from_mapping
from pipeline.errors import InputError
from pipeline.parquet import part_keys, read_part
from pipeline.store import Store


def last_configuration(out: str, codes: str) -> JobConfig:
    """The configuration of the newest run in an output, told to read again what failed with one of these codes.

    Raises:
        UsageError: there is no such folder, or no run has left its row there.
    """
    store = Store.existing(out)
    keys = part_keys(store, "runs")
    if not keys:
        raise InputError(f"{out}: no finished run to take the configuration from; use pagemill run --retry-failed")
    _, newest = max(read_part(store, keys[-1], ["run_id", "config"]))
    values: dict[str, Any] = from_mapping(json.loads(newest))
    return JobConfig(**{**values, "out": out, "retry_failed": codes, "overwrite": False})
