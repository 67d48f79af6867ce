"""Pattern: keys as a shell matches paths, `*`, `?`, `[...]` and `**` for any folders. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MAGIC = re.compile(r"[*?\[]")
_TOKEN = re.compile(r"\[!?\]?[^\]/]*\]|.", re.DOTALL)


def is_pattern(key: str) -> bool:
    """Whether a key has anything in it that may stand for something else."""
    return _MAGIC.search(key) is not None


@dataclass(frozen=True, slots=True)
class Pattern:
    """What keys are to look like: `folder` is what they all lie below, empty or with a slash at its end.

    As in a shell, a name that begins with a dot is matched only where the dot is written, and `**` goes into no folder
    of such a name.
    """

    folder: str
    _shape: re.Pattern[str]

    @classmethod
    def of_key(cls, key: str) -> Pattern:
        """Read a key with wildcards."""
        parts = key.split("/")
        plain = next(number for number, part in enumerate([*parts, "*"]) if is_pattern(part))
        folder = "".join(f"{part}/" for part in parts[: min(plain, len(parts) - 1)])
        shape = "".join(_part(part, is_last=number == len(parts)) for number, part in enumerate(parts, start=1))
        return cls(folder, re.compile(shape, re.DOTALL))

    def matches(self, key: str) -> bool:
        """Whether a key looks like that."""
        return self._shape.fullmatch(key) is not None


def _part(part: str, *, is_last: bool) -> str:
    if part == "**":
        return r"(?:(?!\.)[^/]+/)*" + (r"(?!\.)[^/]+" if is_last else "")
    shape = "".join(_piece(match[0]) for match in _TOKEN.finditer(part))
    hidden = r"(?!\.)" if part[:1] in ("*", "?", "[") else ""
    return hidden + shape + ("" if is_last else "/")


def _piece(piece: str) -> str:
    if piece == "*":
        return "[^/]*"
    if piece == "?":
        return "[^/]"
    if len(piece) > 2 and piece[0] == "[":
        inside = piece[1:-1].replace("\\", r"\\")
        return f"[^/{inside[1:]}]" if inside.startswith("!") else f"[{inside}]"
    return re.escape(piece)
