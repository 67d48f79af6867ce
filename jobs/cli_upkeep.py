"""The command line of what is done for an output between runs: `pagemill compact`."""

from __future__ import annotations

import sys
from typing import Annotated, Optional

import typer

from pipeline.errors import EXIT_INTERRUPTED

_Days = Optional[int]  # noqa: UP045 (typer reads the annotation)


def add_to(app: typer.Typer) -> None:
    """Give the application these commands."""
    app.command(name="compact", no_args_is_help=True)(_compact)


def _compact(
    out: Annotated[str, typer.Argument(metavar="OUT", help="The folder that runs have written to.")],
    tables: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            "--table", metavar="TABLE", help="Put parts of this table together (may be given again); else all."
        ),
    ] = None,
    target_mb: Annotated[int, typer.Option("--target-mb", help="Make no part larger than this, in MiB.")] = 128,
    before: Annotated[
        int, typer.Option("--before", metavar="DAYS", help="Only parts of runs that are so many days old.")
    ] = 0,
    keep_telemetry: Annotated[
        _Days, typer.Option("--keep-telemetry", metavar="DAYS", help="Drop older rows of batches and runs.")
    ] = None,
    keep_superseded: Annotated[
        _Days, typer.Option("--keep-superseded", metavar="DAYS", help="Drop older rows that newer ones have replaced.")
    ] = None,
    keep_vanished: Annotated[
        _Days,
        typer.Option("--keep-vanished", metavar="DAYS", help="Drop all rows of documents gone for longer than this."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON on stdout.")] = False,
) -> None:
    """Put many small files of an output into few, while others read it; drop old rows if asked to."""
    from jobs.upkeep import UpkeepOptions, compact
    from pipeline.upkeep.retention import Retention

    retention = Retention(telemetry_days=keep_telemetry, superseded_days=keep_superseded, vanished_days=keep_vanished)
    told = UpkeepOptions(tables=tuple(tables or ()), target_mb=target_mb, min_age_days=before, retention=retention)
    try:
        report = compact(out, told)
    except KeyboardInterrupt:
        print("pagemill: stopped; the next run, or pagemill compact, finishes what was begun", file=sys.stderr)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    print(report.as_json() if as_json else report.as_text())
