"""The keys and values of all slots: made once, in one piece a layer, and grown only when an answer needs it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

GROWTH_TOKENS = 1024
"""Added when an answer outgrows its slot: room for the longest possible one (8,192) would mostly stand empty."""


@dataclass(frozen=True, slots=True)
class CacheShape:
    """How much a token takes: layers, heads of keys and values, and their width."""

    num_layers: int
    num_kv_heads: int
    head_dim: int
    dtype: torch.dtype

    @property
    def token_bytes(self) -> int:
        """Bytes of one token, keys and values of all layers (96 KiB for HunyuanOCR 1.0 in FP16)."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * self.dtype.itemsize


class KeyValueCache:
    """`keys[layer]` and `values[layer]` have the shape (slots, heads, capacity in tokens, head_dim)."""

    def __init__(self, shape: CacheShape, *, num_slots: int, capacity: int, device: torch.device) -> None:
        self.shape, self.num_slots, self.capacity, self.device = shape, num_slots, capacity, device
        self.keys = [self._empty(num_slots, capacity) for _ in range(shape.num_layers)]
        self.values = [self._empty(num_slots, capacity) for _ in range(shape.num_layers)]

    def resize(self, *, num_slots: int, capacity: int) -> None:
        """Another number of slots or tokens, layer after layer, so that never two whole caches are there.

        What does not fit is lost: the last slots, and the ends of sequences. When memory runs out on the way, the
        cache holds what both sizes have room for.

        Raises:
            torch.OutOfMemoryError: the device has no memory for another layer.
        """
        slots, tokens = min(num_slots, self.num_slots), min(capacity, self.capacity)
        self.num_slots, self.capacity = slots, tokens
        for tensors in (self.keys, self.values):
            for layer in range(self.shape.num_layers):
                new = self._empty(num_slots, capacity)
                new[:slots, :, :tokens] = tensors[layer][:slots, :, :tokens]
                tensors[layer] = new
        self.num_slots, self.capacity = num_slots, capacity

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` tokens of one slot to another."""
        for tensor in (*self.keys, *self.values):
            tensor[target, :, :length] = tensor[source, :, :length]

    def clear(self, slot: int) -> None:
        """Zeros again, after a page whose numbers were not finite: the next one in the slot would be infected."""
        for tensor in (*self.keys, *self.values):
            tensor[slot].zero_()

    def _empty(self, num_slots: int, capacity: int) -> Tensor:
        # Zeros: what was never written is masked, but a product of 0 and not-a-number would not be.
        sides = (num_slots, self.shape.num_kv_heads, capacity, self.shape.head_dim)
        return torch.zeros(sides, dtype=self.shape.dtype, device=self.device)


def rounded_up(tokens: int, step: int) -> int:
    """The next multiple."""
    return -(-tokens // step) * step
