"""Answers without end: each row is stopped on its own, the ladder is climbed, and what is kept says what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from pipeline.engines.generated import Decoding  # noqa: E402
from pipeline.engines.hunyuan.engine import HunyuanEngine  # noqa: E402
from pipeline.engines.hunyuan.model import PageModel  # noqa: E402
from pipeline.engines.hunyuan.options import HunyuanOptions  # noqa: E402
from pipeline.engines.repetition import MIN_TOKENS  # noqa: E402
from pipeline.result import Finish, Recognition, Status  # noqa: E402
from tests.model.given import TINY, Sheet, raster, read  # noqa: E402

LETTER = "Q"
"""After this letter the model goes on with it for ever, in the tests that say so."""


@pytest.fixture(scope="module")
def engine(model: PageModel) -> HunyuanEngine:
    """In float32, with eight slots."""
    return HunyuanEngine(HunyuanOptions(str(TINY), task="text", language="en", device="cpu", max_new_tokens=1500))


@pytest.fixture(scope="module")
def company(model: PageModel, sheets: list[Sheet]) -> tuple[Sheet, list[Sheet], int]:
    """A page with the letter and text after it, five without it, and the letter's token."""
    letter = model.tokenizer.convert_tokens_to_ids(LETTER)
    having = [sheet for sheet in sheets if letter in sheet.alone.tokens[1:-3]]
    others = [sheet for sheet in sheets if letter not in sheet.alone.tokens]
    return having[0], others[:5], letter


Bend = Callable[[Any], float]


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch, company: tuple[Sheet, list[Sheet], int]) -> Iterator[Callable[..., None]]:
    """Lets a model go on with the letter once it is there, or wherever it is `at_once`.

    `by` is how far it is ahead of all other tokens then.
    """
    letter = company[2]

    def bend(model: PageModel, by: float, at_once: bool = False) -> None:
        plain = model.decoder.step

        def step(cache: Any, tokens: Any, positions: Any, span: int) -> Any:
            logits = plain(cache, tokens, positions, span)
            rows = (tokens == letter) | at_once
            logits[rows, letter] = logits[rows].amax(-1) + by
            return logits

        monkeypatch.setattr(model.decoder, "step", step)

    return bend


def recognitions(engine: HunyuanEngine, sheets: list[Sheet]) -> tuple[Recognition, ...]:
    return engine.recognize([raster(sheet.pixels, number) for number, sheet in enumerate(sheets)]).pages


def test_a_row_that_repeats_itself_is_stopped_alone_and_its_neighbours_are_read(
    model: PageModel, company: tuple[Sheet, list[Sheet], int], loop: Callable[..., None]
):
    stuck, others, letter = company
    loop(model, by=50.0)
    pages = [others[0].pixels, stuck.pixels, *(sheet.pixels for sheet in others[1:])]
    found = read(model, pages, Decoding(2000), num_slots=3, steps_per_look=4)
    looped = found.pop(1)
    start = stuck.alone.tokens.index(letter)
    assert looped.finish is Finish.REPETITION
    assert looped.tokens == stuck.alone.tokens[:start] + (letter,) * MIN_TOKENS
    assert [result.tokens for result in found] == [sheet.alone.tokens for sheet in others]


def test_what_repeats_itself_on_every_step_of_the_ladder_is_kept_cut_to_one_copy(
    engine: HunyuanEngine, model: PageModel, company: tuple[Sheet, list[Sheet], int], loop: Callable[..., None]
):
    sheet = company[1][0]
    loop(engine._model, by=500.0, at_once=True)
    (page,) = recognitions(engine, [sheet])
    assert page.text == model.decode(sheet.alone.tokens[:1]) + LETTER
    assert (page.finish_reason, page.status) == (Finish.REPETITION, Status.REPEATED)
    assert page.output_tokens == 1 + MIN_TOKENS
    assert page.tries == 4
    assert page.note == (
        "the answer repeated itself, read again with a repetition penalty of 1.1; read again at 0.8 times the size;"
        " read again by sampling with seed 0; the answer repeats itself without end: cut to one copy"
    )


def test_a_loop_that_a_penalty_breaks_is_left_on_the_second_step(
    engine: HunyuanEngine, company: tuple[Sheet, list[Sheet], int], loop: Callable[..., None]
):
    stuck, _, _ = company
    loop(engine._model, by=0.2)
    (page,) = recognitions(engine, [stuck])
    assert (page.finish_reason, page.tries) == (Finish.STOP, 2)
    assert page.note == "the answer repeated itself, read again with a repetition penalty of 1.1"
    assert len(page.text) > len(stuck.alone.tokens) // 2


def test_an_answer_that_reaches_the_limit_is_truncated_and_kept(model: PageModel, sheets: list[Sheet]):
    short = HunyuanEngine(HunyuanOptions(str(TINY), task="text", language="en", device="cpu", max_new_tokens=4))
    some = [sheet for sheet in sheets if len(sheet.alone.tokens) > 4][:3]
    for page, sheet in zip(recognitions(short, some), some, strict=True):
        assert (page.finish_reason, page.status, page.tries) == (Finish.LENGTH, Status.TRUNCATED, 1)
        assert page.text == model.decode(sheet.alone.tokens[:4])
        assert page.output_tokens == 4


def test_an_answer_of_just_as_many_tokens_as_allowed_and_its_end_counts_by_what_was_seen(
    model: PageModel, sheets: list[Sheet]
):
    """With room for one more token the end is seen; without it nobody knows that it was whole."""
    sheet = sheets[0]
    length = len(sheet.alone.tokens)
    for room, finish in ((length + 1, Finish.STOP), (length, Finish.LENGTH)):
        (found,) = read(model, [sheet.pixels], Decoding(room))
        assert (found.tokens, found.finish) == (sheet.alone.tokens, finish)
