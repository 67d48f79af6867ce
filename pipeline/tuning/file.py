"""File: where tunings are kept between runs, one file for all engines of a machine."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.engines.engine import Engine, Identity
from pipeline.errors import ConfigurationError, StorageError
from pipeline.tuning.tuning import Tuning, TuningKey

FORMAT = "pagemill tuning 1"
"""What the file says it is, under ``format``."""


@dataclass(frozen=True, slots=True)
class Stale:
    """The same engine and model were measured, but not as they are now: `tuning` is the newest such measurement."""

    tuning: Tuning
    key: TuningKey

    @property
    def text(self) -> str:
        """One line on what has changed, old first: ``transformers 5.24 -> 5.25``."""
        return ", ".join(self.tuning.key.changes_to(self.key))


def default_path() -> Path:
    """$PAGEMILL_TUNING, or else ``pagemill/tuning.json`` where a person's settings lie.

    Raises:
        ConfigurationError: there is no such place, as for a user without a home.
    """
    if told := os.environ.get("PAGEMILL_TUNING"):
        return named_path(told)
    return named_path(os.environ.get("XDG_CONFIG_HOME") or "~/.config") / "pagemill" / "tuning.json"


def named_path(told: str) -> Path:
    """A path as it was typed.

    Raises:
        ConfigurationError: it begins with the home of a user who has none.
    """
    try:
        return Path(told).expanduser()
    except RuntimeError as error:
        raise ConfigurationError(f"there is no home folder for {told}: name a file with --tuning") from error


def key_of(engine: type[Engine], options: object, identity: Identity) -> TuningKey:
    """The key of an engine under these options, on this machine. Loads no model and no library."""
    return TuningKey.of(identity, engine.tuning_key(options))


def read(path: Path) -> tuple[Tuning, ...]:
    """All tunings in a file; none if there is no file.

    Raises:
        ConfigurationError: it cannot be read, or is something else; one line that says what to do.
    """
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise ConfigurationError(f"tuning file {path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise _foreign(path, "it is no JSON") from error
    if not isinstance(told, dict) or told.get("format") != FORMAT or not isinstance(told.get("tunings"), list):
        raise _foreign(path, f"it does not say '{FORMAT}'")
    try:
        return tuple(map(Tuning.from_dict, told["tunings"]))
    except ValueError as error:
        raise _foreign(path, str(error)) from error


def find(path: Path, key: TuningKey) -> Tuning | Stale | None:
    """What was measured for a key; or for the same engine and model otherwise, the newest; or nothing.

    Raises:
        ConfigurationError: as `read` does.
    """
    tunings = sorted(read(path), key=lambda tuning: tuning.measured_at)
    same = [tuning for tuning in tunings if tuning.key == key]
    if same:
        return same[-1]
    kin = [tuning for tuning in tunings if tuning.key.is_kin_of(key)]
    return Stale(kin[-1], key) if kin else None


def keep(path: Path, tuning: Tuning) -> None:
    """Put a tuning into the file, in the place of older ones of its key; the file is whole at any moment.

    Raises:
        ConfigurationError: there is something else under this name.
        StorageError: it cannot be written.
    """
    others = [other for other in read(path) if other.key != tuning.key or other.measured_at > tuning.measured_at]
    newer = any(other.key == tuning.key for other in others)
    _write(path, others if newer else [*others, tuning])


def check_place(path: Path) -> None:
    """See that a tuning could be kept there, before it is measured.

    Raises:
        ConfigurationError: there is something else under this name.
        StorageError: it could not be written.
    """
    _write(path, read(path))


def _write(path: Path, tunings: Sequence[Tuning]) -> None:
    text = json.dumps({"format": FORMAT, "tunings": [tuning.as_dict() for tuning in tunings]}, indent=1)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=".tuning-", delete=False
        ) as file:
            try:
                file.write(text + "\n")
                file.flush()
                os.fchmod(file.fileno(), 0o644)  # others on the machine may use it, too
                os.fsync(file.fileno())
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as error:
        raise StorageError(f"tuning file {path} cannot be written: {error.strerror or error}") from error


def _foreign(path: Path, reason: str) -> ConfigurationError:
    return ConfigurationError(f"{path} is no tuning file of Pagemill ({reason}): move it away, or name another file")
