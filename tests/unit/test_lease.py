"""One run at a time writes to an output, and a dead one does not block it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipeline.errors import OutputInUseError, StorageError
from pipeline.lease import DEAD_AFTER_S, Lease, writer
from pipeline.store import Store

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(str(tmp_path / "out"))


def at(seconds: float = 0.0) -> Callable[[], datetime]:
    return lambda: NOON + timedelta(seconds=seconds)


def pretend(store: Store, **changes: object) -> None:
    """Change what the newest holder has said of itself."""
    key = next(key for key in reversed(store.keys("_lease")) if key.endswith(".json"))
    store.put_over(key, json.dumps({**json.loads(store.get(key)), **changes}).encode())


def test_a_second_run_is_told_who_holds_the_output_and_since_when(store: Store):
    with Lease.acquire(store, "first", at()), pytest.raises(OutputInUseError) as caught:
        Lease.acquire(store, "second", at(5))
    assert caught.value.exit_code == 3
    message = str(caught.value)
    assert "in use by run first on" in message
    assert "since 2026-01-01T12:00:00 UTC, last heard of 5 s ago" in message


def test_a_run_that_has_ended_leaves_the_output_to_the_next(store: Store):
    with Lease.acquire(store, "first", at()) as first:
        pass
    with Lease.acquire(store, "second", at()) as second:
        assert (first.epoch, second.epoch) == (1, 2)
    assert [key for key in store.keys("_lease") if key.startswith("_lease/00000001")] == []


@pytest.mark.parametrize("change", [{"process_started": "1"}, {"boot_id": "of another boot"}])
def test_a_holder_of_this_machine_whose_process_is_gone_is_followed_at_once(change: dict[str, str], store: Store):
    Lease.acquire(store, "killed", at())
    pretend(store, **change)
    assert Lease.acquire(store, "next", at(1)).epoch == 2


def test_a_silent_holder_of_another_machine_is_followed_only_after_a_while(store: Store):
    Lease.acquire(store, "far away", at()).beat()
    pretend(store, host="another", pid=1)
    with pytest.raises(OutputInUseError, match="on another"):
        Lease.acquire(store, "next", at(DEAD_AFTER_S - 1))
    assert Lease.acquire(store, "next", at(DEAD_AFTER_S + 1)).epoch == 2


def test_a_beat_keeps_a_holder_of_another_machine_alive(store: Store):
    lease = Lease.acquire(store, "far away", at())
    pretend(store, host="another")
    lease.now = at(100)
    lease.beat()
    with pytest.raises(OutputInUseError, match="last heard of 10 s ago"):
        Lease.acquire(store, "next", at(110))


def test_a_holder_that_was_thought_dead_may_not_commit_any_more(store: Store):
    slow = Lease.acquire(store, "slow", at())
    slow.check()
    pretend(store, process_started="1")
    quick = Lease.acquire(store, "quick", at())
    quick.check()
    with pytest.raises(OutputInUseError, match="another run has taken over"):
        slow.check()


def test_of_runs_that_start_together_exactly_one_gets_the_output(store: Store):
    barrier, got, refused = threading.Barrier(8), [], []

    def race(name: str) -> None:
        barrier.wait()
        try:
            got.append(Lease.acquire(store, name, at()).epoch)
        except OutputInUseError:
            refused.append(name)

    threads = [threading.Thread(target=race, args=(f"run-{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (got, len(refused)) == ([1], 7)


def test_who_only_asks_is_told_the_writer_and_takes_nothing(store: Store):
    assert writer(store, NOON) is None
    with Lease.acquire(store, "first", at()):
        before = store.keys("_lease")
        holder = writer(store, NOON)
        assert holder is not None
        assert holder.run_id == "first"
        assert store.keys("_lease") == before
        pretend(store, host="elsewhere")
        assert writer(store, at(DEAD_AFTER_S + 1)()) is None
        pretend(store, since="yesterday", colour="blue")
        with pytest.raises(StorageError, match="damaged"):
            writer(store, NOON)
    assert writer(store, NOON) is None


def test_an_output_that_was_removed_under_its_holder_is_not_made_again(store: Store):
    lease = Lease.acquire(store, "first", at())
    for key in store.keys("_lease"):
        store.delete(key)
    with pytest.raises(StorageError, match="was removed or moved away"):
        lease.check()


@pytest.mark.parametrize("beat", [b"", b"2026-01", b"\xff", b"2026-01-01T12:00:00"])
def test_a_beat_that_a_power_cut_has_torn_counts_as_none(beat: bytes, store: Store):
    Lease.acquire(store, "far away", at())
    pretend(store, host="another", pid=1)
    store.put_over("_lease/00000001.alive", beat)
    with pytest.raises(OutputInUseError):
        Lease.acquire(store, "next", at(DEAD_AFTER_S - 1))
    assert Lease.acquire(store, "next", at(DEAD_AFTER_S + 1)).epoch == 2


@pytest.mark.parametrize("claim", [b"", b"[]", b'{"run_id": "a"}'])
def test_a_claim_that_is_damaged_is_told_in_one_line(claim: bytes, store: Store):
    store.put_new("_lease/00000001.json", claim)
    with pytest.raises(StorageError, match=r"^_lease of [^\n]+ is damaged: [^\n]+$"):
        Lease.acquire(store, "next", at())


def test_what_is_no_claim_is_passed_over(store: Store):
    for name in ("notes.json", "0001.json", "00000007.json.bak"):
        store.put_new(f"_lease/{name}", b"")
    assert Lease.acquire(store, "first", at()).epoch == 1
