"""What a job may be told: declared once here, closed, and the source of flags and job-file keys alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, fields
from typing import Any, get_type_hints

from pipeline.errors import ConfigurationError, ErrorCode
from pipeline.option import check, coerce, nearest, number_or_auto, option
from pipeline.selection import Selection

ENGINE_FLAGS = ("model", "revision", "task", "prompt", "decode", "quantize")
"""Options of a job that are passed, where they are set, to the engine as its options of the same names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConfig:
    """Everything a run can be told. Job-file keys are the field names, flags the same with dashes."""

    inputs: tuple[str, ...] = ()
    out: str = ""

    exclude: tuple[str, ...] = option(
        (),
        "Leave out what matches this pattern (as in .gitignore; may be given again), in archives, too. A"
        " .pagemillignore file in an input folder does the same.",
        group="Input",
        metavar="PATTERN",
    )
    max_document_bytes: int = option(
        0,
        "Read no document of more bytes than this: its row says 'skipped'; 0 sets no limit.",
        group="Input",
        minimum=0,
        metavar="BYTES",
    )
    password_file: str = option(
        "",
        "Try the passwords in this file, one a line, on documents that need one.",
        group="Input",
        metavar="FILE",
    )
    rehash: bool = option(
        False,
        "Hash every file again, also where size, times and inode are those of a document that is done.",
        group="Input",
    )
    engine: str = option(
        "auto",
        "What reads the pages; 'pagemill engines' lists them. 'auto' takes the best usable one.",
        group="Engine",
        metavar="NAME",
    )
    engine_options: tuple[str, ...] = option(
        (),
        "An option of the engine as KEY=VALUE (may be given again).",
        group="Engine",
        metavar="KEY=VALUE",
    )
    model: str = option("", "Folder or hub id of the model's weights.", group="Engine", metavar="MODEL")
    revision: str = option(
        "", "Branch, tag or commit of a model on a hub; else its main branch.", group="Engine", metavar="REVISION"
    )
    task: str = option(
        "", "What a model is to do with a page; else the engine's own task.", group="Engine", metavar="TASK"
    )
    prompt: str = option("", "Words to ask a model with, in place of its task's.", group="Engine", metavar="TEXT")
    decode: str = option(
        "",
        "How a model writes pages: 'continuous' begins one as another ends, 'static' when its whole batch has ended;"
        " else as the engine does.",
        group="Engine",
        choices=("", "continuous", "static"),
    )
    quantize: str = option(
        "",
        "Load the weights in fewer bits, for small cards.",
        group="Engine",
        choices=("", "int8", "int4"),
    )
    actors: int = option(0, "Engine processes; 0 chooses by the machine.", group="Engine", minimum=0, metavar="N")
    dpi: float = option(
        0.0,
        "Resolution for pages without pixels of their own, and the finest for scans; 0 takes the engine's.",
        group="Raster",
        minimum=0,
        metavar="DPI",
    )
    max_page_pixels: int = option(
        0,
        "Render no page larger than this many pixels; 0 takes the engine's limit.",
        group="Raster",
        minimum=0,
        metavar="PIXELS",
    )
    pages: str = option(
        "",
        "Read these pages of each document only, as in 1-3,10-; the others get rows that say 'skipped'.",
        group="Pages",
        metavar="RANGES",
    )
    max_pages_per_document: int = option(
        0,
        "Read at most so many pages of a document (of those asked for); 0 sets no limit.",
        group="Pages",
        minimum=0,
        metavar="N",
    )
    text_layer: str = option(
        "auto",
        "Take a page's text from its own text layer: 'auto' where that is sound, 'never', or 'only' and ask no engine.",
        group="Pages",
        choices=("auto", "never", "only"),
    )
    orientation: str = option(
        "auto",
        "'auto' turns pages that were scanned sideways or upside down, 'keep' leaves them.",
        group="Pages",
        choices=("auto", "keep"),
    )
    read_blank: bool = option(
        False,
        "Give pages without ink to the engine, too; their rows say 'blank' otherwise.",
        group="Pages",
    )
    max_image_pixels: int = option(
        400_000_000,
        "Decode no image file of more than this many pixels: its row says page_too_large.",
        group="Raster",
        minimum=1,
        metavar="PIXELS",
    )
    page_timeout: float = option(
        60.0, "Seconds that rendering one page may take.", group="Raster", minimum=0.1, metavar="S"
    )
    rasterizer_memory_mb: int = option(
        4096,
        "Memory that a rasterizing process may take for itself, in MiB; 0 sets no limit.",
        group="Raster",
        minimum=0,
        metavar="MIB",
    )
    fake_decoder: bool = option(
        False,
        "Let files that ask for it crash, hang or eat memory, to test what becomes of such.",
        group="Raster",
    )
    rasterizers: int = option(0, "Rasterizing processes; 0 means one a core.", group="Raster", minimum=0, metavar="N")
    pages_per_task: int = option(
        16, "Pages of one document that a rasterizing task renders.", group="Raster", minimum=1, metavar="N"
    )
    batch_size: int | str = option(
        "auto",
        "Pages in a batch; 'auto' takes what 'pagemill tune' has measured, else what the engine says, and adapts.",
        group="Batches",
        metavar="N",
    )
    max_batch_tokens: int = option(
        0,
        "Tokens in a batch, each page counted as long as its longest; 0 sets no limit. A longer page goes alone.",
        group="Batches",
        minimum=0,
        metavar="TOKENS",
    )
    max_page_wait: float = option(
        300.0, "Seconds that a page waits for others of like length.", group="Batches", minimum=0, metavar="S"
    )
    buckets: int = option(
        12,
        "Length classes, chosen from the lengths of the pages so that batches carry little padding.",
        group="Batches",
        minimum=1,
        metavar="N",
    )
    profile: str = option(
        "balanced",
        "What to take of a tuning: 'bulk' the fastest batches, 'balanced' the smallest within 3 % of these,"
        " 'interactive' the same of those that keep to --max-latency, or 1.5 times the latency of one page.",
        group="Batches",
        choices=("bulk", "balanced", "interactive"),
    )
    max_latency: float = option(
        0.0,
        "Take no batch size of a tuning by which 1 in 20 pages took longer than this, in seconds; 0 sets no limit.",
        group="Batches",
        minimum=0,
        metavar="S",
    )
    tuning: str = option(
        "",
        "File that 'pagemill tune' has written; 'none' uses none. Else that in the folder for configuration.",
        group="Batches",
        metavar="FILE",
    )
    window: int = option(
        512,
        "Pages to look ahead over when sorting pages into batches.",
        group="Batches",
        minimum=1,
        metavar="PAGES",
    )
    raster_memory_mb: int = option(
        0,
        "Memory for rasters that wait for the engine, in MiB; rasterizing pauses above it. 0 takes an eighth of the"
        " machine's, at most 4096, and 768 on a cluster that is joined.",
        group="Batches",
        minimum=0,
        metavar="MIB",
    )
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

    def __post_init__(self) -> None:
        for item in fields(self):
            check(item, getattr(self, item.name))
        Selection.parse(self.pages)
        number_or_auto("--batch-size", self.batch_size)
        unknown = [code for code in self.codes_to_retry or () if code not in tuple(ErrorCode)]
        if unknown:
            raise ConfigurationError(
                f"--retry-failed: no error code '{unknown[0]}'{nearest(unknown[0], tuple(ErrorCode))}"
            )

    @property
    def asked_batch_size(self) -> int | None:
        """Pages in a batch, if a number was asked for."""
        return number_or_auto("--batch-size", self.batch_size)

    @property
    def codes_to_retry(self) -> frozenset[str] | None:
        """Error codes of pages to read again; None for all of them."""
        if self.retry_failed == "all":
            return None
        return frozenset(code.strip() for code in self.retry_failed.split(",") if code.strip())

    @property
    def selection(self) -> Selection:
        """The pages asked for."""
        return Selection.parse(self.pages, self.max_pages_per_document)

    def as_json(self) -> str:
        """The resolved configuration, keys sorted, as it is written beside the output."""
        return json.dumps(asdict(self), sort_keys=True)


def option_fields() -> list[Field[Any]]:
    """The fields that are options (all but `inputs` and `out`), in the order of declaration."""
    return [f for f in fields(JobConfig) if f.metadata]


def from_mapping(values: Mapping[str, Any]) -> dict[str, Any]:
    """Check the keys and types of a job file and give values fit for `JobConfig`.

    Raises:
        ConfigurationError: an unknown key (the message names the nearest known one) or a wrong type.
    """
    types_by_name = get_type_hints(JobConfig)
    return {key: coerce(key, value, types_by_name) for key, value in values.items()}
