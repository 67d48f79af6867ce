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
    try:
        with open(path, "rb") as file:
            return from_mapping(tomllib.load(file))
    except OSError as error:
        raise ConfigurationError(f"job file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"job file {path}: {error}") from error
    except ConfigurationError as error:
        raise ConfigurationError(f"job file {path}: {error}") from error


def resolve(given: dict[str, Any], job_file: str | None) -> JobConfig:
    """Flags over the job file over the defaults.

    Raises:
        ConfigurationError: a value is out of range, or the job file is at fault.
    """
    values = read_job_file(job_file) if job_file else {}
    return JobConfig(**{**values, **{key: value for key, value in given.items() if value is not None}})
