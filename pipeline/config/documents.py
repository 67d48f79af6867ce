"""Options that say what is read: documents, the pages of each, and how they become pixels."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.option import option


@dataclass(frozen=True, kw_only=True)
class InputOptions:
    """Which documents, and what of them."""

    __slots__ = ()

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
    order: str = option(
        "listed",
        "'oldest' reads first what has waited longest where it lies; 'listed' goes by inputs and names.",
        group="Input",
        choices=("listed", "oldest"),
    )
    rehash: bool = option(
        False,
        "Hash every file again, also where size, times and inode are those of a document that is done.",
        group="Input",
    )
    object_cache_mb: int = option(
        4096,
        "Disk that documents fetched from an object store may take on each machine while a run lasts, in MiB.",
        group="Input",
        minimum=1,
        metavar="MIB",
    )
    store_patience: float = option(
        180.0,
        "Seconds to ask an object store again and again that does not answer, before the run ends.",
        group="Input",
        minimum=0,
        metavar="S",
    )


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """Which pages, and what is asked of them."""

    __slots__ = ()

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


@dataclass(frozen=True, kw_only=True)
class RasterOptions:
    """How pages become pixels, and what that may cost."""

    __slots__ = ()

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
