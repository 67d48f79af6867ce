"""Machine: what the row of a run says of the software and the hardware that it ran on."""

from __future__ import annotations

import os
import platform
import shutil
from typing import Any

from pipeline import __version__
from pipeline.config import JobConfig
from pipeline.engines.hardware import versions_of
from pipeline.tuning.memory import machine_bytes, physical_bytes

_MOST_RASTER_BYTES, _USUAL_RASTERS_MB = 4_000_000_000, 768
"""Memory for rasters that wait: at most, since Ray's store is 2.5 times that, and of more than 10 GB it refuses to go
to a disk; and where nobody knows how much there is."""

_REPORTED_PACKAGES = (
    "ray",
    "pymupdf",
    "pillow",
    "pyarrow",
    "rapidocr",
    "onnxruntime",
    "torch",
    "transformers",
)


def versions() -> dict[str, str]:
    """Of Pagemill, Python, and the libraries that can alter what comes out, as far as they are installed."""
    found = {"pagemill": __version__, "python": platform.python_version()}
    return found | dict(versions_of(_REPORTED_PACKAGES))


def machine() -> dict[str, Any]:
    """The machine of the driver."""
    return {
        "node": platform.node(),
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "memory_bytes": physical_bytes(),
    }


def raster_bytes(config: JobConfig) -> int:
    """Memory for rasters that wait for an engine: what was asked for, else a share of this machine's."""
    if config.raster_memory_mb or config.ray_address:
        return (config.raster_memory_mb or _USUAL_RASTERS_MB) << 20
    share = machine_bytes() // 8
    most = min(share, _MOST_RASTER_BYTES, _shared_memory_bytes() * 2 // 5)
    return max(256 << 20, min(share, _USUAL_RASTERS_MB << 20), most)


def _shared_memory_bytes() -> int:
    """What is free where Ray keeps its objects; with less than they take it goes to a disk, or refuses to start."""
    try:
        return shutil.disk_usage("/dev/shm").free  # noqa: S108 (looked at only)
    except OSError:
        return 0
