"""A model's checkpoint: found in a local folder or on a hub, whole, named and pinned, before anything is loaded of it.

Only this module talks to a hub, and imports huggingface_hub for it, within the function that does.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeGuard

from pipeline.engines.weights import CONFIG, WANTED, check_weights, read_json, revision_of
from pipeline.errors import (
    ConfigurationError,
    EngineLostError,
    EngineUnavailableError,
    PagemillError,
    transient,
)

HUNYUAN_OCR = "tencent/HunyuanOCR"
LICENCES = {
    "hunyuanocr": (
        "its licence, Tencent's community licence, does not cover the EU, the UK and South Korea,"
        " and its outputs may not train other models"
    )
}
"""What to know before downloading, by the beginning of a model's name in small letters."""


CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
"""OpenAI's, which image processors of transformers take where the checkpoint does not say."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint on this machine.

    `name` is the hub's id, or the name of the folder; `revision` the commit on the hub, or 16 hex digits made of what
    lies in the folder; `architecture` the class that transformers loads it with, as the checkpoint says it.
    """

    folder: Path
    name: str
    revision: str
    architecture: str

    @classmethod
    def resolve(cls, model: str, revision: str | None = None) -> Checkpoint:
        """Find a checkpoint, and fetch it where `model` is the id of one on a hub that is not in the cache.

        Args:
            model: A folder, or a hub id such as ``tencent/HunyuanOCR``. What exists as a path is a folder.
            revision: Branch, tag or commit on the hub; None or an empty text is its main branch.

        Raises:
            ConfigurationError: this can name no model, or the hub has no such revision.
            EngineUnavailableError: there is no such model, it may not be fetched, or it is not whole.
            UnfinishedError: the hub cannot be reached, or the machine has no room.
        """
        if not model:
            raise EngineUnavailableError(f"no model is named: {how_to_get(HUNYUAN_OCR)}")
        path = Path(os.path.expanduser(model))
        if os.path.exists(path):  # unlike that of Path it takes any text for an answer of no
            if revision:
                raise ConfigurationError(f"--revision {revision} goes with a hub id, and {model} is a folder")
            if not path.is_dir():
                raise ConfigurationError(f"{model} is a file: name the folder that holds it and its {CONFIG}")
            return cls._in(path.resolve(), path.resolve().name, None)
        if not is_hub_id(model):
            raise ConfigurationError(f"there is no folder {model}: {how_to_get(HUNYUAN_OCR)}")
        folder = Path(_fetched(model, revision or None))
        return cls._in(folder, model, folder.name)

    @classmethod
    def _in(cls, folder: Path, name: str, commit: str | None) -> Checkpoint:
        try:
            check_weights(folder)
            revision = commit or revision_of(folder)
        except OSError as error:
            raise transient(error) or EngineUnavailableError(f"{folder} cannot be read: {error.strerror}") from error
        named = read_json(folder / CONFIG).get("architectures")
        if not isinstance(named, list) or not named or not isinstance(named[0], str):
            raise EngineUnavailableError(f"{folder / CONFIG} names no architecture: this is no model to load")
        return cls(folder, name, revision, named[0])

    def image_size_limits(self) -> tuple[int, int]:
        """Fewest and most pixels of an image that its processor leaves unresized (sides being multiples).

        Raises:
            EngineUnavailableError: its processor's configuration does not say.
        """
        told = self._image_processor()
        size = told.get("size")
        size = size if isinstance(size, dict) else {}
        least = told.get("min_pixels", size.get("shortest_edge", size.get("min_pixels")))
        most = told.get("max_pixels", size.get("longest_edge", size.get("max_pixels")))
        if not _is_count(least) or not _is_count(most) or least > most:
            raise EngineUnavailableError(f"{self.folder}: its processor's configuration gives no limits of image sizes")
        return least, most

    def patch_size_px(self) -> int:
        """Side of the squares that the vision tower takes an image apart into."""
        return self._count("patch_size", 16)

    def merge_size(self) -> int:
        """How many patches, across and down, make one visual token."""
        return self._count("merge_size", 2)

    def pixel_statistics(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and deviation, by channel, by which pixels of 0 to 1 are normalized; where it says nothing, CLIP's."""
        told = self._image_processor()
        mean, std = told.get("image_mean") or CLIP_MEAN, told.get("image_std") or CLIP_STD
        return tuple(map(float, mean)), tuple(map(float, std))

    def _count(self, key: str, default: int) -> int:
        value = self._image_processor().get(key, default)
        if not _is_count(value):
            raise EngineUnavailableError(f"{self.folder}: its processor's configuration has a {key} of {value!r}")
        return value

    def _image_processor(self) -> dict[str, Any]:
        """The image processor's configuration; where both files are there, transformers takes the newer kind."""
        newer = self.folder / "processor_config.json"
        inner = read_json(newer).get("image_processor") if newer.is_file() else None
        if isinstance(inner, dict):
            return inner
        older = self.folder / "preprocessor_config.json"
        if not older.is_file():
            raise EngineUnavailableError(f"{self.folder} holds no {older.name}: download the model again")
        return read_json(older)


def host_memory_bytes(checkpoint: Checkpoint | None) -> int:
    """Host memory of one actor: torch and what it works with, and twice the weights, which may be loaded in fp32."""
    weights = sum(path.stat().st_size for path in checkpoint.folder.glob("*.safetensors")) if checkpoint else 0
    return (3 << 30) + 2 * weights


def is_hub_id(model: str) -> bool:
    """Whether this is written as OWNER/NAME, and so names a model on a hub unless there is such a folder."""
    owner, slash, name = model.partition("/")
    letters = f"{owner}{name}".replace("-", "").replace("_", "").replace(".", "")
    begin = all(part[:1].isalnum() and part[-1:].isalnum() for part in (owner, name))
    doubled = any(pair in model for pair in ("--", "..")) or name.endswith(".git")
    return bool(slash) and letters.isalnum() and letters.isascii() and begin and not doubled and len(model) <= 96


def how_to_get(model: str) -> str:
    """How to get a model onto this machine and name it, and what to know before."""
    name = model.rpartition("/")[2]
    known = [text for start, text in LICENCES.items() if name.lower().startswith(start)]
    steps = f"hf download {model} --local-dir {name}, where there is a network, then --model {name}"
    return "; ".join([steps, *known])


def _fetched(model: str, revision: str | None) -> str:
    """The folder in the hub's cache, fetched if need be; the variable HF_HUB_OFFLINE forbids that."""
    if find_spec("huggingface_hub") is None:
        raise EngineUnavailableError("huggingface_hub is not installed: pip install 'pagemill[torch]'")
    from huggingface_hub import snapshot_download

    try:
        return snapshot_download(model, revision=revision, allow_patterns=list(WANTED), ignore_patterns=["*/*"])
    except Exception as error:
        raise _translated(error, model, revision) from error


def _translated(error: Exception, model: str, revision: str | None) -> PagemillError:
    """What a hub's refusal means: one line each."""
    from huggingface_hub import errors

    which = f"{model} at revision {revision}" if revision else model
    get = how_to_get(model)
    match error:
        case errors.GatedRepoError():
            return EngineUnavailableError(f"{model} is gated: accept its terms on the hub, hf auth login, then {get}")
        case errors.RepositoryNotFoundError():
            return EngineUnavailableError(
                f"there is no folder {model} and no such model on the hub that you may read;"
                f" is it misspelt or private (hf auth login)? Else: {how_to_get(HUNYUAN_OCR)}"
            )
        case errors.RevisionNotFoundError():
            return ConfigurationError(f"--revision {revision}: {model} has no such branch, tag or commit on the hub")
        case errors.HFValidationError():
            return ConfigurationError(f"{which} is no folder and no hub id ({_line(error)})")
        case errors.LocalEntryNotFoundError() if _is_offline():
            return EngineUnavailableError(f"HF_HUB_OFFLINE is set, and {which} is not whole in the cache: {get}")
    ended = transient(error)
    return ended or EngineLostError(
        f"{which} cannot be fetched from the hub for now: start again, or {get} ({_line(error)})"
    )


def _is_offline() -> bool:
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def _line(error: Exception) -> str:
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
