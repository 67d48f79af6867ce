"""`pagemill run`: read documents and commit what was read."""

from __future__ import annotations

import json
import os
import time
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from jobs.claim import Claim, claimed
from jobs.machine import machine, raster_bytes, versions
from jobs.outcome import Ending, TimedWatch
from jobs.prepare import Prepared, prepare
from jobs.progress import Progress
from jobs.sizing import NO_TUNING
from pipeline.commit import CommitLimits, Committer
from pipeline.config import JobConfig
from pipeline.document import absolute_path
from pipeline.errors import ConfigurationError, ErrorCode, UnfinishedError
from pipeline.flow import Flow, FlowLimits
from pipeline.ledger import Ledger
from pipeline.location import Location, is_remote
from pipeline.oldest import oldest_first
from pipeline.runner import Runner, drive
from pipeline.shelf import clear
from pipeline.source import Discovery
from pipeline.stats import Totals
from pipeline.store import Store
from pipeline.table import RunKeys
from pipeline.task import Ready
from pipeline.vanishing import vanished


@dataclass(frozen=True, slots=True)
class RunReport:
    """How a run went. `outcome` is one of `jobs.outcome.Ending`."""

    run_id: str
    out: str
    outcome: str
    exit_code: int
    seconds: float
    startup_s: float
    num_ignored: int
    num_committed: int
    totals: Totals
    keys: RunKeys
    problem: str | None = None

    @property
    def pages_per_s(self) -> float:
        """Pages read a second once everything had started; copies are not read."""
        return (self.totals.pages - self.totals.pages_copied) / max(self.seconds - self.startup_s, 1e-9)

    def as_json(self) -> str:
        """The totals of the run for a program to read."""
        totals = self.totals
        values = {
            "run_id": self.run_id,
            "out": self.out,
            "outcome": self.outcome,
            "exit_code": self.exit_code,
            "problem": self.problem,
            "seconds": round(self.seconds, 3),
            "startup_s": round(self.startup_s, 3),
            "pages_per_s": round(self.pages_per_s, 3),
            "ignored": self.num_ignored,
            "committed": self.num_committed,
            "engine": self.keys.engine.name,
            "config_fingerprint": self.keys.config_fingerprint,
            **totals.as_dict(),
            "padding_ratio": round(totals.padding_ratio, 6),
        }
        return json.dumps(values)


def run(config: JobConfig, until: datetime | None = None, claim: Claim | None = None) -> RunReport:
    """Do a job: everything that is asked for and not committed yet.

    Args:
        config: What is asked for.
        until: When to stop; else `config.stop_at` counts from now.
        claim: The output, if it is held already.

    Raises:
        UsageError: nothing was started.
        UnfinishedError: it could not be started; what breaks later is told in the report.
    """
    if not config.inputs or not config.out:
        raise ConfigurationError("name at least one input and the output folder: pagemill run INPUT... OUT")
    until = until or config.ends_at(_now())
    config = replace(
        config,
        inputs=tuple(map(absolute, config.inputs)),
        out=absolute(config.out).rstrip("/") or "/",
        password_file=absolute(config.password_file) if config.password_file else "",
        model=absolute_model(config.model),
        tuning=config.tuning if config.tuning == NO_TUNING else absolute_model(config.tuning),
        engine_options=tuple(map(_absolute_option, config.engine_options)),
    )
    prepared = prepare(config)
    fetching = prepared.limits.fetching
    discovery = Discovery(config.inputs, config.exclude, config.out, not config.rehash, fetching)
    discovery.check()
    store = Store.open(config.out)
    fingerprint, started = prepared.spec.fingerprint(), time.monotonic()
    with nullcontext(claim) if claim else claimed(store, _now) as held, Progress(config.progress) as progress:
        keys = RunKeys(held.run_id, fingerprint, held.started_at, prepared.spec.identity)
        _announce(progress, prepared)
        ledger = _ledger(config, store, fingerprint)
        sources = discovery.sources()
        if config.order == "oldest":
            sources = oldest_first(sources, lambda source: ledger.done(source) is not None)
        flow = Flow(sources, ledger, _flow_limits(config, prepared), discovery.within)
        committer = Committer(store, keys, _commit_limits(config), time.monotonic, _now, held.lease.check, ledger)
        watch = TimedWatch(progress, until, _now)
        try:
            return _Run(config, prepared, discovery, flow, committer, watch, started).go()
        finally:
            clear(fetching.run)


def _ledger(config: JobConfig, store: Store, fingerprint: str) -> Ledger:
    """What counts as done. A limit or a list of passwords may have changed since a document was refused."""
    if config.overwrite:
        ledger = Ledger(config.selection)
        ledger.read_documents(store, None)
        return ledger
    look_again = {ErrorCode.DOCUMENT_TOO_LARGE} | ({ErrorCode.ENCRYPTED} if config.password_file else set())
    return Ledger.read(store, fingerprint, config.codes_to_retry, config.selection, frozenset(look_again))


@dataclass(slots=True)
class _Run:
    config: JobConfig
    prepared: Prepared
    discovery: Discovery
    flow: Flow
    committer: Committer
    watch: TimedWatch
    started: float

    def go(self) -> RunReport:
        """Pass over what is done, drive the flow through the rest, and say how it went."""
        flow, watch = self.flow, self.watch
        while flow.pass_over() and not watch.should_stop():
            watch.look(flow)
        if watch.should_stop():
            flow.stop()
        if flow.finished:
            report = self._report(time.monotonic() - self.started, self._tell_vanished())
        else:
            report = self._drive()
        self._commit_run(report)
        return report

    def _drive(self) -> RunReport:
        problem = None
        with self.watch.progress.overhearing():
            made = _make_runner(self.config, self.prepared)
        with closing(made) as runner:
            startup_s = time.monotonic() - self.started
            try:
                drive(self.flow, runner, self.committer, self.watch)
            except UnfinishedError as error:
                problem = str(error)
            return self._report(startup_s, problem or self._tell_vanished())

    def _tell_vanished(self) -> str | None:
        """Once every input was looked through, commit rows for what is gone; or what kept it from that."""
        if not self.flow.complete:
            return None
        store, census = self.committer.store, self.flow.ledger.census
        try:
            for gone in vanished(store, census, self.discovery):
                self.flow.totals += Totals(documents_vanished=1)
                self.committer.take(Ready(documents=[gone]))
            self.committer.flush()
        except UnfinishedError as error:
            return str(error)
        return None

    def _report(self, startup_s: float, problem: str | None = None) -> RunReport:
        budget, ran_out = self.config.failure_budget, self.watch.ran_out and not self.watch.progress.should_stop()
        ending = Ending(self.flow.totals, self.flow.complete, ran_out, problem, budget)
        return RunReport(
            run_id=self.committer.keys.run_id,
            out=self.committer.store.location,
            outcome=ending.outcome,
            exit_code=ending.exit_code,
            seconds=time.monotonic() - self.started,
            startup_s=startup_s,
            num_ignored=self.discovery.num_ignored,
            num_committed=self.committer.num_committed,
            totals=self.flow.totals,
            keys=self.committer.keys,
            problem=problem,
        )

    def _commit_run(self, report: RunReport) -> None:
        row: dict[str, Any] = {
            "run_id": report.run_id,
            "config_fingerprint": report.keys.config_fingerprint,
            "started_at": report.keys.started_at,
            "finished_at": _now(),
            "outcome": report.outcome,
            "config": self.config.as_json(),
            "versions": json.dumps(versions()),
            "machine": json.dumps(machine()),
            "totals": json.dumps(report.totals.as_dict()),
        }
        try:
            self.committer.put_run(row)
        except UnfinishedError as error:
            if report.problem is None:  # else its cause is told already
                self.watch.say(f"the row of the run could not be written: {error}")


def absolute(given: str) -> str:
    """An input or output as it can be named from any folder, so that `pagemill retry` finds it again."""
    if given.startswith("@"):
        return "@" + absolute(given[1:])
    if is_remote(given):
        return Location.parse(given).uri
    return given if "://" in given else absolute_path(os.path.expanduser(given))


def absolute_model(model: str) -> str:
    """A model's folder as it can be named from any folder; what is no path here is the id of one on a hub."""
    path = os.path.expanduser(model)
    return absolute_path(path) if model and os.path.exists(path) else model


def _absolute_option(pair: str) -> str:
    key, separator, value = pair.partition("=")
    return f"{key}{separator}{absolute_model(value)}" if key == "model" else pair


def _make_runner(config: JobConfig, prepared: Prepared) -> Runner:
    spec = prepared.spec
    if config.runner == "local":
        from pipeline.local import LocalRunner

        return LocalRunner(prepared.engine, prepared.options, spec.raster, prepared.limits)
    from pipeline.cluster import ClusterOptions, ClusterRunner

    options = ClusterOptions(
        config.ray_address,
        config.actors or prepared.sizing.actors,
        config.rasterizers,
        raster_bytes(config),
        prepared.limits,
    )
    cluster = ClusterRunner(prepared.engine, prepared.options, spec.needs, spec.raster, options)
    try:
        cluster.start()
    except SystemExit as error:  # Ray's own handler of SIGTERM, until ours is back
        raise KeyboardInterrupt from error
    return cluster


def _announce(progress: Progress, prepared: Prepared) -> None:
    identity = prepared.spec.identity
    model = f", model {identity.model}" if identity.model else ""
    progress.say(f"engine {identity.name} {identity.version}{model} ({prepared.reason})")
    if prepared.sizing.said:
        progress.say(prepared.sizing.said)


def _flow_limits(config: JobConfig, prepared: Prepared) -> FlowLimits:
    return FlowLimits(prepared.batch_limits(config), raster_bytes(config), config.pages_per_task)


def _commit_limits(config: JobConfig) -> CommitLimits:
    return CommitLimits(config.commit_pages, config.commit_seconds, config.commit_mb << 20)


def _now() -> datetime:
    return datetime.now(UTC)
