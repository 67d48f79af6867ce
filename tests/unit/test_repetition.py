"""What counts as a loop, and what does not."""

from __future__ import annotations

import random
import re
import time
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engines.repetition import MAX_UNIT, MIN_COPIES, MIN_TOKENS, TailWatch, cut_repeats

SMALL = {"max_unit": 8, "min_tokens": 12, "min_copies": 3}
"""Thresholds that hypothesis reaches with short sequences."""

tokens = st.lists(st.integers(0, 3), max_size=40)
units = st.lists(st.integers(0, 3), min_size=1, max_size=8)

LEGITIMATE = {
    "leaders of a table of contents": "".join(f"Chapter {i} {'.' * 150} {i * 7}\n" for i in range(40)),
    "leaders with spaces": "".join(f"Chapter {i} {'. ' * 90}{i * 7}\n" for i in range(40)),
    "a row of underscores": "Name: " + "_" * 190 + "\n",
    "lines to write on": "Remarks:\n" + ("_" * 24 + "\n") * 25,
    "empty rows of a table": "<table>" + "<tr><td></td><td></td></tr>" * 25 + "</table>",
    "a column of zeros": "Sum\n" + "0\n" * 100,
    "a column of decimals": "Sum\n" + "0.00\n" * 100,
    "a rule of a markdown table": "|" + " --- |" * 40,
}


def characters(text: str) -> list[int]:
    """A token for every character: no tokenizer writes more."""
    return [ord(c) for c in text]


def words(text: str) -> list[int]:
    """A token for every word and every run of marks, which is about what tokenizers of language models do."""
    return [zlib.crc32(piece.encode()) for piece in re.findall(r"\w+|[^\w\s]+|\s+", text)]


def feed(watch: TailWatch, written: list[int]) -> int | None:
    """Index of the token at which the watch says that the tail repeats."""
    return next((i for i, token in enumerate(written) if watch.feed(token)), None)


@pytest.mark.parametrize("name", LEGITIMATE)
def test_what_documents_repeat_does_not_count_even_with_a_token_for_every_character(name: str):
    written = characters(LEGITIMATE[name])
    assert feed(TailWatch(), written) is None
    assert cut_repeats(written) == len(written)


@pytest.mark.parametrize(
    "text",
    ["<tr><td>0</td></tr>" * 60, "<tr><td></td><td></td></tr>" * 50, ("one two three four five six\n" * 60)],
    ids=["a column of zeros in HTML", "fifty empty rows", "sixty labels"],
)
def test_what_documents_repeat_does_not_count_in_words(text: str):
    assert feed(TailWatch(), words(text)) is None


@pytest.mark.parametrize(
    ("unit", "stopped_after"), [("0 ", 768), ("the end of the page ", 768), ("the same sentence again, " * 20, 2048)]
)
def test_a_loop_is_stopped_at_once_and_long_before_the_limit(unit: str, stopped_after: int):
    looped = words("It began well. ") + words(unit * 8192)[:8192]
    at = feed(TailWatch(), looped)
    assert at is not None
    assert at < stopped_after + MAX_UNIT
    assert cut_repeats(looped[: at + 1]) <= len(words("It began well. ")) + len(words(unit))


@pytest.mark.parametrize("unit", [1, 2, 3, 7, 64, 95, 96, 97, 255, 256])
def test_every_unit_is_found_at_its_threshold(unit: int):
    assert feed(TailWatch(), list(range(unit)) * 8192) == max(MIN_TOKENS, MIN_COPIES * unit) - 1


def test_a_unit_longer_than_the_longest_is_not_looked_for():
    assert feed(TailWatch(), list(range(MAX_UNIT + 1)) * 100) is None


def test_a_loop_that_goes_on_is_told_of_again():
    watch = TailWatch()
    assert [watch.feed(3) for _ in range(MIN_TOKENS + 2)][-3:] == [True, True, True]


def test_a_loop_that_ended_is_forgotten():
    watch = TailWatch()
    assert [watch.feed(3) for _ in range(MIN_TOKENS - 1)].count(True) == 0
    assert not watch.feed(4)
    assert feed(watch, [3] * MIN_TOKENS) == MIN_TOKENS - 1


@given(tokens, units)
def test_any_unit_after_any_start_is_found_within_a_unit_of_the_threshold(start: list[int], unit: list[int]):
    threshold = max(SMALL["min_tokens"], SMALL["min_copies"] * len(unit))
    at = feed(TailWatch(**SMALL), start + unit * 40)
    assert at is not None
    assert at < len(start) + threshold + len(unit)


@given(st.integers(0, 2**32), st.sampled_from([2, 10, 1000]))
def test_random_text_is_never_taken_for_a_loop(seed: int, alphabet: int):
    dice = random.Random(seed)
    assert feed(TailWatch(), [dice.randrange(alphabet) for _ in range(1500)]) is None


@given(tokens)
def test_the_watch_says_what_the_definition_says(written: list[int]):
    def loops(end: int) -> bool:
        lengths = {unit: max(SMALL["min_tokens"], SMALL["min_copies"] * unit) for unit in range(1, 9)}
        tails = {unit: written[end - length : end] for unit, length in lengths.items() if length <= end}
        return any(tail[unit:] == tail[:-unit] for unit, tail in tails.items())

    watch = TailWatch(**SMALL)
    assert [watch.feed(token) for token in written] == [loops(i + 1) for i in range(len(written))]


@given(tokens, units, st.integers(0, 7))
def test_a_cut_keeps_the_start_and_one_unit(start: list[int], unit: list[int], partial: int):
    written = start + unit * 12 + unit[: partial % len(unit)]
    keep = cut_repeats(written, **SMALL)
    assert keep <= len(start) + len(unit), "at most one copy of what repeats"
    shortest = next(n for n in range(1, len(unit) + 1) if (unit * 3)[n : n + len(unit)] == unit)
    first = keep - shortest
    assert written[first:] == (written[first:keep] * len(written))[: len(written) - first], "what is cut are copies"
    assert first == 0 or written[first - 1] != written[keep - 1], "no copy is left before the one that is kept"


@given(st.lists(st.integers(0, 3), max_size=11))
def test_what_is_too_short_to_be_a_loop_is_kept_whole(written: list[int]):
    assert cut_repeats(written, **SMALL) == len(written)


@given(tokens)
def test_a_cut_is_made_exactly_where_the_watch_trips(written: list[int]):
    watch = TailWatch(**SMALL)
    tripped = [watch.feed(token) for token in written][-1:] == [True]
    assert (cut_repeats(written, **SMALL) < len(written)) == tripped


def test_watching_is_cheap():
    watch, started = TailWatch(), time.perf_counter()
    feed(watch, list(range(4000)))
    assert (time.perf_counter() - started) / 4000 < 100e-6, "some 5 microseconds a token on an idle core"
