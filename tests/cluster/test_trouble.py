"""What Ray's exceptions say, by their type: a page's fault, a death, pixels gone, or the end of the run."""

from __future__ import annotations

import pytest
from ray import ActorID
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    LocalRayletDiedError,
    NodeDiedError,
    ObjectLostError,
    ObjectStoreFullError,
    OutOfDiskError,
    OutOfMemoryError,
    OwnerDiedError,
    RayError,
    RayTaskError,
    RuntimeEnvSetupError,
    WorkerCrashedError,
)

from pipeline.cluster.trouble import ending, is_death, is_no_memory, is_of_node, pixels_are_gone
from pipeline.errors import ClusterError, DeviceBusyError, EngineBrokenError, MachineError, StorageError


def raised(cause: BaseException) -> RayError:
    """What `ray.get` raises in the driver when a task has raised this."""
    return RayTaskError("function", "traceback", cause)


LOST = ObjectLostError("0" * 56, None, "")
OWNER = OwnerDiedError("0" * 56, None, "")


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (OutOfDiskError("full"), "free some where Ray keeps its files"),
        (raised(OutOfDiskError("full")), "free some where Ray keeps its files"),
        (raised(ObjectStoreFullError("full")), "lower --raster-memory-mb"),
        (RuntimeEnvSetupError("no pip"), "cannot set up what Pagemill needs"),
    ],
)
def test_rays_own_shortages_end_the_run_and_say_what_to_do(error: RayError, what: str) -> None:
    end = ending(error)
    assert isinstance(end, ClusterError)
    assert (end.exit_code, what in str(end)) == (3, True)


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (OSError(28, "No space left on device"), MachineError),
        (DeviceBusyError("the card is full"), DeviceBusyError),
        (StorageError("the bucket is away"), StorageError),
    ],
)
def test_what_a_task_says_of_the_machine_ends_the_run(cause: BaseException, kind: type[Exception]) -> None:
    assert isinstance(ending(raised(cause)), kind)


@pytest.mark.parametrize(
    "error",
    [
        raised(RuntimeError("this page")),
        raised(EngineBrokenError("lost")),
        WorkerCrashedError(),
        LOST,
        NodeDiedError(""),
    ],
)
def test_faults_of_pages_and_deaths_of_processes_do_not_end_the_run(error: RayError) -> None:
    assert ending(error) is None


@pytest.mark.parametrize(
    ("error", "is_gone"),
    [
        (LOST, True),
        (OWNER, True),
        (raised(LOST), True),
        (raised(WorkerCrashedError()), True),
        (raised(NodeDiedError("")), True),
        (raised(OutOfMemoryError("killed")), True),
        (raised(RuntimeError("this page")), False),
        (ActorDiedError(), False),
        (OutOfMemoryError("killed"), False),
    ],
)
def test_a_batch_that_never_ran_for_lack_of_its_pixels_is_told_from_one_that_failed(
    error: RayError, is_gone: bool
) -> None:
    assert pixels_are_gone(error) is is_gone


def test_an_actor_is_dead_if_it_says_nothing_itself_or_that_its_engine_is_broken() -> None:
    unavailable = ActorUnavailableError("away", ActorID.nil().binary())
    assert all(is_death(error) for error in (ActorDiedError(), unavailable, OutOfMemoryError("killed")))
    assert is_death(raised(EngineBrokenError("lost")))
    assert not is_death(raised(RuntimeError("this page")))


def test_a_death_for_the_nodes_sake_is_not_blamed_on_what_the_process_worked_on() -> None:
    assert all(is_of_node(error) for error in (NodeDiedError(""), LocalRayletDiedError(), OutOfMemoryError("killed")))
    assert not any(is_of_node(error) for error in (WorkerCrashedError(), raised(NodeDiedError(""))))
    assert is_no_memory(OutOfMemoryError("killed"))
    assert not is_no_memory(WorkerCrashedError())
