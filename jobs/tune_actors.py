"""How many processes of a CPU engine, and how many threads in each, read most together: measured side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from statistics import median

from tqdm import tqdm

from jobs.prepare import Prepared
from pipeline.engines.hardware import num_cores
from pipeline.tuning.bench import Bench
from pipeline.tuning.figures import MEMORY_SHARE, WITHIN
from pipeline.tuning.memory import machine_bytes
from pipeline.tuning.sheet import Sheet
from pipeline.tuning.tuning import team_in_words
from pipeline.tuning.worker import Order

_MOST_TEAMS = 5


@dataclass(frozen=True, slots=True)
class Team:
    """So many processes of so many threads each; `pages_per_s` of all together, once measured."""

    actors: int
    threads: int
    pages_per_s: float = 0.0


def can_have_teams(prepared: Prepared) -> bool:
    """Whether the engine computes on the CPU, and can be told how many threads to take."""
    named = {item.name for item in fields(prepared.engine.options_type)}
    return prepared.spec.needs.num_gpus == 0 and "threads" in named


def teams(cores: int, memory_bytes_each: int, memory_bytes: int) -> list[Team]:
    """The ways to fill the cores with processes of equal size that memory has room for, most processes first."""
    divisors = [threads for threads in range(1, cores + 1) if cores % threads == 0]
    fitting = [Team(cores // t, t) for t in divisors if cores // t * memory_bytes_each <= MEMORY_SHARE * memory_bytes]
    return fitting[:_MOST_TEAMS]


def best_team(
    prepared: Prepared,
    sheets: Sequence[Sheet],
    order: Order,
    *,
    until: float,
    repeats: int,
    check: Callable[[], None] = lambda: None,
) -> tuple[Team | None, str | None]:
    """The team with fewest processes among those that read nearly as much as the best, and what there is to say.

    Each team is loaded anew for each repeat, in turns, so that the machine's drift meets all of them alike. `check` is
    called before each, and may raise.

    Raises:
        EngineLostError: a process cannot be loaded or dies.
    """
    choices = teams(num_cores(), prepared.spec.needs.memory_bytes, machine_bytes())
    found: dict[Team, list[float]] = {team: [] for team in choices}
    slowest = 0.0
    with tqdm(desc="measuring processes", total=len(choices) * repeats, leave=False, disable=None) as bar:
        for _ in range(repeats):
            for team in choices:
                check()
                started = time.monotonic()
                if started + slowest > until:
                    return _best(found)
                bar.set_description(f"measuring {team_in_words(team.actors, team.threads)}", refresh=False)
                found[team].append(_measured(team, prepared, sheets, order))
                slowest = max(slowest, time.monotonic() - started)
                bar.update()
    return _best(found)


def _best(found: Mapping[Team, Sequence[float]]) -> tuple[Team | None, str | None]:
    if not all(found.values()):
        return None, "how many processes read most was not measured: --minutes gives more time"
    measured = [replace(team, pages_per_s=median(rates)) for team, rates in found.items() if min(rates) > 0]
    if not measured:
        return None, "memory does not suffice for as many processes as there are cores"
    line = (1 - WITHIN) * max(team.pages_per_s for team in measured)
    return min((team for team in measured if team.pages_per_s >= line), key=lambda team: team.actors), _told(measured)


def _told(measured: Sequence[Team]) -> str:
    rates = ", ".join(f"{t.actors} x {t.threads}: {t.pages_per_s:.2f} pages/s" for t in measured)
    return f"processes x threads: {rates}"


def _measured(team: Team, prepared: Prepared, sheets: Sequence[Sheet], order: Order) -> float:
    """Pages a second of all processes together; 0 if one found no memory."""
    options = replace(prepared.options, threads=team.threads)
    with ExitStack() as stack:
        benches = [
            stack.enter_context(Bench(prepared.engine, options, sheets, on_gpu=False)) for _ in range(team.actors)
        ]
        for bench in benches:
            bench.start()
        for bench in benches:
            bench.ready()
        first = replace(order, batches=(order.batches[0][:1],))
        for bench in benches:
            bench.measure(first)
        for bench in benches:
            bench.begin(order)
        trials = [bench.end().trial for bench in benches]
    return 0.0 if any(trial.out_of_memory for trial in trials) else sum(trial.pages_per_s for trial in trials)
