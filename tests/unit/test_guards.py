"""The guards of this folder hold."""

from __future__ import annotations

import importlib
import socket
import time

import pytest

Failed = pytest.fail.Exception


def test_a_unit_test_that_imports_ray_fails():
    with pytest.raises(Failed, match="must not import ray"):
        importlib.import_module("ray")
    with pytest.raises(Failed, match="must not import ray"):
        importlib.import_module("ray.exceptions")


def test_a_unit_test_that_imports_the_cluster_fails():
    with pytest.raises(Failed, match="must not import ray"):
        importlib.import_module("pipeline.cluster")


def test_a_unit_test_that_sleeps_fails():
    with pytest.raises(Failed, match="must not sleep"):
        time.sleep(0)


def test_a_unit_test_that_opens_a_socket_fails():
    with pytest.raises(Failed, match="must not open a socket"):
        socket.socket()
    with pytest.raises(Failed, match="must not open a socket"):
        socket.create_connection(("127.0.0.1", 9))
