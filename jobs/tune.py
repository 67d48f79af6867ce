"""`pagemill tune`: which batch size suits an engine here, measured on pages like those of a job."""

from __future__ import annotations

import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from tqdm import tqdm

from jobs.machine import raster_bytes
from jobs.prepare import Prepared, prepare
from jobs.sizing import NO_TUNING
from jobs.tune_actors import Team, best_team, can_have_teams
from jobs.tune_options import TuneOptions
from jobs.tune_pages import Pages, Wanted, gather
from jobs.tune_report import TuneReport
from pipeline.config import JobConfig
from pipeline.errors import EXIT_DONE, EXIT_INTERRUPTED, UnfinishedError
from pipeline.tuning.bench import Bench
from pipeline.tuning.figures import TunedBucket
from pipeline.tuning.file import check_place, keep, key_of
from pipeline.tuning.search import Search, SearchLimits
from pipeline.tuning.trial import Ask, Trial
from pipeline.tuning.tuning import Tuning
from pipeline.tuning.worker import Order

_SHARE_FOR_SIZES = 0.75
"""Of the time for measuring, where processes and threads are measured afterwards."""

_REPEATS_IN_DOUBT = 5
"""A size of which it is not clear whether it is the knee is measured up to so many times as often."""


def tune(config: JobConfig, told: TuneOptions) -> TuneReport:
    """Gather pages, measure, and keep what was found.

    Ctrl-C ends the measuring: what was measured is in the report, and is not kept.

    Raises:
        UsageError: nothing was measured.
        UnfinishedError: the engine cannot be loaded.
    """
    prepared = prepare(replace(config, tuning=NO_TUNING))
    check_place(told.path)
    with tempfile.TemporaryDirectory(prefix="pagemill-tune-") as folder:
        wanted = Wanted(Path(folder), told.pages_per_trial, raster_bytes(config), told.buckets)
        return _Tune(config, prepared, told, gather(config, prepared, wanted)).report()


def _nobody_asks() -> None:
    pass


@contextmanager
def heeding_ctrl_c() -> Iterator[Callable[[], None]]:
    """Ctrl-C interrupts at once; where the exception is lost (in a destructor, say), the function given raises it."""
    hits: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        hits.append(number)
        signal.default_int_handler(number, frame)

    def check() -> None:
        if hits:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass(slots=True)
class _Tune:
    config: JobConfig
    prepared: Prepared
    told: TuneOptions
    pages: Pages
    notes: list[str] = field(default_factory=list)
    problem: str | None = None
    interrupted: bool = False
    check: Callable[[], None] = _nobody_asks
    num_read: int = 0
    search: Search | None = None
    team: Team | None = None

    def report(self) -> TuneReport:
        """Measure, keep, and say what came of it."""
        self.notes += self.pages.notes
        started = time.monotonic()
        try:
            with heeding_ctrl_c() as check:
                self.check = check
                self._measure_sizes(started)
                self._measure_team(until=started + self.told.minutes * 60)
        except KeyboardInterrupt:
            self.interrupted = True
            self.notes.append("stopped: what was measured is shown here, and is not kept")
        except UnfinishedError as error:
            if self.search is None:
                raise
            self.problem = str(error)
        found = self._found()
        tuning = self._kept(found)
        return TuneReport(
            engine=self.prepared.spec.identity.name,
            buckets=found,
            tuning=tuning,
            told=self.told,
            notes=self.notes,
            num_seen=self.pages.num_seen,
            seconds=time.monotonic() - started,
            exit_code=self._exit_code(tuning),
            problem=self.problem,
        )

    def _exit_code(self, tuning: Tuning | None) -> int:
        if self.interrupted:
            return EXIT_INTERRUPTED
        return EXIT_DONE if tuning is not None and self.problem is None else UnfinishedError.exit_code

    def _found(self) -> tuple[TunedBucket, ...]:
        """Curves that are whole; after Ctrl-C, which keeps nothing, what there is."""
        if self.search is None:
            return ()
        return self.search.so_far() if self.interrupted else self.search.found()

    def _measure_sizes(self, started: float) -> None:
        """Load the engine, and measure until everything is clear or the time for it is up."""
        told, on_gpu = self.told, self.prepared.spec.needs.num_gpus > 0
        until = started + told.minutes * 60 * (_SHARE_FOR_SIZES if can_have_teams(self.prepared) else 1.0)
        with Bench(self.prepared.engine, self.prepared.options, self.pages.sheets, on_gpu=on_gpu) as bench:
            with _saying(f"loading {self.prepared.spec.identity.name}"):
                loaded = bench.ready()
            self.notes += filter(None, [loaded.notice])
            sizes, most = told.sizes_for(on_gpu=on_gpu), told.repeats * _REPEATS_IN_DOUBT
            limits = SearchLimits(sizes, told.repeats, most, loaded.capacity_bytes, told.max_latency)
            shuffle = random.Random(0).shuffle  # noqa: S311 (an order of measurements)
            self.search = Search(self.pages.most_common(told.buckets), limits, shuffle)
            self._warm_up(bench)
            self._go(self.search, bench, until)
        for tuned in self.search.found():
            if doubtful := self.search.in_doubt(tuned.bucket):
                sizes_told = ", ".join(map(str, doubtful))
                said = f"pages up to {tuned.bucket}: noise hides how {sizes_told} compare with the best"
                self.notes.append(f"{said}; more --minutes or a quieter machine tells")

    def _measure_team(self, until: float) -> None:
        """Processes and threads, for the bucket that most pages belong to, at the size taken for it."""
        found = self._found()
        if not found or not can_have_teams(self.prepared):
            return
        tuned = max(found, key=lambda tuned: self.pages.num_seen[tuned.bucket])
        order = self._order(Ask(tuned.bucket, tuned.size_for(self.told.profile, self.told.max_latency), 0))
        sheets, repeats = self.pages.sheets, self.told.repeats
        self.team, note = best_team(self.prepared, sheets, order, until=until, repeats=repeats, check=self.check)
        self.notes += filter(None, [note])

    def _warm_up(self, bench: Bench) -> None:
        """One page of each bucket, which is not counted: what is loaded and compiled at first use is then there."""
        for name in self.pages.most_common(self.told.buckets):
            bench.measure(Order(Ask(name, 1, 0), (tuple(self.pages.buckets[name][:1]),)))

    def _go(self, search: Search, bench: Bench, until: float) -> None:
        """Measure until everything is clear or the time is up."""
        seconds_a_page: dict[int, float] = {}
        with tqdm(desc="measuring", unit=" trials", leave=False, disable=None) as bar:
            while (ask := search.ask()) is not None:
                self.check()
                order = self._order(ask)
                num_pages = sum(map(len, order.batches))
                expected = seconds_a_page.get(ask.bucket, 0.0) * num_pages
                if time.monotonic() + expected > until:
                    self._out_of_time(search)
                    return
                bar.set_description(f"pages up to {ask.bucket}, {ask.batch_size} in a batch", refresh=False)
                read = bench.measure(order)
                self.num_read += read.trial.num_pages
                self._tell(search, read.trial, read.failed)
                if read.trial.num_pages:
                    seconds_a_page[ask.bucket] = read.trial.seconds / read.trial.num_pages
                bar.total = max(search.num_expected, bar.n + 1)
                bar.update()

    def _tell(self, search: Search, trial: Trial, failed: tuple[int, ...]) -> None:
        """Note a trial. Pages that fail are read no more."""
        kept = self.pages.buckets[trial.ask.bucket]
        if failed:
            self.notes.append(f"the engine failed on {len(failed)} pages of up to {trial.ask.bucket}: left out")
            kept[:] = [number for number in kept if number not in failed]
        if kept:
            search.tell(trial)
        else:
            search.give_up(trial.ask.bucket)

    def _out_of_time(self, search: Search) -> None:
        minutes = f"{self.told.minutes:g} minutes"
        if search.unfinished:
            names = ", ".join(map(str, search.unfinished))
            self.notes.append(f"not measured within {minutes}: pages up to {names}; --minutes gives more time")
        else:
            self.notes.append(f"the {minutes} were over before all repeats were made; --minutes gives more time")

    def _order(self, ask: Ask) -> Order:
        """Engines that read several batches at once get two: one waits while the other is read, as in a run."""
        at_once = 2 if self.prepared.spec.needs.batches_at_once > 1 else 1
        pages = self.pages.buckets[ask.bucket]
        return Order(ask, ask.batches(pages, num_pages=self.told.pages_per_trial, at_once=at_once), at_once)

    def _kept(self, found: tuple[TunedBucket, ...]) -> Tuning | None:
        """The tuning, in the file; None if there is nothing to keep."""
        if self.interrupted or not found:
            return None
        key = key_of(self.prepared.engine, self.prepared.options, self.prepared.spec.identity)
        tuning = Tuning(key, datetime.now(UTC).isoformat(timespec="seconds"), found, self.num_read)
        if self.team is not None:
            tuning = replace(tuning, actors=self.team.actors, threads=self.team.threads)
        try:
            keep(self.told.path, tuning)
        except UnfinishedError as error:
            self.problem = self.problem or str(error)
            return None
        return tuning


@contextmanager
def _saying(text: str) -> Iterator[None]:
    """A bar that only says what is being done, on a terminal."""
    bar: Any = tqdm(desc=text, bar_format="{desc}", leave=False, disable=None, file=sys.stderr)
    with bar:
        yield
