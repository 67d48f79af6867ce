"""The job file: the options of a run as TOML."""

from __future__ import annotations

import tomllib
from typing import Any

from pipeline.config import JobConfig, from_mapping
from pipeline.errors import ConfigurationError


def read_job_file(path: str) -> dict[str, Any]:
    """The values of a job file, checked.

    Raises:
        ConfigurationError: it cannot be read, is no TOML, or holds an unknown key or a wrong value.
    """
    values = read_toml(path, "job file")
    try:
        return from_mapping(values)
    except ConfigurationError as error:
        raise ConfigurationError(f"job file {path}: {error}") from error


def read_toml(path: str, what: str) -> dict[str, Any]:
    """What is in a TOML file; `what` is what to call it in an error.

    Raises:
        ConfigurationError: it cannot be read, or is no TOML.
    """
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigurationError(f"{what} {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{what} {path}: {error}") from error


def resolve(given: dict[str, Any], job_file: str | None) -> JobConfig:
    """Flags over the job file over the defaults.

    Raises:
        ConfigurationError: a value is out of range, or the job file is at fault.
    """
    values = read_job_file(job_file) if job_file else {}
    return JobConfig(**{**values, **{key: value for key, value in given.items() if value is not None}})
