"""Projections of the same input as one product of matrices: a step over few rows costs calls more than arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


def joined(projections: Sequence[Any]) -> Callable[[Tensor], Tensor]:
    """One call for projections of the same input: their results behind one another on the last axis.

    Weights of plain linear layers are laid into one matrix, of which the layers keep views: nothing takes memory twice
    and the layers go on working. What is not plain, such as quantized layers, is called one after the other.
    """
    if any(type(projection) is not nn.Linear or projection.bias is not None for projection in projections):
        return lambda hidden: torch.cat([projection(hidden) for projection in projections], -1)
    weight = torch.cat([projection.weight.detach() for projection in projections])
    parts = weight.split([projection.out_features for projection in projections])
    for projection, part in zip(projections, parts, strict=True):
        projection.weight.data = part
    return lambda hidden: functional.linear(hidden, weight)
