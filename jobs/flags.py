"""Flags: what the fields of the configuration look like on a command line."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from dataclasses import Field
from typing import Annotated, Any, Optional, get_origin, get_type_hints

import typer

from pipeline.config import JobConfig, option_fields


def with_options(wanted: frozenset[str] | None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command that takes `**options` a flag for each configuration field (or those wanted)."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        own = inspect.signature(command).parameters.values()
        parameters = [p.replace(annotation=hints[p.name]) for p in own if p.kind is not p.VAR_KEYWORD]
        wanted_types = get_type_hints(JobConfig)
        items = [item for item in option_fields() if wanted is None or item.name in wanted]
        parameters += [_parameter(item, wanted_types[item.name]) for item in items]
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
