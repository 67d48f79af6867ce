"""A device whose memory ends, simulated on the CPU: live bytes of tensors are counted, operation by operation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

NEVER = 2**62
ONE_KERNEL = ("upsample", "rms_norm")
"""What is one kernel on a GPU, although it can be taken apart."""


class Memory(TorchDispatchMode):
    """Counts what is allocated while it is entered, and refuses what goes beyond.

    Tensors that were there before do not count. What an operation takes within itself is seen as far as it is made
    of others; scratch space of a kernel is not.

    Args:
        capacity_bytes: More is refused with `torch.OutOfMemoryError`.
        fail_at: This allocation (from 1) is refused, once.
    """

    def __init__(self, capacity_bytes: int = NEVER, fail_at: int = NEVER) -> None:
        super().__init__()
        self.capacity_bytes, self.fail_at = capacity_bytes, fail_at
        self.peak_bytes = self.num_allocated = self.num_refused = 0
        self._live: dict[int, tuple[StorageWeakRef, int]] = {}

    @property
    def live_bytes(self) -> int:
        self._live = {key: kept for key, kept in self._live.items() if not kept[0].expired()}
        return sum(size for _, size in self._live.values())

    @contextmanager
    def peak(self) -> Iterator[list[int]]:
        """What was alive at most within, beyond what was alive at the beginning; one number, when it ends."""
        found: list[int] = []
        before = self.peak_bytes = self.live_bytes
        yield found
        found.append(self.peak_bytes - before)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        composite = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
        if composite and not any(name in func.name() for name in ONE_KERNEL):
            with self:
                done = func.decompose(*args, **kwargs)
            if done is not NotImplemented:
                return done
        given = {self._key(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)}
        done = func(*args, **kwargs)
        for leaf in tree_leaves(done):
            if isinstance(leaf, torch.Tensor) and self._key(leaf) not in given:
                self._take(leaf)
        return done

    def _take(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        held = self._live.get(storage._cdata)
        if held is not None and not held[0].expired():
            return
        size, live = storage.nbytes(), self.live_bytes
        self.num_allocated += 1
        if live + size > self.capacity_bytes or self.num_allocated == self.fail_at:
            self.num_refused += 1
            raise torch.OutOfMemoryError(f"simulated: {size} bytes beside {live} of {self.capacity_bytes}")
        self._live[storage._cdata] = StorageWeakRef(storage), size
        self.peak_bytes = max(self.peak_bytes, live + size)

    @staticmethod
    def _key(tensor: torch.Tensor) -> int:
        return int(tensor.untyped_storage()._cdata)
