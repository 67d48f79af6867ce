"""One Ray cluster for all tests of this folder, joined by address as a user's would be."""

from __future__ import annotations

import os
from collections.abc import Iterator

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import pytest


@pytest.fixture(scope="session")
def ray_address() -> Iterator[str]:
    from ray.cluster_utils import Cluster

    # All of Ray's own files of the test go to the default place, where its `Cluster` helper looks for them.
    node = {"num_cpus": 5, "object_store_memory": 512 << 20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, connect=False, head_node_args={**node, "node_ip_address": "127.0.0.2"})
    yield cluster.address
    cluster.shutdown()
