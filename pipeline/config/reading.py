"""Options that say how pages are read: the engine and its batches."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.option import option


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """What reads the pages."""

    __slots__ = ()

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
    gpus_per_actor: float = option(
        0.0,
        "GPUs that an engine process takes, such as 0.5 where two share one; 0 takes what the engine asks for.",
        group="Engine",
        minimum=0,
        metavar="N",
    )
    actors: int = option(0, "Engine processes; 0 chooses by the machine.", group="Engine", minimum=0, metavar="N")


@dataclass(frozen=True, kw_only=True)
class BatchOptions:
    """How pages come together in batches."""

    __slots__ = ()

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
