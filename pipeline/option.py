"""Option: how one option is declared, checked, read from a file, and its name guessed when it is misspelt. Pure."""

from __future__ import annotations

import difflib
import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import Field, field
from typing import Any, get_args, get_origin

from pipeline.errors import ConfigurationError


def option(
    default: Any,
    text: str,
    *,
    group: str,
    minimum: float | None = None,
    choices: Sequence[str] = (),
    metavar: str | None = None,
) -> Any:
    """Declare one option of a job: its default, its help text, and what values it may have.

    An empty text among the choices is for a default that leaves the choice to others; nobody is told of it.
    """
    metadata = {
        "help": text,
        "group": group,
        "minimum": minimum,
        "choices": tuple(choices),
        "metavar": metavar,
    }
    return field(default=default, metadata=metadata)


def nearest(name: str, known: Sequence[str]) -> str:
    """`; did you mean 'x'?` for the closest known name, or the list of all of them."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else f"; known are {', '.join(sorted(known))}"


def parse_pairs(pairs: Sequence[str], known: Sequence[str], what: str) -> dict[str, str]:
    """Read KEY=VALUE strings with keys out of `known`.

    Raises:
        ConfigurationError: no `=`, or an unknown key.
    """
    values: dict[str, str] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator:
            raise ConfigurationError(f"{what} is written KEY=VALUE, not '{pair}'")
        if key not in known:
            raise ConfigurationError(f"{what} '{key}' is unknown{nearest(key, known)}")
        values[key] = value
    return values


def coerce(key: str, value: Any, types_by_name: Mapping[str, Any]) -> Any:
    """A value of a job file as one of the type that its field has.

    Raises:
        ConfigurationError: there is no such field, or the value is of another type.
    """
    if key not in types_by_name:
        raise ConfigurationError(f"unknown key '{key}'{nearest(key, list(types_by_name))}")
    wanted = types_by_name[key]
    if get_origin(wanted) is tuple:
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list | tuple) or not all(isinstance(i, str) for i in items):
            raise ConfigurationError(f"'{key}' must be a list of texts, not {value!r}")
        return tuple(items)
    allowed = get_args(wanted) if isinstance(wanted, types.UnionType) else (wanted,)
    if float in allowed and type(value) is int:
        return float(value)
    if type(value) not in allowed:
        names = " or ".join(t.__name__ for t in allowed)
        raise ConfigurationError(f"'{key}' must be of type {names}, not {value!r}")
    return value


def check(item: Field[Any], value: Any) -> None:
    """See that a value is one that the option may have.

    Raises:
        ConfigurationError: it is none.
    """
    flag = "--" + item.name.replace("_", "-")
    choices = item.metadata.get("choices")
    if choices and value not in choices:
        raise ConfigurationError(f"{flag} must be one of {', '.join(filter(None, choices))}, not '{value}'")
    minimum = item.metadata.get("minimum")
    if minimum is not None and not minimum <= value < math.inf:
        raise ConfigurationError(f"{flag} must be at least {minimum}, not {value}")


def number_or_auto(flag: str, value: int | str) -> int | None:
    """A positive number; None for `auto`, or 0, which means the same.

    Raises:
        ConfigurationError: it is neither.
    """
    if value == "auto":
        return None
    try:
        number = int(value)
    except ValueError:
        number = -1
    if number < 0:
        raise ConfigurationError(f"{flag} must be a number or 'auto', not '{value}'")
    return number or None
