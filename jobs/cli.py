"""The command line: flags made from the configuration's fields, errors as one line, exit codes."""

from __future__ import annotations

import inspect
import json
import os
import sys
import types
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import Field
from pathlib import Path
from typing import Annotated, Any, Optional, get_origin, get_type_hints

import typer

from pipeline import __version__
from pipeline.config import ENGINE_FLAGS, JobConfig, option_fields
from pipeline.errors import EXIT_INTERRUPTED, EXIT_UNFINISHED, ConfigurationError, PagemillError

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


def _with_options(wanted: frozenset[str] | None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command that takes `**options` a flag for each configuration field (or those wanted)."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        own = inspect.signature(command).parameters.values()
        parameters = [p.replace(annotation=hints[p.name]) for p in own if p.kind is not p.VAR_KEYWORD]
        hints_of_options = get_type_hints(JobConfig)
        items = [item for item in option_fields() if wanted is None or item.name in wanted]
        parameters += [_parameter(item, hints_of_options[item.name]) for item in items]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in parameters}
        return command

    return decorate


def _parameter(item: Field[Any], wanted: Any) -> inspect.Parameter:
    """One flag. Its default is None, so that a flag which was given can be told from one that was not."""
    is_list = get_origin(wanted) is tuple
    one_of = isinstance(wanted, types.UnionType)  # a number or a word: the command line gives texts
    kind: Any = Optional[list[str]] if is_list else Optional[str if one_of else wanted]  # noqa: UP045
    name = item.name.removesuffix("s") if item.name == "engine_options" else item.name
    choices = tuple(filter(None, item.metadata["choices"]))
    option = typer.Option(
        "--" + name.replace("_", "-"),
        help=item.metadata["help"] + (f" (default: {item.default})" if item.default else ""),
        rich_help_panel=item.metadata["group"],
        metavar=item.metadata["metavar"] or ("|".join(choices) if choices else None),
        show_default=False,
        autocompletion=_completion(item.name, choices),
    )
    return inspect.Parameter(
        item.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option]
    )


def _completion(name: str, choices: tuple[str, ...]) -> Callable[[str], list[str]] | None:
    if name == "engine":
        from pipeline.engines import ENGINES

        choices = ("auto", *ENGINES)
    if not choices:
        return None
    return lambda incomplete: [choice for choice in choices if choice.startswith(incomplete)]


def _resolved(given: dict[str, Any], job_file: str | None) -> JobConfig:
    from jobs.job_file import resolve

    values = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    return resolve(values, job_file)


@app.command(name="run", no_args_is_help=True)
@_with_options(None)
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
@_with_options(_PLAN_OPTIONS)
def _plan(
    inputs: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(metavar="INPUT...", help="Files, folders, globs or @list.txt to look at.", show_default=False),
    ] = None,
    config: _JobFile = None,
    as_json: _AsJson = False,
    **options: Any,
) -> None:
    """Show what a run would do: documents, pages, sizes, buckets, batches, padding. Reads no text."""
    from jobs.plan import make_plan

    given = {"inputs": tuple(inputs)} if inputs else {}
    plan = make_plan(_resolved({**given, **options}, config))
    print(plan.as_json() if as_json else plan.as_text())


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


@app.command(name="engines")
def _engines(as_json: _AsJson = False) -> None:
    """List the engines: which are usable here, and what each of the others lacks."""
    from pipeline.engines import BEST_FIRST, ENGINES, load

    found = []
    for name in ENGINES:
        engine = load(name)
        lacks = engine.missing()
        identity = engine.spec(engine.options_type()).identity if lacks is None else None
        found.append(
            {
                "engine": name,
                "usable": lacks is None,
                "lacks": lacks,
                "version": identity.version if identity else None,
                "model": identity.model if identity else None,
                "summary": engine.summary,
            }
        )
    if as_json:
        print(json.dumps(found))
        return
    automatic = next((e["engine"] for e in found if e["usable"] and e["engine"] in BEST_FIRST), None)
    for entry in found:
        state = "usable" if entry["usable"] else f"not usable: {entry['lacks']}"
        chosen = ", taken by 'auto'" if entry["engine"] == automatic else ""
        print(f"{entry['engine']:<10} {state}{chosen}")
        print(f"           {entry['summary']}")
        if entry["usable"]:
            print(f"           version {entry['version']}" + (f", model {entry['model']}" if entry["model"] else ""))
