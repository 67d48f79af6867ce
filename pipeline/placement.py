"""Placement: how many engine actors and rasterizers the nodes of a cluster hold. Pure.

What a node has counts, not what is free of it at the moment: waiting for others to finish is fine, waiting for
what no node has is not. A whole CPU is left to rasterizing; actors that took it would wait for pages for ever.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.engines.engine import Needs

_EPSILON = 1e-6
"""Ray counts in ten-thousandths; sums of fractions must not lose an actor to rounding."""


@dataclass(frozen=True, slots=True)
class Node:
    """What one living node has in all, busy or not."""

    num_cpus: float
    num_gpus: float = 0.0
    memory_bytes: float = math.inf

    def holds(self, needs: Needs) -> int:
        """How many actors fit on it."""
        pairs = (
            (self.num_cpus, needs.num_cpus),
            (self.num_gpus, needs.num_gpus),
            (self.memory_bytes, needs.memory_bytes),
        )
        fits = [has / wanted + _EPSILON for has, wanted in pairs if wanted > 0]
        return int(min(fits, default=1))

    def actors_to_give_up(self, needs: Needs) -> float:
        """How many of the actors that fit must not be there, so that a rasterizer has a CPU; infinite if in vain."""
        if self.num_cpus < 1:
            return math.inf
        short = 1 - (self.num_cpus - self.holds(needs) * needs.num_cpus)
        return max(0, math.ceil(short / needs.num_cpus - _EPSILON)) if needs.num_cpus else 0


@dataclass(frozen=True, slots=True)
class Width:
    """How many engine actors, and how many rasterizing tasks at a time. No actor means that none can run."""

    num_actors: int
    num_rasterizers: int


def room_for_actors(nodes: Sequence[Node], needs: Needs) -> int:
    """How many actors the nodes hold together while one CPU is left on one of them."""
    given_up = min((node.actors_to_give_up(needs) for node in nodes), default=math.inf)
    full = sum(node.holds(needs) for node in nodes)
    return max(0, full - int(given_up)) if given_up < math.inf else 0


def width(nodes: Sequence[Node], needs: Needs, *, actors: int = 0, rasterizers: int = 0) -> Width:
    """As wide as was asked for or, where that is zero, as the nodes hold; never more actors than they hold."""
    room = room_for_actors(nodes, needs)
    num_actors = min(actors or room, room)
    left = sum(node.num_cpus for node in nodes) - num_actors * needs.num_cpus
    return Width(num_actors, rasterizers or max(1, int(left + _EPSILON)))


def shortage(nodes: Sequence[Node], needs: Needs) -> str:
    """What an actor needs and what the nodes have, in words for a person."""
    wanted = _amounts(needs.num_cpus, needs.num_gpus, needs.memory_bytes)
    have = "; ".join(
        _amounts(node.num_cpus, node.num_gpus, node.memory_bytes if needs.memory_bytes else 0) for node in nodes
    )
    return (
        f"an engine needs {wanted} on one node, and rasterizing one CPU beside; living nodes have: {have or 'nothing'}"
    )


def _amounts(num_cpus: float, num_gpus: float, memory_bytes: float) -> str:
    words = [f"{num_cpus:g} CPU", f"{num_gpus:g} GPU"]
    words += [f"{memory_bytes / 2**30:.1f} GiB of memory"] if 0 < memory_bytes < math.inf else []
    return ", ".join(words)
