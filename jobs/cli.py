"""The command line: flags made from the configuration's fields, errors as one line, exit codes."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from jobs import cli_nightly, cli_upkeep, tune_flags
from jobs.flags import with_options
from pipeline import __version__
from pipeline.config import ENGINE_FLAGS, JobConfig
from pipeline.errors import EXIT_INTERRUPTED, EXIT_UNFINISHED, ConfigurationError, PagemillError, StorageError

app = typer.Typer(
    name="pagemill",
    help="Read documents in bulk: a folder of PDFs, scans and photos in, Parquet out, one row for every page.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

_BATCH_OPTIONS = frozenset(
    {"batch_size", "max_batch_tokens", "buckets", "window", "profile", "max_latency", "tuning"},
)
_PLAN_OPTIONS = _BATCH_OPTIONS | {"exclude", "engine", "engine_options", "dpi", "max_page_pixels", *ENGINE_FLAGS}
_TUNE_OPTIONS = (_PLAN_OPTIONS - {"batch_size", "max_batch_tokens", "buckets", "window"}) | frozenset(
    {"pages", "text_layer", "orientation", "read_blank", "password_file", "raster_memory_mb"}
)
_JobFile = Annotated[
    Optional[str],  # noqa: UP045 (typer reads the annotation)
    typer.Option("--config", metavar="JOB.TOML", help="Take options from this file; a flag beats it."),
]
_AsJson = Annotated[bool, typer.Option("--json", help="Print the totals as JSON on stdout.")]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code; every error of ours is one line on stderr."""
    try:
        app(args=arguments)
    except PagemillError as error:
        print(f"pagemill: error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:  # such as a full disk behind stdout
        print(f"pagemill: error: {error.strerror or error}", file=sys.stderr)
        sys.exit(EXIT_UNFINISHED)
    finally:
        _clear_shelf()


def _clear_shelf() -> None:
    """Remove documents that were fetched; without the import if there can be none."""
    if shelf := sys.modules.get("pipeline.shelf"):
        shelf.clear_used()


def _version(value: bool) -> None:
    if value:
        print(f"pagemill {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave."),
    ] = False,
) -> None:
    pass


def _resolved(given: dict[str, Any], job_file: str | None) -> JobConfig:
    from jobs.job_file import resolve

    values = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    return resolve(values, job_file)


@app.command(name="run", no_args_is_help=True)
@with_options(None)
def _run(
    paths: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(
            metavar="INPUT... OUT",
            help="Files, folders, globs or @list.txt to read, and last the folder to write to.",
            show_default=False,
        ),
    ] = None,
    config: _JobFile = None,
    as_json: _AsJson = False,
    **options: Any,
) -> None:
    """Read documents and commit one row for every page; what is committed already is not read again."""
    if paths and len(paths) < 2:
        raise ConfigurationError("name the input and the output: pagemill run INPUT... OUT")
    given = {"inputs": tuple(paths[:-1]), "out": paths[-1]} if paths else {}
    _run_and_report(_resolved({**given, **options}, config), as_json)


def _run_and_report(config: JobConfig, as_json: bool) -> None:
    """Run, tell how it went, and leave with the exit code of the run."""
    from jobs.run import run
    from jobs.summary import summary

    # Ray prints its own notes about dead workers to stdout, which is for results; rows and errors say the same.
    try:
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
            report = run(config)
    except KeyboardInterrupt:  # typer would end with the same code and say nothing
        print("pagemill: stopped; what was committed stays", file=sys.stderr)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if report.problem:
        print(f"pagemill: error: {report.problem}", file=sys.stderr)
        print("pagemill: what was committed stays; the same command goes on from there", file=sys.stderr)
    print(summary(report), file=sys.stderr if as_json else sys.stdout)
    if as_json:
        print(report.as_json())
    raise typer.Exit(report.exit_code)


@app.command(name="retry", no_args_is_help=True)
def _retry(
    out: Annotated[str, typer.Argument(metavar="OUT", help="The folder that a run has written to.")],
    codes: Annotated[
        str, typer.Option("--codes", help="Only pages that failed with one of these error codes, with commas.")
    ] = "all",
    as_json: _AsJson = False,
) -> None:
    """Run the last job of an output again for the pages that failed; whatever else is new is read, too."""
    from jobs.retry import last_configuration

    _run_and_report(last_configuration(out, codes), as_json)


@app.command(name="plan", no_args_is_help=True)
@with_options(_PLAN_OPTIONS)
def _plan(
    inputs: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(metavar="INPUT...", help="Files, folders, globs or @list.txt to look at.", show_default=False),
    ] = None,
    price: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option("--price-per-gpu-hour", metavar="PRICE", help="Show hours and money, too, in any currency."),
    ] = None,
    out: Annotated[str, typer.Option("--from", metavar="OUT", help="Go by the newest run in this output.")] = "",
    gpus: Annotated[int, typer.Option("--gpus", metavar="N", help="GPUs at work; 0 takes those of that run.")] = 0,
    config: _JobFile = None,
    as_json: _AsJson = False,
    **options: Any,
) -> None:
    """Show what a run would do: documents, pages, sizes, buckets, batches, padding. Reads no text."""
    from jobs.cost import check_price
    from jobs.plan import make_plan

    is_priced = check_price(price, out, gpus)
    given = {"inputs": tuple(inputs)} if inputs else {}
    plan = make_plan(_resolved({**given, **options}, config))
    if is_priced:
        plan.add_cost(out, price or 0.0, gpus)
    print(plan.as_json() if as_json else plan.as_text())


@app.command(name="tune")
@with_options(_TUNE_OPTIONS)
def _tune(
    inputs: tune_flags.Inputs = None,
    sizes: tune_flags.Sizes = "",
    max_batch: tune_flags.MaxBatch = 0,
    pages_per_trial: tune_flags.PagesPerTrial = 16,
    repeats: tune_flags.Repeats = 3,
    buckets: tune_flags.Buckets = 4,
    minutes: tune_flags.Minutes = 10.0,
    picture: tune_flags.Picture = "",
    config: _JobFile = None,
    as_json: _AsJson = False,
    **options: Any,
) -> None:
    """Measure which batch size suits the engine on this machine; later runs use what was found."""
    from jobs.tune import tune
    from jobs.tune_options import TuneOptions

    job = _resolved({"inputs": tuple(inputs or ()), **options}, config)
    counts = {"max_batch": max_batch, "pages_per_trial": pages_per_trial, "repeats": repeats, "buckets": buckets}
    told = TuneOptions.of(job, sizes=sizes, picture=picture, minutes=minutes, **counts)
    try:
        report = tune(job, told)
    except KeyboardInterrupt:
        print("pagemill: stopped before anything was measured", file=sys.stderr)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if report.problem:
        print(f"pagemill: error: {report.problem}", file=sys.stderr)
    try:
        pictures, unwritten = report.draw(), None
    except StorageError as error:
        pictures, unwritten = [], error
    print(report.as_text(pictures), file=sys.stderr if as_json else sys.stdout)
    if as_json:
        print(report.as_json(pictures))
    if unwritten is not None:
        raise unwritten
    raise typer.Exit(report.exit_code)


@app.command(name="verify", no_args_is_help=True)
def _verify(
    out: Annotated[str, typer.Argument(metavar="OUT", help="The folder that runs have written to.")],
    inputs: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(metavar="INPUT...", help="What must be in it; else the inputs of its newest finished run."),
    ] = None,
    no_hash: Annotated[
        bool, typer.Option("--no-hash", help="Read no input: compare its size and time of change only.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the faults as JSON on stdout.")] = False,
) -> None:
    """Audit an output: every page of every input once, counts right, files whole. Ends with 1 and a list if not."""
    from jobs.verify import verify

    verdict = verify(out, inputs or (), hash_inputs=not no_hash)
    print(verdict.as_json() if as_json else verdict.as_text())
    raise typer.Exit(verdict.exit_code)


@app.command(name="query")
def _query(
    out: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="OUT", help="The folder that runs have written to.", show_default=False),
    ] = None,
    asked: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="SQL", help="SQL for DuckDB, or the name of a question.", show_default=False),
    ] = None,
    values: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--set", metavar="NAME=VALUE", help="A value for $NAME in the SQL; repeat it for more."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON on stdout.")] = False,
) -> None:
    """Ask an output something: SQL over pages, documents, batches, runs and latest, or a question by its name.

    Without SQL it lists the questions that have a name.
    """
    from jobs import query

    if asked is None:
        print(query.listing())
        return
    answer = query.query(out or "", asked, values or ())
    print(answer.as_json() if as_json else answer.as_text())


@app.command(name="engines")
def _engines(as_json: _AsJson = False) -> None:
    """List the engines: which are usable here, and what each of the others lacks."""
    from jobs import engines

    print(engines.as_json() if as_json else engines.as_text())


cli_nightly.add_to(app)
cli_upkeep.add_to(app)
