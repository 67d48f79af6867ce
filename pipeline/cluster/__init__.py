"""Cluster: the flow on Ray; the only ray import. Placement, back-pressure, and what to do when processes die.

Rasterizing tasks are streaming generators: for each block of pages a small description and then the pixels.
The driver fetches descriptions only; pixels stay in the object store until an engine actor maps them. Ray
retries nothing by itself (`max_retries=0`, `max_restarts=0`): `pipeline.flow` decides what is run again, and
how narrowly.
"""

from __future__ import annotations

import os

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

from pipeline.cluster.launch import ClusterOptions
from pipeline.cluster.runner import ClusterRunner

__all__ = ["ClusterOptions", "ClusterRunner"]
