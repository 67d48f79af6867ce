"""Trouble: what an exception that Ray hands over says about the page, the process or the cluster, by its type.

`ray.get` wraps what a task has raised into a `RayTaskError`; its `cause` is the original, or Ray's own error of an
argument that could not be had. An error of Ray that is not wrapped tells of the process or the node itself. So for
an actor's call: wrapped and Ray's own, pixels are gone; not wrapped, the actor is dead. One that Ray's memory
monitor has killed shows as `OutOfMemoryError`, not as a `RayActorError`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ray.exceptions import (
    LocalRayletDiedError,
    NodeDiedError,
    ObjectLostError,
    ObjectStoreFullError,
    OutOfDiskError,
    OutOfMemoryError,
    RayActorError,
    RayError,
    RayTaskError,
    RuntimeEnvSetupError,
    WorkerCrashedError,
)

from pipeline.errors import ClusterError, EngineBrokenError, UnfinishedError, transient
from pipeline.result import one_line

_NODE = (NodeDiedError, LocalRayletDiedError, OutOfMemoryError)
_GONE = (ObjectLostError, WorkerCrashedError, RayActorError, *_NODE)

_NO_DISK = "a node has no disk left for pixels: free some where Ray keeps its files, or lower --raster-memory-mb"
_FULL_STORE = "a node's object store is full: lower --raster-memory-mb, or start Ray with more --object-store-memory"
_NO_ENVIRONMENT = "a node cannot set up what Pagemill needs to run there"


def cause_of(error: RayError) -> BaseException:
    """The original of what was raised in another process."""
    return error.cause if isinstance(error, RayTaskError) and error.cause is not None else error


def pixels_are_gone(error: RayError) -> bool:
    """Whether a batch never ran since an argument could not be had: its node or its rasterizer had died."""
    is_wrapped = isinstance(error, RayTaskError) and isinstance(cause_of(error), _GONE)
    return is_wrapped or isinstance(error, ObjectLostError | WorkerCrashedError)


def is_death(error: RayError) -> bool:
    """Whether an actor that answered with this (and whose pixels were there) is of no more use."""
    return not isinstance(error, RayTaskError) or isinstance(cause_of(error), EngineBrokenError)


def is_no_memory(error: RayError) -> bool:
    """Whether Ray's memory monitor has killed the process, which says that the node is full and not who filled it."""
    return isinstance(error, OutOfMemoryError)


def is_of_node(error: RayError) -> bool:
    """Whether the process went with its node or for its node's sake: what it worked on is not to blame."""
    return isinstance(error, _NODE) and not isinstance(error, RayTaskError)


def ending(error: RayError) -> UnfinishedError | None:
    """The error that the run must end with, if this one is neither a page's fault nor the death of a process."""
    cause = cause_of(error)
    said = first_line(cause)
    match cause:
        case OutOfDiskError():
            return ClusterError(f"{_NO_DISK} ({said})")
        case ObjectStoreFullError():
            return ClusterError(f"{_FULL_STORE} ({said})")
        case RuntimeEnvSetupError():
            return ClusterError(f"{_NO_ENVIRONMENT}: {one_line(str(cause))}")
        case _:
            return transient(cause)


@contextmanager
def translated() -> Iterator[None]:
    """Errors of Ray that belong to no task, batch or actor: the driver has lost its cluster.

    Raises:
        ClusterError: in place of what Ray raises.
    """
    try:
        yield
    except RayError as error:
        raise ending(error) or ClusterError(f"Ray was lost on the way: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """The first line of what an error says, or its name if it says nothing."""
    lines = str(error).strip().splitlines()
    return one_line(lines[0] if lines else type(error).__name__)
