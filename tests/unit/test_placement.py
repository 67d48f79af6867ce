"""How many actors and rasterizers the nodes of a cluster hold: laws, and the cases that once starved."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engines.engine import Needs
from pipeline.placement import Node, Width, room_for_actors, shortage, width

GIB = 1 << 30
CPU_ENGINE = Needs()
GPU_ENGINE = Needs(num_gpus=1)

some_nodes = st.lists(st.builds(Node, st.integers(0, 64), st.integers(0, 8), st.just(64.0 * GIB)), max_size=5)
some_needs = st.builds(
    Needs,
    num_cpus=st.sampled_from([0.5, 1.0, 1.5, 4.0]),
    num_gpus=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    memory_bytes=st.sampled_from([0, GIB, 40 * GIB]),
)


@given(some_nodes, some_needs)
def test_the_actors_that_fit_can_be_placed_and_leave_a_whole_cpu_on_some_node(nodes: list[Node], needs: Needs):
    room = room_for_actors(nodes, needs)
    held = [node.holds(needs) for node in nodes]
    for node, num in zip(nodes, held, strict=True):
        assert num * needs.num_cpus <= node.num_cpus
        assert num * needs.num_gpus <= node.num_gpus
        assert num * needs.memory_bytes <= node.memory_bytes
    spare = sum(held) - room  # what is given up, all on one node, has to free a CPU there
    frees = [n.num_cpus - max(0, h - spare) * needs.num_cpus >= 1 for n, h in zip(nodes, held, strict=True)]
    assert room == 0 or any(frees)


@given(some_nodes, some_needs, st.builds(Node, st.integers(0, 64), st.integers(0, 8)))
def test_another_node_never_makes_less_room(nodes: list[Node], needs: Needs, another: Node):
    assert room_for_actors([*nodes, another], needs) >= room_for_actors(nodes, needs)


@given(some_nodes, some_needs, st.integers(0, 9), st.integers(0, 9))
def test_a_run_is_never_wider_than_asked_and_always_rasterizes(nodes, needs, actors, rasterizers):
    wide = width(nodes, needs, actors=actors, rasterizers=rasterizers)
    assert wide.num_actors <= (actors or math.inf)
    assert wide.num_rasterizers == rasterizers or (not rasterizers and wide.num_rasterizers >= 1)


@pytest.mark.parametrize(
    ("nodes", "needs", "room"),
    [
        ([], CPU_ENGINE, 0),
        ([Node(1)], CPU_ENGINE, 0),
        ([Node(2)], CPU_ENGINE, 1),
        ([Node(8)], GPU_ENGINE, 0),
        ([Node(1, 1)], GPU_ENGINE, 0),
        ([Node(1, 1), Node(1)], GPU_ENGINE, 1),
        ([Node(3), Node(3)], Needs(num_cpus=4), 0),
        ([Node(3), Node(3)], Needs(num_cpus=2), 2),
        ([Node(4)], Needs(num_cpus=2), 1),
        ([Node(16, 4)], Needs(num_gpus=0.5), 8),
        ([Node(2)], Needs(num_cpus=0.1), 10),
        ([Node(0, 4), Node(2)], Needs(num_cpus=0, num_gpus=1), 4),
        ([Node(9, memory_bytes=3.0 * GIB)], Needs(memory_bytes=2 * GIB), 1),
        ([Node(0.5), Node(0.5)], Needs(num_cpus=0.5), 0),
    ],
)
def test_room_is_counted_node_by_node(nodes: list[Node], needs: Needs, room: int):
    assert room_for_actors(nodes, needs) == room


def test_what_the_actors_leave_goes_to_rasterizing():
    assert width([Node(8, 2), Node(4)], GPU_ENGINE) == Width(2, 10)
    assert width([Node(8)], CPU_ENGINE) == Width(7, 1)
    assert width([Node(8)], CPU_ENGINE, actors=3) == Width(3, 5)
    assert width([Node(8)], CPU_ENGINE, actors=30, rasterizers=2) == Width(7, 2)


def test_a_shortage_names_what_is_needed_and_what_is_there():
    said = shortage([Node(4), Node(2, 1)], GPU_ENGINE)
    assert said == (
        "an engine needs 1 CPU, 1 GPU on one node, and rasterizing one CPU beside; "
        "living nodes have: 4 CPU, 0 GPU; 2 CPU, 1 GPU"
    )
    assert shortage([], Needs(memory_bytes=3 << 29)).endswith(
        "1.5 GiB of memory on one node, and rasterizing one CPU beside; living nodes have: nothing"
    )
