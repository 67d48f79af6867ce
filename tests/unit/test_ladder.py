"""Which pages are read again, how, and what is kept; the reader is scripted."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engines.generated import Decoding, Generated
from pipeline.engines.ladder import Climb, Kept, Step, climb, steps_for
from pipeline.result import Finish

ASKED = Decoding(8192, 1.08, seed=7)
UNIT = tuple(range(100, 110))


def wrote(*tokens: int, finish: Finish = Finish.STOP, is_finite: bool = True) -> Generated:
    return Generated(tokens, tuple(-token / 1000 for token in tokens), finish, is_finite)


def looped(*start: int, unit: tuple[int, ...] = UNIT) -> Generated:
    return wrote(*start, *unit * math.ceil(768 / len(unit)), finish=Finish.REPETITION)


class Script:
    """A reader that answers as told, page by page, and remembers what it was asked."""

    def __init__(self, *answers: list[Generated]) -> None:
        self.answers = {position: iter(those) for position, those in enumerate(answers)}
        self.calls: list[tuple[list[int], Decoding]] = []
        self.scales: list[float] = []

    def read(self, positions: Sequence[int], step: Step) -> list[Generated]:
        self.calls.append((list(positions), step.decoding))
        self.scales.append(step.scale)
        return [next(self.answers[position]) for position in positions]


def keep(script: Script, num_ladders: int = 1) -> list[Kept]:
    half, wide = (
        (script.read, steps_for(ASKED)),
        (script.read, [Step("in fp32", ASKED), *steps_for(ASKED)[1:]]),
    )
    return climb(len(script.answers), [half, wide][:num_ladders])


FINE, LOST = wrote(1, 2, 3), wrote(1, is_finite=False, finish=Finish.LENGTH)


def test_a_page_that_is_read_well_is_read_once():
    script = Script([FINE], [wrote(4)])
    assert keep(script) == [Kept(FINE, 3, 1), Kept(wrote(4), 1, 1)]
    assert script.calls == [([0, 1], ASKED)]


def test_a_page_that_reached_the_limit_is_not_read_again():
    cut_off = wrote(*range(50), finish=Finish.LENGTH)
    assert keep(Script([cut_off])) == [Kept(cut_off, 50, 1)]


def test_only_the_page_that_repeats_itself_is_read_again_and_with_a_higher_penalty():
    script = Script([FINE], [looped(1), wrote(5, 6)], [FINE])
    kept = keep(script)
    assert [positions for positions, _ in script.calls] == [[0, 1, 2], [1]]
    assert script.calls[1][1] == Decoding(8192, 1.18, seed=7)
    assert kept[1] == Kept(
        wrote(5, 6), 2, 2, "the answer repeated itself, read again with a repetition penalty of 1.18"
    )


def test_the_third_step_shows_the_page_smaller_and_the_last_samples_with_the_seed():
    script = Script([looped(), looped(), looped(), FINE])
    (kept,) = keep(script)
    assert script.scales == [1, 1, 0.8, 1]
    assert script.calls[2][1] == ASKED
    assert script.calls[3][1] == Decoding(8192, 1.18, 0.5, 7)
    assert (kept.answer, kept.tries) == (FINE, 4)
    assert str(kept.note).endswith("1.18; read again at 0.8 times the size; read again by sampling with seed 7")


def test_what_repeats_itself_to_the_last_is_kept_with_one_copy_and_its_raw_length():
    (kept,) = keep(Script([looped(1, 2), looped(1), looped(), looped()]))
    assert kept.answer.tokens == (1, 2, *UNIT)
    assert len(kept.answer.logprobs) == 12
    assert kept.answer.finish is Finish.REPETITION
    assert (kept.num_written, kept.tries) == (2 + 770, 4)
    assert str(kept.note).endswith("; the answer repeats itself without end: cut to one copy")


def test_of_answers_that_all_repeat_the_one_that_got_furthest_is_kept():
    (kept,) = keep(Script([looped(1), looped(*range(50)), looped(2), looped(2)]))
    assert kept.answer.tokens == (*range(50), *UNIT)


def test_a_later_step_that_comes_to_no_end_is_no_better_than_a_loop():
    endless = wrote(*range(3000), finish=Finish.LENGTH)
    (kept,) = keep(Script([looped(1), endless, endless, endless]))
    assert kept.answer.tokens == (1, *UNIT)
    assert kept.tries == 4


def test_logits_that_are_not_finite_are_read_again_in_the_wider_precision():
    script = Script([FINE], [LOST, wrote(9)])
    kept = keep(script, 2)
    assert kept[1] == Kept(wrote(9), 1, 2, "logits were not finite, read again in fp32")
    assert [positions for positions, _ in script.calls] == [[0, 1], [1]]


def test_logits_that_are_finite_nowhere_are_said_to_be_so():
    (kept,) = keep(Script([LOST, LOST]), 2)
    assert kept.answer == LOST
    assert kept.note == (
        "logits were not finite, read again in fp32; logits were not finite to the last: the text ends there"
    )
    (kept,) = keep(Script([LOST]))
    assert (kept.answer, kept.note) == (LOST, "logits were not finite to the last: the text ends there")


def test_an_answer_of_one_token_without_end_is_read_again_in_the_wider_precision():
    script = Script([looped(1, unit=(0,)), FINE])
    (kept,) = keep(script, 2)
    assert kept == Kept(FINE, 3, 2, "the answer turned into one token, read again in fp32")
    assert len(script.calls) == 2


def test_one_token_without_end_climbs_where_there_is_nothing_wider():
    script = Script([looped(1, unit=(0,)), FINE])
    assert keep(script)[0].note == "the answer repeated itself, read again with a repetition penalty of 1.18"


def test_the_wider_precision_has_a_ladder_of_its_own():
    script = Script([looped(unit=(0,)), looped(3), looped(4), FINE])
    assert keep(script, 2)[0].tries == 4
    assert [decoding.repetition_penalty for _, decoding in script.calls] == [1.08, 1.08, 1.18, 1.08]


def test_an_answer_before_the_numbers_broke_is_better_than_none():
    (kept,) = keep(Script([looped(1), LOST, LOST]), 2)
    assert kept.answer.tokens == (1, *UNIT)


def test_a_climb_that_is_over_takes_nothing_more():
    page = Climb([steps_for(ASKED)])
    page.take(FINE)
    assert page.place is None
    with pytest.raises(ValueError, match="not to be read again"):
        page.take(FINE)


def test_a_reader_that_leaves_a_page_out_is_found_out():
    with pytest.raises(ValueError, match="shorter"):
        climb(2, [(lambda positions, step: [FINE], [Step("as asked", ASKED)])])


ANSWERS = [FINE, LOST, looped(1), looped(2, unit=(0,)), wrote(*range(20), finish=Finish.LENGTH)]


@given(st.lists(st.lists(st.sampled_from(ANSWERS), min_size=8, max_size=8), max_size=4), st.integers(1, 2))
def test_every_page_is_kept_once_and_depends_on_no_other(pages: list[list[Generated]], num_ladders: int):
    together = keep(Script(*pages), num_ladders)
    assert together == [keep(Script(page), num_ladders)[0] for page in pages]
    for kept, page in zip(together, pages, strict=True):
        assert 1 <= kept.tries <= 8
        assert (kept.note is None) == (page[0].finish is not Finish.REPETITION and page[0].is_finite)
        assert kept.num_written >= len(kept.answer.tokens) == len(kept.answer.logprobs)
        assert any(kept.answer.tokens == answer.tokens[: len(kept.answer.tokens)] for answer in page[: kept.tries])


def test_steps_say_how_they_read():
    names = [(step.name, step.scale) for step in steps_for(ASKED, "float32")]
    assert names == [
        ("in float32", 1.0),
        ("in float32 with a repetition penalty of 1.18", 1.0),
        ("in float32 at 0.8 times the size", 0.8),
        ("in float32 by sampling with seed 7", 1.0),
    ]
