"""A cluster of two nodes: one of them dies, is too small, or has nothing that the engine needs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest

from jobs.run import run
from pipeline.batch import BatchLimits
from pipeline.engines.engine import Needs
from pipeline.engines.fake import FakeEngine, FakeOptions
from pipeline.errors import ClusterError
from pipeline.flow import Flow, FlowLimits
from pipeline.ledger import Ledger
from pipeline.runner import drive
from pipeline.source import Discovery
from pipeline.task import Ready
from tests import documents
from tests.cluster.test_same_rows import job, processes_named, rows

GRACE_S = 3.0
HEAD_CPUS = 4


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head of four CPUs; tests add what they need."""
    from ray.cluster_utils import Cluster

    node = {"num_cpus": HEAD_CPUS, "object_store_memory": 256 << 20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, connect=False, head_node_args={**node, "node_ip_address": "127.0.0.2"})
    yield cluster
    cluster.shutdown()


def parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def when(condition: Callable[[], bool], act: Callable[[], None]) -> threading.Thread:
    """Act once as soon as the condition holds, if it does within a minute."""

    def watch() -> None:
        give_up = time.monotonic() + 60
        while time.monotonic() < give_up:
            if condition():
                act()
                return
            time.sleep(0.1)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def test_a_node_that_dies_with_an_engine_rasterizers_and_pixels_loses_no_page(tmp_path: Path, cluster: Any) -> None:
    (tmp_path / "in").mkdir()
    for name in "abc":
        documents.pdf(tmp_path / "in" / f"{name}.pdf", 36, width_pt=600, height_pt=800)
    run(job(tmp_path / "in", tmp_path / "local", "", "dpi=150"))
    node = cluster.add_node(num_cpus=3, object_store_memory=256 << 20, node_ip_address="127.0.0.3")
    third = cluster.add_node(num_cpus=1, object_store_memory=128 << 20, node_ip_address="127.0.0.4")
    (raylet,) = node.all_processes["raylet"]
    killed: list[float] = []

    def runs_there(name: str) -> bool:
        return any(parent_of(pid) == raylet.process.pid for pid in processes_named(name))

    def kill() -> None:
        cluster.remove_node(node, allow_graceful=False)
        killed.append(time.monotonic())

    # A small budget keeps the rasterizers at work for the whole run; after the death three engines still fit.
    options = {"raster_memory_mb": 64, "actors": 3, "pages_per_task": 4}
    hunter = when(lambda: runs_there("EngineActor.recognize") and runs_there("render_task"), kill)
    report = run(job(tmp_path / "in", tmp_path / "ray", cluster.address, "delay_s=0.2", "dpi=150", **options))
    ended_at = time.monotonic()
    hunter.join()
    assert killed, "no engine and rasterizer ever worked on the node: the test shows nothing"
    assert killed[0] < ended_at
    assert (report.exit_code, report.problem) == (0, None)
    assert rows(tmp_path / "ray") == rows(tmp_path / "local")
    cluster.remove_node(third)


def pages_per_s(out: Path) -> float:
    """Pages a second that all actors together read while they were at work, their waiting between batches included."""
    of_one = "sum(batch_size) / (max(epoch(started_at) + total_s) - min(epoch(started_at)))"
    batches = f"'{out}/batches/*/*.parquet'"
    ((rate,),) = duckdb.sql(f"SELECT sum(rate) FROM (SELECT {of_one} AS rate FROM {batches} GROUP BY actor)").fetchall()
    return float(rate)


def test_two_replicas_on_three_nodes_read_almost_twice_as_much_as_one(tmp_path: Path, cluster: Any) -> None:
    """With an engine of fixed cost, each replica on a node of its own that has what it needs."""
    documents.pdf(tmp_path / "in.pdf", 160)
    nodes = [
        cluster.add_node(num_cpus=1, num_gpus=1, object_store_memory=128 << 20, node_ip_address=f"127.0.0.{host}")
        for host in (3, 4)
    ]
    rates: dict[int, float] = {}
    for actors in (1, 2):
        out = tmp_path / str(actors)
        options = {"actors": actors, "batch_size": 8, "raster_memory_mb": 64, "gpus_per_actor": 1.0}
        report = run(job(tmp_path / "in.pdf", out, cluster.address, "delay_s=0.1", **options))
        assert report.exit_code == 0
        rates[actors] = pages_per_s(out)
        assert actors == duckdb.sql(f"SELECT count(DISTINCT actor) FROM '{out}/batches/*/*.parquet'").fetchall()[0][0]
    for node in nodes:
        cluster.remove_node(node)
    assert rates[2] >= 1.8 * rates[1]


def test_two_engines_share_a_gpu_where_each_asks_for_half(tmp_path: Path, cluster: Any) -> None:
    documents.pdf(tmp_path / "in.pdf", 40)
    node = cluster.add_node(num_cpus=2, num_gpus=1, object_store_memory=128 << 20, node_ip_address="127.0.0.3")
    for share, wanted in ((0.5, 2), (1.0, 1)):
        out = tmp_path / str(share)
        options = {"batch_size": 2, "raster_memory_mb": 64, "gpus_per_actor": share}
        report = run(job(tmp_path / "in.pdf", out, cluster.address, "delay_s=0.05", **options))
        assert report.exit_code == 0
        found = duckdb.sql(f"SELECT count(DISTINCT actor), count(DISTINCT device) FROM '{out}/batches/*/*.parquet'")
        assert found.fetchall() == [(wanted, 1)]
    cluster.remove_node(node)


@dataclass(slots=True)
class Gathered:
    """A committer that keeps in memory what it is given, and a watch that lets the run go on."""

    texts: list[str] = field(default_factory=list)

    def take(self, ready: Ready) -> None:
        self.texts += [result.recognition.text for result in ready.results if result.recognition]

    def flush(self) -> None:
        pass

    def should_stop(self) -> bool:
        return False

    def look(self, flow: Flow) -> None:
        pass


def read(
    folder: Path, address: str, needs: Needs, actors: int, *, grace_s: float = GRACE_S, then: Callable[[], Any] = bool
) -> tuple[Gathered, int]:
    """Read the folder with little patience; what was read, and how many engines were left. `then` follows the start."""
    from pipeline.cluster import ClusterOptions, ClusterRunner

    options, gathered = FakeOptions(), Gathered()
    where = ClusterOptions(address, actors, grace_s=grace_s)
    runner = ClusterRunner(FakeEngine, options, needs, FakeEngine.spec(options).raster, where)
    flow = Flow(Discovery((str(folder),), (), "").sources(), Ledger(), FlowLimits(BatchLimits.of(4, 64), 64 << 20))
    runner.start()
    try:
        then()
        drive(flow, runner, gathered, gathered)  # type: ignore[arg-type]
        return gathered, runner.num_engines()
    finally:
        runner.close()


def test_engines_that_hold_every_cpu_make_room_for_rasterizing(tmp_path: Path, cluster: Any) -> None:
    documents.pdf(tmp_path / "ten.pdf", 10)
    gathered, num_engines = read(tmp_path, cluster.address, Needs(), actors=HEAD_CPUS)
    assert len(set(gathered.texts)) == 10
    assert num_engines == HEAD_CPUS - 1


def test_an_engine_that_no_node_can_hold_ends_the_run_and_says_what_is_missing(tmp_path: Path, cluster: Any) -> None:
    documents.pdf(tmp_path / "one.pdf", 1)
    started = time.monotonic()
    with pytest.raises(ClusterError) as raised:
        read(tmp_path, cluster.address, Needs(num_gpus=1), actors=0)
    assert GRACE_S <= time.monotonic() - started < GRACE_S + 30
    assert str(raised.value) == (
        "no node can hold the engine, after 3 s: an engine needs 1 CPU, 1 GPU on one node, "
        "and rasterizing one CPU beside; living nodes have: 4 CPU, 0 GPU"
    )
    assert raised.value.exit_code == 3


def test_an_engine_waits_for_a_node_that_comes_within_the_grace(tmp_path: Path, cluster: Any) -> None:
    documents.pdf(tmp_path / "ten.pdf", 10)

    def add() -> None:
        cluster.add_node(num_cpus=6, object_store_memory=128 << 20, node_ip_address="127.0.0.3")

    gathered, num_engines = read(tmp_path, cluster.address, Needs(num_cpus=5), 1, grace_s=30, then=add)
    assert (len(set(gathered.texts)), num_engines) == (10, 1)


def test_a_head_node_that_dies_ends_the_run_before_ray_ends_the_process(tmp_path: Path) -> None:
    from ray.cluster_utils import Cluster

    documents.pdf(tmp_path / "long.pdf", 300)
    args = {"num_cpus": 3, "object_store_memory": 128 << 20, "include_dashboard": False, "node_ip_address": "127.0.0.2"}
    cluster = Cluster(initialize_head=True, connect=False, head_node_args=args)
    (head,) = cluster.head_node.all_processes["gcs_server"]
    killer = when(
        lambda: bool(processes_named("EngineActor.recognize")), lambda: os.kill(head.process.pid, signal.SIGKILL)
    )
    try:
        report = run(job(tmp_path / "long.pdf", tmp_path / "out", cluster.address, "delay_s=0.3", commit_pages=1))
    finally:
        killer.join()
        cluster.shutdown()
    assert report.exit_code == 3
    assert "head node at" in (report.problem or "")
    assert 0 < len(rows(tmp_path / "out")) < 300
