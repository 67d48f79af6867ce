"""The command line of `pagemill nightly`."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from jobs.flags import with_options
from pipeline.errors import EXIT_INTERRUPTED


def add_to(app: typer.Typer) -> None:
    """Give the application this command."""
    app.command(name="nightly", no_args_is_help=True)(_nightly)


@with_options(None)
def _nightly(
    file: Annotated[str, typer.Argument(metavar="NIGHT.TOML", help="A job file with tables for what is around it.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print what the hook is told on stdout.")] = False,
    **options: Any,
) -> None:
    """Do a night: measure batch sizes if it is time, read what is new, tidy up the output, tell whoever asks."""
    from jobs.nightly import nightly
    from jobs.nightly_file import read_night

    flags = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
    night = read_night(file, flags)
    try:
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
            report = nightly(night)
    except KeyboardInterrupt:
        print("pagemill: stopped; what was committed stays", file=sys.stderr)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    problems = [report.run.problem] if report.run and report.run.problem else []
    for problem in (*problems, *report.problems):
        print(f"pagemill: error: {problem}", file=sys.stderr)
    print(report.as_text(), file=sys.stderr if as_json else sys.stdout)
    if as_json:
        print(report.as_json())
    raise typer.Exit(report.exit_code)
