"""Hardware: what this machine computes on, by name, from files of the system; no library is loaded for it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

NVIDIA = Path("/proc/driver/nvidia/gpus")
CPUINFO = Path("/proc/cpuinfo")


def gpu_name(folder: Path = NVIDIA) -> str:
    """The model of the GPU, of all of them where they differ; ``GPU`` if the driver does not say."""
    names = {_value(path, "Model") for path in sorted(folder.glob("*/information"))}
    return " + ".join(sorted(filter(None, names))) or "GPU"


def cpu_name(file: Path = CPUINFO) -> str:
    """The model of the processor and the number of cores that this process may use."""
    return f"{_value(file, 'model name') or 'CPU'}, {num_cores()} cores"


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def versions_of(packages: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Names and versions of these packages, as far as they are installed, sorted."""
    found = []
    for name in sorted(packages):
        try:
            found.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            continue
    return tuple(found)


def _value(path: Path, key: str) -> str:
    """What stands behind the first line that begins with a key and a colon; nothing if it is not there."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((v.strip() for k, _, v in (line.partition(":") for line in lines) if k.strip() == key), "")
