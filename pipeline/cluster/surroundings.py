"""Surroundings: what the cluster around a run still has, looked at every few seconds."""

from __future__ import annotations

import math
import socket
import time
from dataclasses import dataclass, field

import ray

from pipeline.engines.engine import Needs
from pipeline.errors import ClusterError
from pipeline.placement import Node, room_for_actors, shortage

_LOOK_S = 2.0
"""Time between two looks; one takes about a millisecond."""

_PATIENCE_S = 20.0
"""How long the head node may be silent. Ray ends the driver's process, without a word to it, after 60 s."""


def own_raylet_address() -> str:
    """Where Ray's process for this machine listens."""
    mine = ray.get_runtime_context().get_node_id()
    node = next(node for node in ray.nodes() if node["NodeID"] == mine)
    return f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}"


@dataclass(slots=True)
class Surroundings:
    """Looks at head and nodes. `wanted_actors` is the width of the pool if all is well, `grace_s` see `GRACE_S`."""

    needs: Needs
    wanted_actors: int
    grace_s: float
    _head: str = field(default_factory=lambda: str(ray.get_runtime_context().gcs_address))
    _node: str = field(default_factory=own_raylet_address)
    _looked_at: float = field(default_factory=time.monotonic)
    _heard_at: float = field(default_factory=time.monotonic)
    _fitted_at: float = field(default_factory=time.monotonic)

    def look(self, num_actors: int, *, is_reading: bool) -> int | None:
        """How many actors there should be; None if it is not time to look, or too early to say.

        Raises:
            ClusterError: see `pipeline.cluster.runner.ClusterRunner`.
        """
        now = time.monotonic()
        if now - self._looked_at < _LOOK_S:
            return None
        self._looked_at = now
        if not self._hears(now):
            return None
        nodes = living_nodes()
        room = room_for_actors(nodes, self.needs)
        if room >= num_actors:
            self._fitted_at = now
            return min(self.wanted_actors, room)
        if now - self._fitted_at < self.grace_s:
            return None
        if room == 0 and not is_reading:
            raise ClusterError(
                f"no node can hold the engine, after {self.grace_s:.0f} s: {shortage(nodes, self.needs)}"
            )
        return room or None

    def head_answers(self) -> bool:
        """Whether somebody listens at the head node's address."""
        return _answers(self._head, timeout_s=1.0)

    def _hears(self, now: float) -> bool:
        """Whether the head node answers."""
        if not _answers(self._node, timeout_s=1.0):
            raise ClusterError("Ray's process on this machine has died; start again")
        if self.head_answers():
            self._heard_at = now
            return True
        if now - self._heard_at > _PATIENCE_S:
            problem = f"Ray's head node at {self._head} has not answered for {now - self._heard_at:.0f} s"
            raise ClusterError(f"{problem}; start again when it runs")
        return False


def living_nodes() -> list[Node]:
    """What each node has that Ray takes for alive."""
    found = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return [Node(has.get("CPU", 0.0), has.get("GPU", 0.0), has.get("memory", math.inf)) for has in found]


def _answers(address: str, *, timeout_s: float) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_s):
            return True
    except OSError:
        return False
