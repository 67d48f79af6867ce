"""The flags that `pagemill tune` has of its own."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

Inputs = Annotated[
    Optional[list[str]],  # noqa: UP045 (typer reads the annotation)
    typer.Argument(metavar="INPUT...", help="Pages to measure with; else the samples.", show_default=False),
]
Sizes = Annotated[
    str, typer.Option("--sizes", metavar="N,N,...", help="Batch sizes to try (default: 1,2,4,8,12,16,...).")
]
MaxBatch = Annotated[int, typer.Option("--max-batch", help="Try none larger; 0 is 256 on a GPU, 64 on the CPU.")]
PagesPerTrial = Annotated[int, typer.Option("--pages-per-trial", help="Pages read for one measurement.")]
Repeats = Annotated[int, typer.Option("--repeats", help="How often each size is measured at least.")]
Buckets = Annotated[int, typer.Option("--buckets", help="Measure so many buckets, those with most pages.")]
Minutes = Annotated[float, typer.Option("--minutes", help="Time for measuring; what is left out is told.")]
Picture = Annotated[
    str, typer.Option("--picture", metavar="PREFIX", help="Draw PREFIX.png and .svg; else beside the tuning.")
]
