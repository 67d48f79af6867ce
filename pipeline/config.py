"""What a job may be told: declared once here, closed, and the source of flags and job-file keys alike."""

from __future__ import annotations

import difflib
import hashlib
import json
import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import Field, asdict, dataclass, field, fields
from typing import Any, get_args, get_origin, get_type_hints

from pipeline.errors import ConfigurationError, ErrorCode


def _option(
    default: Any,
    text: str,
    *,
    group: str,
    alters_text: bool = False,
    minimum: float | None = None,
    choices: Sequence[str] = (),
    metavar: str | None = None,
) -> Any:
    """Declare one option. `alters_text` makes it part of the fingerprint by which rows count as done."""
    metadata = {
        "help": text,
        "group": group,
        "alters_text": alters_text,
        "minimum": minimum,
        "choices": tuple(choices),
        "metavar": metavar,
    }
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConfig:
    """Everything a run can be told. Job-file keys are the field names, flags the same with dashes."""

    inputs: tuple[str, ...] = ()
    out: str = ""

    exclude: tuple[str, ...] = _option(
        (),
        "Leave out what matches this pattern (as in .gitignore; may be given again). A .pagemillignore file in an"
        " input folder does the same.",
        group="Input",
        metavar="PATTERN",
    )
    rehash: bool = _option(
        False,
        "Hash every file again, also where size, times and inode are those of a document that is done.",
        group="Input",
    )
    engine: str = _option(
        "auto",
        "What reads the pages; 'pagemill engines' lists them. 'auto' takes the best usable one.",
        group="Engine",
        metavar="NAME",
    )
    engine_options: tuple[str, ...] = _option(
        (),
        "An option of the engine as KEY=VALUE (may be given again).",
        group="Engine",
        metavar="KEY=VALUE",
    )
    actors: int = _option(0, "Engine processes; 0 chooses by the machine.", group="Engine", minimum=0, metavar="N")
    dpi: float = _option(
        0.0,
        "Resolution for pages without pixels of their own, and the finest for scans; 0 takes the engine's.",
        group="Raster",
        alters_text=True,
        minimum=0,
        metavar="DPI",
    )
    max_page_pixels: int = _option(
        0,
        "Render no page larger than this many pixels; 0 takes the engine's limit.",
        group="Raster",
        alters_text=True,
        minimum=0,
        metavar="PIXELS",
    )
    max_image_pixels: int = _option(
        400_000_000,
        "Decode no image file of more than this many pixels: its row says page_too_large.",
        group="Raster",
        minimum=1,
        metavar="PIXELS",
    )
    page_timeout: float = _option(
        60.0, "Seconds that rendering one page may take.", group="Raster", minimum=0.1, metavar="S"
    )
    rasterizer_memory_mb: int = _option(
        4096,
        "Memory that a rasterizing process may take for itself, in MiB; 0 sets no limit.",
        group="Raster",
        minimum=0,
        metavar="MIB",
    )
    fake_decoder: bool = _option(
        False,
        "Let files that ask for it crash, hang or eat memory, to test what becomes of such.",
        group="Raster",
    )
    rasterizers: int = _option(0, "Rasterizing processes; 0 means one a core.", group="Raster", minimum=0, metavar="N")
    pages_per_task: int = _option(
        16, "Pages of one document that a rasterizing task renders.", group="Raster", minimum=1, metavar="N"
    )
    batch_size: int = _option(
        0, "Pages in a batch; 0 takes the engine's own size.", group="Batches", minimum=0, metavar="N"
    )
    window: int = _option(
        256,
        "Pages to look ahead over when sorting pages into batches.",
        group="Batches",
        minimum=1,
        metavar="PAGES",
    )
    raster_memory_mb: int = _option(
        768,
        "Memory for rasters that wait for the engine, in MiB; rasterizing pauses above it.",
        group="Batches",
        minimum=64,
        metavar="MIB",
    )
    overwrite: bool = _option(False, "Read everything again, whatever is committed already.", group="Output")
    retry_failed: str = _option(
        "",
        "Read pages again that failed: 'all', or the error codes that count, with commas.",
        group="Output",
        metavar="CODES",
    )
    commit_pages: int = _option(
        20_000, "Commit at the latest after this many pages ...", group="Output", minimum=1, metavar="N"
    )
    commit_seconds: float = _option(
        120.0, "... or after this many seconds ...", group="Output", minimum=0.1, metavar="S"
    )
    commit_mb: int = _option(
        128,
        "... or when a file would become larger than this, in MiB before compression of its text.",
        group="Output",
        minimum=1,
        metavar="MIB",
    )
    runner: str = _option(
        "ray",
        "'ray' spreads the work over processes and machines, 'local' does it all in this process.",
        group="Runner",
        choices=("ray", "local"),
    )
    ray_address: str = _option(
        "", "Join this Ray cluster ('auto' finds a running one) instead of starting one here.", group="Runner"
    )
    progress: str = _option(
        "auto",
        "'bar' redraws one line, 'lines' writes one every 30 s, 'auto' decides by the terminal.",
        group="Runner",
        choices=("auto", "bar", "lines", "none"),
    )

    def __post_init__(self) -> None:
        for item in fields(self):
            _check(item, getattr(self, item.name))
        unknown = [code for code in self.codes_to_retry or () if code not in tuple(ErrorCode)]
        if unknown:
            raise ConfigurationError(
                f"--retry-failed: no error code '{unknown[0]}'{nearest(unknown[0], tuple(ErrorCode))}"
            )

    @property
    def codes_to_retry(self) -> frozenset[str] | None:
        """Error codes of pages to read again; None for all of them."""
        if self.retry_failed == "all":
            return None
        return frozenset(code.strip() for code in self.retry_failed.split(",") if code.strip())

    def as_json(self) -> str:
        """The resolved configuration, keys sorted, as it is written beside the output."""
        return json.dumps(asdict(self), sort_keys=True)

    def fingerprint(self, engine: Mapping[str, str | None]) -> str:
        """16 hex digits over all that can alter a page's text: the marked options and the engine's identity.

        A page counts as done when a row with this fingerprint is committed.
        """
        mine = {f.name: getattr(self, f.name) for f in fields(self) if f.metadata.get("alters_text")}
        text = json.dumps([mine, dict(engine)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def option_fields() -> list[Field[Any]]:
    """The fields that are options (all but `inputs` and `out`), in the order of declaration."""
    return [f for f in fields(JobConfig) if f.metadata]


def from_mapping(values: Mapping[str, Any]) -> dict[str, Any]:
    """Check the keys and types of a job file and give values fit for `JobConfig`.

    Raises:
        ConfigurationError: an unknown key (the message names the nearest known one) or a wrong type.
    """
    types_by_name = get_type_hints(JobConfig)
    return {key: _coerce(key, value, types_by_name) for key, value in values.items()}


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


def _coerce(key: str, value: Any, types_by_name: Mapping[str, Any]) -> Any:
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


def _check(item: Field[Any], value: Any) -> None:
    flag = "--" + item.name.replace("_", "-")
    choices = item.metadata.get("choices")
    if choices and value not in choices:
        raise ConfigurationError(f"{flag} must be one of {', '.join(choices)}, not '{value}'")
    minimum = item.metadata.get("minimum")
    if minimum is not None and not minimum <= value < math.inf:
        raise ConfigurationError(f"{flag} must be at least {minimum}, not {value}")
