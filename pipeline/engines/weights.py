"""A folder of model weights: whether they are whole safetensors, and a revision for it made of what lies in it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from pipeline.errors import EngineUnavailableError

CONFIG = "config.json"
WANTED = ("*.safetensors", "*.json", "*.jinja", "*.tiktoken", "tokenizer.model", "merges.txt", "vocab.txt")
"""The files that a model is loaded from. Nothing else is fetched or read: no pickles, no code."""
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
LENGTH_BYTES, MAX_HEADER_BYTES = 8, 100 * 2**20
"""A safetensors file begins with the length of its JSON header; no reader of the format takes a longer one."""
NUM_SAMPLES, SAMPLE_BYTES = 64, 4096
"""How much of each file of weights goes into the revision: fine-tuned weights have the names and sizes of others."""


def check_weights(folder: Path) -> None:
    """See that a folder holds a configuration and all its weights as whole safetensors, without reading the weights.

    Raises:
        EngineUnavailableError: it does not; the message says what to do.
    """
    weights = _matching(folder, ("*.safetensors",))
    pickles = [path for path in _matching(folder, PICKLES) if path.name != "training_args.bin"]
    if not weights and pickles:
        convert = (
            f"from transformers import AutoModelForImageTextToText as M; M.from_pretrained({str(folder)!r})"
            ".save_pretrained('NEW_FOLDER')"
        )
        raise EngineUnavailableError(
            f"{folder}: the weights are pickled ({pickles[0].name}), which can run code when it is read, and are not"
            f' loaded; convert them once, where you trust them: python -c "{convert}"'
        )
    if not weights or not (folder / CONFIG).is_file():
        lacks = "weights (*.safetensors)" if not weights else CONFIG
        raise EngineUnavailableError(f"{folder} holds no {lacks}: name the folder of a model, as downloaded from a hub")
    missing = sorted(_named_in_index(folder) - {path.name for path in weights})
    if missing:
        raise EngineUnavailableError(f"{folder}: {missing[0]} is missing, {len(missing)} in all: download it again")
    for path in weights:
        _header(path)


def revision_of(folder: Path) -> str:
    """16 hex digits over what a model is loaded from: other weights, configuration or tokenizer give other digits.

    Of weights it reads sizes, headers and samples only, at most some hundred KiB a file; all else it reads whole.
    Neither the folder's name nor files that no model is loaded from count.

    Raises:
        EngineUnavailableError: a file of weights is none.
    """
    digest = hashlib.sha256()
    for path in _matching(folder, WANTED):
        digest.update(json.dumps([path.name, path.stat().st_size]).encode())
        if path.suffix == ".safetensors":
            digest.update(_header(path))
            digest.update(_samples(path))
        else:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object.

    Raises:
        EngineUnavailableError: the file is none.
    """
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EngineUnavailableError(f"{path} cannot be read: download it again ({error})") from error
    if not isinstance(told, dict):
        raise EngineUnavailableError(f"{path} is no JSON object: download it again")
    return told


def _matching(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    found = [path for path in folder.iterdir() if any(fnmatch(path.name, pattern) for pattern in patterns)]
    return sorted(path for path in found if path.is_file())


def _named_in_index(folder: Path) -> set[str]:
    """The files that the weights are spread over, if an index says so."""
    index = folder / "model.safetensors.index.json"
    places = read_json(index).get("weight_map") if index.is_file() else None
    return set(map(str, places.values())) if isinstance(places, dict) else set()


def _header(path: Path) -> bytes:
    """The header of a safetensors file, which says where each tensor ends, so that a file cut short shows."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(LENGTH_BYTES)
        if start.startswith(b"version "):
            raise EngineUnavailableError(f"{path} is only a pointer to weights: run git lfs pull in its folder")
        length = int.from_bytes(start, "little")
        if len(start) < LENGTH_BYTES or not 2 <= length <= min(MAX_HEADER_BYTES, size - LENGTH_BYTES):
            raise EngineUnavailableError(f"{path} is no safetensors file, or is cut short: download it again")
        header = file.read(length)
    try:
        ends = list(_ends(json.loads(header)))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise EngineUnavailableError(f"{path} is no safetensors file: download it again") from error
    if size != LENGTH_BYTES + length + max(ends, default=0):
        raise EngineUnavailableError(f"{path} is cut short, or has too much at its end: download it again")
    return header


def _ends(header: dict[str, Any]) -> Iterator[int]:
    """Where each tensor ends, in bytes from the end of the header."""
    for name, tensor in header.items():
        if name != "__metadata__":
            yield int(tensor["data_offsets"][1])


def _samples(path: Path) -> bytes:
    """Bytes from all over a file; all of a small one."""
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= NUM_SAMPLES * SAMPLE_BYTES:
            return file.read()
        taken = []
        for number in range(NUM_SAMPLES):
            file.seek((size - SAMPLE_BYTES) * number // (NUM_SAMPLES - 1))
            taken.append(file.read(SAMPLE_BYTES))
    return b"".join(taken)
