"""Device: which one a model runs on and in which precision, and what its errors mean. Imports torch when asked only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.engines.engine import Premises
from pipeline.engines.hardware import cpu_name, gpu_name, versions_of
from pipeline.errors import DeviceOutOfMemoryError, EngineBrokenError, EngineUnavailableError
from pipeline.result import GpuUse

if TYPE_CHECKING:
    import torch

DEVICES = ("auto", "cpu", "cuda")
TORCH_NAMES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}
PRECISIONS = ("auto", *TORCH_NAMES)
USUAL = {"cuda": "fp16", "cpu": "fp32"}
"""The precision for `auto`, by device."""


def missing_libraries() -> str | None:
    """What an engine that runs a model lacks here, as one line that says how to get it; None if nothing."""
    absent = [name for name in ("torch", "transformers") if find_spec(name) is None]
    return f"{' and '.join(absent)} not installed: pip install 'pagemill[torch]'" if absent else None


def wants_gpu(device: str) -> bool:
    """Whether an engine told to run on `device` takes a GPU, told without torch: for ``auto`` by the driver's files."""
    if device != "auto":
        return device == "cuda"
    return any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/dxg").exists()


def premises(device: str, precision: str, manner: str = "") -> Premises:
    """What figures of a model under these options hold for, told without torch."""
    found = "cuda" if wants_gpu(device) else "cpu"
    name = gpu_name() if found == "cuda" else cpu_name()
    known = USUAL[found] if precision == "auto" else precision
    return Premises(known, name, versions_of(("torch", "transformers")), manner)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a model runs: `device` is ``cpu`` or ``cuda``, `precision` one of fp16, bf16, fp32."""

    device: str
    precision: str

    @classmethod
    def find(cls, device: str, precision: str) -> Place:
        """The place that these options mean on this machine: on a GPU in FP16, on the CPU in fp32, if it is left open.

        Raises:
            EngineUnavailableError: a GPU is asked for, and torch finds none.
        """
        import torch

        has_gpu = torch.cuda.is_available()
        if device == "cuda" and not has_gpu:
            raise EngineUnavailableError(
                "device=cuda: torch finds no GPU here; install its build for CUDA, or device=cpu"
            )
        found = "cuda" if has_gpu and device != "cpu" else "cpu"
        return cls(found, USUAL[found] if precision == "auto" else precision)

    @property
    def dtype(self) -> torch.dtype:
        """The precision as torch has it."""
        import torch

        found: torch.dtype = getattr(torch, TORCH_NAMES[self.precision])
        return found

    def wider(self) -> Place | None:
        """Where to read a page again whose numbers were too large; None if nothing is wider."""
        if self.precision == "fp32":
            return None
        return Place(self.device, "bf16" if self.precision == "fp16" and self._has_bf16() else "fp32")

    def _has_bf16(self) -> bool:
        import torch

        return self.device == "cuda" and torch.cuda.is_bf16_supported()


def gpu_use(device: str) -> GpuUse | None:
    """Peak memory of this process on the GPU since the last call, and whether it is busy; None on the CPU."""
    import torch

    if device != "cuda":
        return None
    peaks = int(torch.cuda.max_memory_allocated()), int(torch.cuda.max_memory_reserved())
    used = GpuUse(*peaks, _utilization())
    torch.cuda.reset_peak_memory_stats()
    return used


@contextmanager
def device_errors() -> Iterator[None]:
    """Translate what torch raises about its device.

    Raises:
        DeviceOutOfMemoryError: in place of its own.
        EngineBrokenError: in place of an error after which the device is of no use to this process.
    """
    import torch

    try:
        yield
    except torch.OutOfMemoryError as error:
        held = None
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
            held = gpu_memory_bytes()[1]
        raise DeviceOutOfMemoryError(_line(error), held) from error
    except torch.AcceleratorError as error:
        raise EngineBrokenError(_line(error)) from error


def give_memory_back() -> None:
    """Let the GPU have what the allocator of this process holds unused, and count peaks from here."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def gpu_memory_bytes() -> tuple[int, int]:
    """Memory of the GPU in use: all of it, and what other processes hold."""
    import torch

    free, total = torch.cuda.mem_get_info()
    return int(total), max(0, int(total - free - torch.cuda.memory_reserved()))


def _utilization() -> float | None:
    """Share of the last moments in which the GPU was busy; None where NVML is not to be had."""
    import torch

    try:
        return float(torch.cuda.utilization()) / 100
    except (ModuleNotFoundError, RuntimeError):
        return None


def _line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
