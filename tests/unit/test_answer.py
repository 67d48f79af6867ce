"""What becomes the row of a page that a model has written."""

from __future__ import annotations

import math

from pipeline.engines.answer import recognition_of
from pipeline.engines.generated import Generated
from pipeline.engines.ladder import Kept
from pipeline.result import Finish, Line, Status

WRITTEN = Generated((5, 6), (-0.5, -1.5), Finish.STOP)


def test_a_row_says_how_sure_the_model_was_and_how_much_it_wrote():
    row = recognition_of(Kept(WRITTEN, 9, 3, "read again"), "text", "markdown")
    assert (row.text, row.format, row.status) == ("text", "markdown", Status.OK)
    assert (row.mean_logprob, row.min_logprob, row.confidence) == (-1.0, -1.5, math.exp(-1.0))
    assert (row.output_tokens, row.tries, row.note) == (9, 3, "read again")


def test_lines_and_one_more_thing_to_say_come_along():
    line = Line("text", (0.0, 0.0, 9.0, 9.0), 0.5, -1.5)
    row = recognition_of(Kept(WRITTEN, 2, 1), "text", "text", lines=[line], note="one has no box")
    assert (row.lines, row.note) == ((line,), "one has no box")
    assert recognition_of(Kept(WRITTEN, 2, 2, "a"), "", "text", note="b").note == "a; b"


def test_an_answer_that_ends_where_numbers_are_not_finite_is_not_whole():
    row = recognition_of(Kept(Generated((5,), (-0.5,), Finish.STOP, is_finite=False), 1, 2), "t", "text")
    assert row.status is Status.TRUNCATED
