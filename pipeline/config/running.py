"""Options that say where a run works, what it commits, and how it shows itself."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.option import option


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """What is committed, and when."""

    __slots__ = ()

    overwrite: bool = option(False, "Read everything again, whatever is committed already.", group="Output")
    retry_failed: str = option(
        "",
        "Read pages again that failed: 'all', or the error codes that count, with commas.",
        group="Output",
        metavar="CODES",
    )
    commit_pages: int = option(
        20_000, "Commit at the latest after this many pages ...", group="Output", minimum=1, metavar="N"
    )
    commit_seconds: float = option(
        120.0, "... or after this many seconds ...", group="Output", minimum=0.1, metavar="S"
    )
    commit_mb: int = option(
        128,
        "... or when a file would become larger than this, in MiB before compression of its text.",
        group="Output",
        minimum=1,
        metavar="MIB",
    )


@dataclass(frozen=True, kw_only=True)
class RunnerOptions:
    """Where the work is done, and who is told."""

    __slots__ = ()

    stop_at: str = option(
        "",
        "Finish the batches in flight at this time of day, commit, leave the rest to the next run and end with 4.",
        group="Runner",
        metavar="HH:MM",
    )
    max_failed_pages: str = option(
        "",
        "So many pages of this run, or such a share of them (1%), may fail before it ends with 1; else none, nor of"
        " earlier runs. It never stops the work.",
        group="Runner",
        metavar="N|P%",
    )
    runner: str = option(
        "ray",
        "'ray' spreads the work over processes and machines, 'local' does it all in this process.",
        group="Runner",
        choices=("ray", "local"),
    )
    ray_address: str = option(
        "", "Join this Ray cluster ('auto' finds a running one) instead of starting one here.", group="Runner"
    )
    progress: str = option(
        "auto",
        "'bar' redraws one line, 'lines' writes one every 30 s, 'auto' decides by the terminal.",
        group="Runner",
        choices=("auto", "bar", "lines", "none"),
    )
