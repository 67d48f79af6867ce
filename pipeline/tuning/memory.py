"""Memory: how much of it this process has taken at the most, and how much the machine has. Linux says; others guess."""

from __future__ import annotations

import ctypes
import os
import resource
from contextlib import suppress
from pathlib import Path

STATUS, CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")
CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def reset_peak() -> None:
    """Give back what the allocator holds unused, and count the peak from here, where the system allows that."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError):
        CLEAR_REFS.write_text("5", encoding="ascii")


def peak_bytes(status: Path = STATUS) -> int:
    """Most resident memory since `reset_peak`; since the process began, where the system keeps no other count."""
    with suppress(OSError, ValueError, IndexError):
        for line in status.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def physical_bytes() -> int:
    """All of the machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def machine_bytes() -> int:
    """Memory of the machine, or what a container may take of it."""
    found = [physical_bytes()]
    for path in CGROUP_LIMITS:
        with suppress(OSError, ValueError):  # "max" is no number
            found.append(int(path.read_text(encoding="ascii")))
    return min(found)
