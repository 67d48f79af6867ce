"""Damage: what disks, networks and strangers do to a file, as values that hypothesis draws and shrinks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st

_WORDS = (
    *(b"0", b"-1", b"65536", b"2147483647", b"4294967296", b"99999999999999999999", b"1e999", b"nan"),
    *(
        b"<<",
        b">>",
        b"[",
        b"]",
        b"(",
        b"R",
        b"obj",
        b"endobj",
        b"stream\n",
        b"endstream",
        b"null",
        b"/Kids",
        b"/Parent",
    ),
    *(b"/Length", b"/Filter", b"/FlateDecode", b"/DCTDecode", b"/JPXDecode", b"/JBIG2Decode", b"/CCITTFaxDecode"),
    *(b"\xff\xd8\xff", b"\xff\xda", b"\xff\x4f\xff\x51", b"II*\0", b"MM\0*", b"IDAT", b"IEND", b"\x89PNG", b"GIF89a"),
    *(b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\1\0"),
)
"""Numbers at the edges and words of the formats."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One stroke: `at` and `to` are places between 0 and 1, `size` a number of bytes, `what` what is put there."""

    kind: str
    at: float
    to: float
    size: int
    what: bytes


def _flip(data: bytearray, hit: Hit, at: int, to: int) -> None:
    data[at : at + 1] = bytes(byte ^ (1 << hit.size % 8) for byte in data[at : at + 1])


def _write(data: bytearray, hit: Hit, at: int, to: int) -> None:
    data[at : at + len(hit.what)] = hit.what


def _insert(data: bytearray, hit: Hit, at: int, to: int) -> None:
    data[at:at] = hit.what


def _delete(data: bytearray, hit: Hit, at: int, to: int) -> None:
    del data[at : at + hit.size]


def _cut(data: bytearray, hit: Hit, at: int, to: int) -> None:
    del data[at:]


def _copy(data: bytearray, hit: Hit, at: int, to: int) -> None:
    data[to:to] = data[at : at + hit.size]


def _blank(data: bytearray, hit: Hit, at: int, to: int) -> None:
    data[at : at + hit.size] = bytes(len(data[at : at + hit.size]))


def _number(data: bytearray, hit: Hit, at: int, to: int) -> None:
    """Change the next number written in digits: a length, an offset, a count, a reference."""
    digits = [i for i in range(at, min(at + 400, len(data))) if 48 <= data[i] <= 57]
    if digits:
        end = digits[0]
        while end < len(data) and 48 <= data[end] <= 57:
            end += 1
        data[digits[0] : end] = str(int(data[digits[0] : end][:30]) * (hit.size % 5) + hit.size % 7 - 3).encode()


_KINDS: dict[str, Callable[[bytearray, Hit, int, int], None]] = {
    "flip": _flip,
    "write": _write,
    "insert": _insert,
    "delete": _delete,
    "cut": _cut,
    "copy": _copy,
    "blank": _blank,
    "number": _number,
}

_places = st.floats(0, 1)
_words = st.one_of(st.sampled_from(_WORDS), st.binary(min_size=1, max_size=6))
hits = st.builds(Hit, st.sampled_from(sorted(_KINDS)), _places, _places, st.integers(1, 5000), _words)
strokes = st.lists(hits, min_size=1, max_size=8)


def damaged(whole: bytes, strokes: list[Hit], other: bytes = b"") -> bytes:
    """The file after all strokes; `other` is another file's beginning, put over its own if there is any."""
    data = bytearray(whole)
    data[: len(other)] = other
    for hit in strokes:
        _KINDS[hit.kind](data, hit, int(hit.at * len(data)), int(hit.to * len(data)))
    return bytes(data)
