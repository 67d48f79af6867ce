"""`pagemill nightly`: a night as a file describes it: measure if it is time, read, tidy up, and say how it went."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from jobs.claim import Claim, claimed
from jobs.hook import tell
from jobs.nightly_file import Night
from jobs.prepare import prepare
from jobs.run import RunReport, absolute, run
from jobs.sizing import NO_TUNING
from jobs.summary import summary
from jobs.tune import tune
from jobs.tune_options import TuneOptions
from jobs.upkeep import UpkeepReport, tend
from pipeline.config import JobConfig
from pipeline.errors import (
    EXIT_DONE,
    EXIT_INTERRUPTED,
    EXIT_OUT_OF_TIME,
    EXIT_UNFINISHED,
    ConfigurationError,
    OutputInUseError,
    PagemillError,
    UnfinishedError,
)
from pipeline.store import Store
from pipeline.tuning.file import find, key_of
from pipeline.tuning.tuning import Tuning

_TIDY = ("done", "pages_failed", "out_of_time")
"""After runs that ended so the output is tidied up; after others it is left for the next night."""


@dataclass(slots=True)
class NightReport:
    """How a night went; `run` is None if there was none, and then `problem` says why."""

    out: str
    run: RunReport | None = None
    summary: str = ""
    tuned: bool = False
    upkeep: UpkeepReport | None = None
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    failed_with: int = EXIT_DONE

    @property
    def exit_code(self) -> int:
        """That of the run; what went wrong around it turns a good end into an unfinished one."""
        code = self.run.exit_code if self.run else self.failed_with
        return EXIT_UNFINISHED if self.problems and code in (EXIT_DONE, EXIT_OUT_OF_TIME) else code

    def as_json(self) -> str:
        """The totals of the run, and beside them what was done around it."""
        values: dict[str, Any] = json.loads(self.run.as_json()) if self.run else {"out": self.out, "outcome": "not_run"}
        values |= {"exit_code": self.exit_code, "tuned": self.tuned, "notes": self.notes, "problems": self.problems}
        values["upkeep"] = json.loads(self.upkeep.as_json()) if self.upkeep else None
        return json.dumps(values)

    def as_text(self) -> str:
        """The same for a person."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.run:
            yield self.summary
        if self.upkeep:
            dropped = f", {self.upkeep.rows_dropped} old rows dropped" if self.upkeep.rows_dropped else ""
            yield f"files      {self.upkeep.parts_before} before, {self.upkeep.parts_after} now{dropped}"
        yield from (f"note       {note}" for note in self.notes)


def nightly(night: Night) -> NightReport:
    """Do a night; whoever is to be told of it is, also of one that could not begin.

    Raises:
        KeyboardInterrupt: somebody wanted it to stop at once; nobody is told.
    """
    report = NightReport(night.config.out)
    try:
        _go(night, report)
    except PagemillError as error:
        report.failed_with = report.failed_with or error.exit_code
        report.problems.append(str(error))
    if night.hook is not None and (report.exit_code or night.hook.when == "always"):
        report.problems += tell(night.hook, report.as_json())
    return report


def _go(night: Night, report: NightReport) -> None:
    config, now = night.config, datetime.now(UTC)
    if not config.inputs or not config.out:
        raise ConfigurationError('the file of the night names no inputs, or no output: inputs = [...], out = "..."')
    until = config.ends_at(now)
    store = Store.open(absolute(config.out))
    try:
        with claimed(store, lambda: datetime.now(UTC)) as claim:
            config = _measured(night, until, report)
            if report.failed_with != EXIT_INTERRUPTED:
                report.run = run(config, until, claim)
                report.summary = summary(report.run)  # which reads the first rows back: they lie elsewhere afterwards
                _tidy(night, store, claim, report)
    except OutputInUseError as error:
        if report.run is None:
            raise OutputInUseError(f"the night before is not over, and this one is left out: {error}") from error
        raise


def _measured(night: Night, until: datetime | None, report: NightReport) -> JobConfig:
    """Measure batch sizes anew if that is due: the configuration to run with."""
    config = night.config
    if night.tune is None:
        return config
    counts = {"max_batch": 0, "pages_per_trial": 16, "repeats": 3, "buckets": 4}
    told = TuneOptions.of(config, sizes="", picture="", minutes=night.tune.minutes, **counts)
    reason = _reason_not_to(night, config, told, until)
    if reason is None:
        _say(f"measuring batch sizes for up to {night.tune.minutes:g} minutes")
        found = tune(config, told)
        report.tuned = found.tuning is not None
        report.failed_with = EXIT_INTERRUPTED if found.exit_code == EXIT_INTERRUPTED else EXIT_DONE
        reason = found.problem and f"batch sizes were not measured: {found.problem}"
    if reason:
        report.notes.append(reason)
    return config if not config.tuning or told.path.exists() else replace(config, tuning=NO_TUNING)


def _reason_not_to(night: Night, config: JobConfig, told: TuneOptions, until: datetime | None) -> str | None:
    """Why nothing is measured tonight; empty if that is as it should be."""
    if config.asked_batch_size:
        return "batch sizes are not measured: batch_size says what they are"
    prepared = prepare(replace(config, tuning=NO_TUNING))
    found = find(told.path, key_of(prepared.engine, prepared.options, prepared.spec.identity))
    days = timedelta(days=night.tune.every_days if night.tune else 0)
    now = datetime.now(UTC)
    if isinstance(found, Tuning) and now - datetime.fromisoformat(found.measured_at) < days:
        return ""
    if until is not None and now + timedelta(minutes=2 * told.minutes) > until:
        return "batch sizes are not measured: too little time is left until it is time to stop"
    return None


def _tidy(night: Night, store: Store, claim: Claim, report: NightReport) -> None:
    """Put parts together and drop old rows, if the run has ended well enough and the file of the night says so."""
    told, ended = night.upkeep, report.run
    if told is None or ended is None or ended.outcome not in _TIDY:
        return
    try:
        report.upkeep = tend(store, f"{claim.run_id}-night", told, claim.lease.check)
    except UnfinishedError as error:
        report.problems.append(f"the output could not be tidied up: {error}")


def _say(text: str) -> None:
    sys.stderr.write(f"pagemill: {text}\n")
