"""Launch: starts a Ray of its own, or joins one, and says how wide the run can be."""

from __future__ import annotations

import logging
import math
import os
import secrets
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ray

import pipeline
from pipeline.cluster.surroundings import living_nodes
from pipeline.engines.engine import Needs
from pipeline.page import RasterLimits
from pipeline.placement import Width, width
from pipeline.scratch import Scratch

GRACE_S = 60.0
"""How long no living node may be able to hold what the run needs; autoscalers need about that to bring one."""

_LOOPBACK: dict[str, Any] = {"_node_ip_address": "127.0.0.2"} if sys.platform == "linux" else {}
"""A Ray that is started here listens on the loopback interface only (Ray itself replaces 127.0.0.1)."""

_TOKEN = "RAY_AUTH_TOKEN"  # noqa: S105 (the name of a variable)

_OF_STORES = (
    *("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"),
    *("AWS_SKIP_SIGNATURE", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "AWS_REQUEST_PAYER"),
    *("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ENDPOINT", "STORAGE_EMULATOR_HOST"),
)

_CONNECT_S = 10.0
"""Longest wait for the head node of a cluster to answer when it is joined."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Where to run and how wide; zeros choose by the machine or cluster."""

    address: str = ""
    actors: int = 0
    rasterizers: int = 0
    raster_bytes: int = 768 << 20
    limits: RasterLimits = field(default_factory=RasterLimits)
    grace_s: float = GRACE_S


def launch(options: ClusterOptions, needs: Needs) -> tuple[Width, Scratch | None]:
    """Start or join Ray. A Ray that was started has its files in a temporary folder, which is given back, too.

    Raises:
        OSError, RuntimeError, ValueError, RayError: Ray cannot be started or joined.
    """
    if options.address:
        return _join(options, needs), None
    scratch = Scratch.make()
    return _start_here(options, needs, scratch), scratch


def _start_here(options: ClusterOptions, needs: Needs, scratch: Scratch) -> Width:
    cores = os.cpu_count() or 1
    num_actors = options.actors or max(1, int(cores // max(needs.num_cpus, 1)))
    num_rasterizers = options.rasterizers or cores
    # Engines and rasterizers may both use every core: the system shares them, and back-pressure
    # stops the rasterizers as soon as they are ahead.
    num_cpus = num_rasterizers + max(1, math.ceil(num_actors * needs.num_cpus))
    with _own_token():
        ray.init(
            num_cpus=num_cpus,
            object_store_memory=max(options.raster_bytes * 5 // 2, 256 << 20),
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _temp_dir=str(scratch.folder),
            **_LOOPBACK,
        )
    return Width(num_actors, num_rasterizers)


@contextmanager
def _own_token() -> Iterator[None]:
    """Have a Ray that starts meanwhile ask for a token that this run alone knows; Ray would keep one in HOME."""
    if _TOKEN in os.environ or f"{_TOKEN}_PATH" in os.environ:
        yield
        return
    os.environ[_TOKEN] = secrets.token_hex(32)
    try:
        yield
    finally:
        del os.environ[_TOKEN]


def _join(options: ClusterOptions, needs: Needs) -> Width:
    _must_answer(options.address)
    code = str(Path(pipeline.__file__).parent)
    ray.init(
        address=options.address,
        log_to_driver=False,
        logging_level=logging.ERROR,
        runtime_env={"py_modules": [code], "env_vars": _addresses()},
    )
    wide = width(living_nodes(), needs, actors=options.actors, rasterizers=options.rasterizers)
    # What does not fit is asked for nevertheless, during the grace: nodes may be on their way.
    return replace(wide, num_actors=options.actors or max(1, wide.num_actors))


def _addresses() -> dict[str, str]:
    """Where this process finds object stores, for workers on other machines; who they are there, these know themselves.

    Nothing secret: Ray shows what it hands on.
    """
    return {name: os.environ[name] for name in _OF_STORES if os.environ.get(name)}


def _must_answer(address: str) -> None:
    """Refuse an address where nothing listens at once; Ray itself would try for five minutes."""
    host, _, port = address.rpartition(":")
    if address == "auto":
        return
    if not host or not port.isdigit():
        raise ValueError("the address must be 'auto' or HOST:PORT of the head node")
    with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S):
        pass
