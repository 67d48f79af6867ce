"""The contract of every engine: one method, and a declaration that can be read without loading a model."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, get_type_hints

from pipeline.engines.hardware import cpu_name
from pipeline.errors import ConfigurationError
from pipeline.option import parse_pairs
from pipeline.page import Raster, RasterRule
from pipeline.result import Answer, Effort, PageRead, Recognition


@dataclass(frozen=True, slots=True)
class Identity:
    """What a row says about who read the page; a change of any of these makes the page be read again."""

    name: str
    version: str
    model: str | None = None
    model_revision: str | None = None
    task: str | None = None


@dataclass(frozen=True, slots=True)
class Needs:
    """What one actor of the engine occupies, and the batch size it likes.

    `num_cpus` and `num_gpus` are Ray resources, `memory_bytes` host memory of one actor. An actor is given
    `batches_at_once` batches to read at the same time, each in a thread of its own: more than one for a
    `StreamingEngine` only.
    """

    num_cpus: float = 1.0
    num_gpus: float = 0.0
    memory_bytes: int = 0
    batch_size: int = 8
    batches_at_once: int = 1


@dataclass(frozen=True, slots=True)
class Spec:
    """An engine as configured: who it is, what it needs, what rasters it wants, what alters its texts."""

    identity: Identity
    needs: Needs
    raster: RasterRule
    text_options: Mapping[str, str]

    def fingerprint(self) -> str:
        """16 hex digits over all that can alter a page's text: who reads it, and what the job says of rasters.

        A page counts as done when a row with this fingerprint is committed.
        """
        text = json.dumps(self.fingerprint_parts(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def fingerprint_parts(self) -> dict[str, str | None]:
        """All that can alter a text, flat."""
        raster = {f"raster.{key}": str(value) for key, value in asdict(self.raster).items()}
        options = {f"option.{key}": value for key, value in self.text_options.items()}
        return {**asdict(self.identity), **raster, **options}


@dataclass(frozen=True, slots=True)
class Loaded:
    """What an engine says of itself once it has loaded, see `Engine.notice` and `Engine.room`."""

    notice: str | None = None
    room: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Premises:
    """What measured figures of an engine hold for, beside its identity; told without loading anything.

    `device` is the model of the GPU, or that of the processor and its cores. `libraries` are names and versions.
    `manner` is what else it was told that throughput depends on, such as ``decode=static``.
    """

    precision: str
    device: str
    libraries: tuple[tuple[str, str], ...] = ()
    manner: str = ""


class Engine(ABC):
    """Turns a batch of rasters into texts.

    The class can be asked what it is and what it lacks without importing its SDK; making an instance loads
    the model, which happens once, in the actor. Subclasses set `name` and `options_type`, a frozen dataclass
    whose fields are the engine's options. An instance may set `notice` to one line that the person who has started
    the run is told once (that it reads in another precision than asked for, say), and `room` to what its model of the
    device's memory allows: pairs of a page's length and the largest batch that is safe for pages no longer.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    options_type: ClassVar[type[Any]]
    notice: str | None = None
    room: tuple[tuple[int, int], ...] = ()
    width_option: ClassVar[str] = ""
    """The option that says how many pages it reads at a time (0: as it thinks best), if it decides that by itself."""
    needs_model: ClassVar[bool] = False
    """Whether it runs only with the option `model`; it can be asked what it is without one."""

    @classmethod
    @abstractmethod
    def missing(cls) -> str | None:
        """What this machine lacks to run the engine, as one line that says how to get it; None if nothing."""

    @classmethod
    @abstractmethod
    def spec(cls, options: Any) -> Spec:
        """Declare identity, needs and raster size under these options, quickly and without a model."""

    @abstractmethod
    def __init__(self, options: Any) -> None:
        """Load the model. Runs in the process that will call `recognize`."""

    @abstractmethod
    def recognize(self, batch: Sequence[Raster]) -> Answer:
        """Read every page of the batch: one `Recognition` a page, in the order given.

        Rasters may lie in read-only shared memory. Raising fails the whole batch, which is then tried again
        in halves until the page at fault is alone; that page fails for good, unless `pipeline.errors.transient`
        knows the error for one that says nothing about a page. An engine translates its SDK's errors by type:

        Raises:
            DeviceOutOfMemoryError: fewer pages may fit; say how much of the device others hold, if that is known.
            EngineBrokenError: nothing more can be read in this process; another one takes over.
            UnfinishedError: nothing more can be read anywhere for now (an endpoint is down); the run ends.
            ConnectionError: this request found nobody; the run ends if the page alone finds nobody either.
            Exception: all else counts as the fault of a page.
        """

    @property
    def loaded(self) -> Loaded:
        """What it has to say once it has loaded."""
        return Loaded(self.notice, self.room)

    def widen(self, pages: int) -> None:  # noqa: B027 (most have nothing to do)
        """Read up to so many pages at a time from now on; called while nothing is being read.

        For engines that decide by themselves how many pages of the batches they have they read at a time; memory of
        earlier reading is given back, and what was learned of its limits is forgotten. Others read what they are given.
        """

    @classmethod
    def tuning_key(cls, options: Any) -> Premises:  # noqa: ARG003 (those of others depend on them)
        """What throughput and memory depend on under these options, on this machine; quickly, and without a model."""
        return Premises("", cpu_name())

    @classmethod
    def read_options(cls, pairs: Sequence[str]) -> Any:
        """KEY=VALUE strings as an instance of `options_type`.

        Raises:
            ConfigurationError: an unknown key or a value of the wrong type.
        """
        hints = get_type_hints(cls.options_type)
        values = parse_pairs(pairs, list(hints), f"option of engine {cls.name}")
        return cls.options_type(**{key: _read(key, value, hints[key]) for key, value in values.items()})


class StreamingEngine(Engine):
    """An engine that tells of each page as soon as it has read it, and may be given batches while it reads others."""

    @abstractmethod
    def stream(self, batch: Sequence[Raster]) -> Iterator[PageRead | Effort]:
        """Read every page of the batch, telling of each once and in any order, and at the end what all took.

        With `Needs.batches_at_once` above one it is called from several threads at a time, once the model is loaded;
        none of them need be the thread that has loaded it.

        An exception in place of a recognition counts for that page alone; raising counts for all pages that were not
        told of, as it does in `recognize`. A page that was told of is done: nothing told of it later changes its
        row, and of a batch for which the contract was broken the pages not told of are read again. The iterator may be
        closed early; what it had under way is then of no use to anybody.
        """

    def recognize(self, batch: Sequence[Raster]) -> Answer:
        """The same, told at the end. An exception of one page fails the batch, as the contract says."""
        effort, found = Effort(), dict[int, Recognition]()
        for told in self.stream(batch):
            if isinstance(told, Effort):
                effort = told
            elif isinstance(told.result, Exception):
                raise told.result
            else:
                found[told.position] = told.result
        return Answer(tuple(found[position] for position in sorted(found)), effort)


def text_options(options: Any) -> dict[str, str]:
    """The options of an engine as texts, for the fingerprint; fields marked ``alters_text=False`` are left out."""
    marked = [f for f in fields(options) if f.metadata.get("alters_text", True)]
    return {f.name: str(getattr(options, f.name)) for f in marked}


def _read(key: str, value: str, wanted: Any) -> Any:
    try:
        if wanted is bool:
            return {"true": True, "1": True, "false": False, "0": False}[value.lower()]
        if wanted == tuple[int, ...]:
            return tuple(int(part) for part in value.split(",") if part.strip())
        return wanted(value)
    except (KeyError, ValueError):
        kind = "true or false" if wanted is bool else getattr(wanted, "__name__", "numbers with commas")
        raise ConfigurationError(f"engine option '{key}' must be {kind}, not '{value}'") from None
