"""Machine: what the row of a run says of the software and the hardware that it ran on."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pipeline import __version__
from pipeline.config import JobConfig

_MOST_RASTERS_MB, _RASTERS_OF_A_CLUSTER_MB = 4096, 768
"""Memory for rasters that wait: at most here, and in the object store of a cluster, whose size is not known."""

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
    return found | _installed(_REPORTED_PACKAGES)


def _installed(packages: Sequence[str]) -> dict[str, str]:
    found = {}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def memory_bytes() -> int:
    """All of the machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def machine() -> dict[str, Any]:
    """The machine of the driver."""
    return {
        "node": platform.node(),
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "memory_bytes": memory_bytes(),
    }


def raster_bytes(config: JobConfig) -> int:
    """Memory for rasters that wait for an engine: what was asked for, else a share of this machine's."""
    if config.raster_memory_mb or config.ray_address:
        return (config.raster_memory_mb or _RASTERS_OF_A_CLUSTER_MB) << 20
    return max(256 << 20, min(_MOST_RASTERS_MB << 20, memory_bytes() // 8))
