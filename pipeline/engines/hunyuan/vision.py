"""The vision tower over many pages at once: packed, with attention within each page.

transformers goes through the tower page after page where attention is SDPA. Here all patches of a group of pages
form one sequence, and pages of one size, which most of a scan are, share one call of attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pipeline.engines.hunyuan.pixels import Patches


def encode(tower: Any, pages: Sequence[Patches]) -> list[Tensor]:
    """What the tower makes of each page: its visual tokens, shape (rows · (columns + 1) + 2, hidden of the text model).

    Args:
        tower: A `HunYuanVLVisionTransformer` of transformers, whose weights are used.
        pages: Pages of any size; those of one size had best stand together.
    """
    hidden = _embedded(tower.embeddings, pages)
    for layer in tower.layers:
        hidden = hidden + _attention(layer.self_attn, layer.layer_norm1(hidden), pages)
        hidden = hidden + layer.mlp(layer.layer_norm2(hidden))
    found: list[Tensor] = []
    for page, part in _by_size(hidden, pages):
        found += tower.patch_merger(part, size=(page.rows, page.columns))
    return found


def _embedded(embedding: Any, pages: Sequence[Patches]) -> Tensor:
    """Patches and their places: shape (all patches, hidden)."""
    weight = embedding.patch_embedding.weight
    values = torch.cat([page.values for page in pages]).to(weight.dtype)
    # A convolution whose stride is its kernel is one product of matrices.
    hidden = functional.linear(values, weight.flatten(1), embedding.patch_embedding.bias)
    sizes = {(page.rows, page.columns) for page in pages}
    places = {size: embedding.interpolate_pos_encoding(hidden, *size)[0] for size in sizes}
    return hidden + torch.cat([places[page.rows, page.columns] for page in pages])


def _attention(attention: Any, hidden: Tensor, pages: Sequence[Patches]) -> Tensor:
    """Every patch looks at those of its own page."""
    query, key, value = attention.q_proj(hidden), attention.k_proj(hidden), attention.v_proj(hidden)
    seen = []
    start = 0
    for page, count in _runs(pages):
        stop = start + count * page.rows * page.columns
        sides = (count, -1, attention.num_heads, attention.head_dim)
        q, k, v = (part[start:stop].reshape(sides).transpose(1, 2) for part in (query, key, value))
        looked = functional.scaled_dot_product_attention(q, k, v, scale=attention.scaling)
        seen.append(looked.transpose(1, 2).reshape(stop - start, -1))
        start = stop
    result: Tensor = attention.o_proj(torch.cat(seen))
    return result


def _by_size(hidden: Tensor, pages: Sequence[Patches]) -> list[tuple[Patches, Tensor]]:
    """Runs of pages of one size: one of them, and the patches of all, shape (pages, patches, hidden)."""
    found, start = [], 0
    for page, count in _runs(pages):
        stop = start + count * page.rows * page.columns
        found.append((page, hidden[start:stop].reshape(count, page.rows * page.columns, -1)))
        start = stop
    return found


def _runs(pages: Sequence[Patches]) -> list[tuple[Patches, int]]:
    """Neighbours of one size: one of them, and how many they are."""
    runs = [list(run) for _, run in groupby(pages, key=lambda page: (page.rows, page.columns))]
    return [(run[0], len(run)) for run in runs]
