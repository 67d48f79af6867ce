"""Lines with boxes, out of what HunyuanOCR writes in either notation."""

from __future__ import annotations

import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engines.certainty import Certainty
from pipeline.engines.hunyuan.spotting import Spotted, read_spotting

NO_MARKS = st.text(st.characters(exclude_characters="()[]{}<>,`\\", exclude_categories=["C", "Z"]), min_size=1)
boxes = st.lists(st.integers(0, 1000), min_size=4, max_size=4)
notation = st.lists(
    st.sampled_from(
        [
            *'(),[]{}:<>/"\\ \n',
            "(1,2)",
            "(3,4),(500,1000)",
            '"box"',
            '"text"',
            "[1,2,3,4]",
            "<ref>",
            "</quad>",
            "Ab",
            "7",
            '{"box": [1, 2, 3, 4], "text": "x"}',
            "1e999",
            "NaN",
            "```json",
            "null",
        ]
    ),
    max_size=30,
).map("".join)
"""What is like an answer, and mostly broken."""


def read(answer: str) -> list[tuple[str, tuple[float, ...]]]:
    """Lines on a page of 1,000 by 1,000 pixels, so that boxes are as they were written."""
    return [(line.text, line.bbox) for line in read_spotting(answer, 1000, 1000).lines]


def written(items: list[tuple[str, list[int]]]) -> str:
    return "".join(f"{text}({x0},{y0}),({x1},{y1})" for text, (x0, y0, x1, y1) in items)


def test_lines_stand_one_after_the_other():
    assert read("Hello(1,2),(30,40)World(5,6),(70,80)") == [("Hello", (1, 2, 30, 40)), ("World", (5, 6, 70, 80))]


def test_boxes_are_in_pixels_of_the_raster():
    spotted = read_spotting("Total(250,100),(500,200)", 800, 3000)
    assert spotted.lines[0].bbox == (200, 300, 400, 600)


@pytest.mark.parametrize(
    "text",
    [
        "ATLANTA (AP)",
        "ATLANTA (AP) - Human",
        "金额(小写)",
        "f(x)",
        "f(3)",
        "(12)",
        "(12,34)",
        "P(1,2)",
        "from (1,2),(3,4) to",
        "from (1,2),(3,4) to (5,6),(7,8)",
        "P(1,2),(3,4)",
        "(1,2),(3,4) is where",
        "P(1,2),(3,4),(5,6)",
        "10,000 (20,000)",
        "12,5",
        "(1200,2),(3,4000)",
        "(1, 2), (3, 4)",
        "two\nrows",
        "[1,2,3,4]",
    ],
)
def test_brackets_and_numbers_in_the_text_are_text(text: str):
    assert read(f"before(1,2),(30,40){text}(10,20),(300,400)after(5,6),(70,80)") == [
        ("before", (1, 2, 30, 40)),
        (text, (10, 20, 300, 400)),
        ("after", (5, 6, 70, 80)),
    ]


def test_four_points_are_a_polygon():
    assert read("tilted(10,20),(90,30),(95,60),(15,50)next(1,2),(3,4)")[0] == ("tilted", (10, 20, 95, 60))


def test_marks_around_text_and_box_are_no_text():
    answer = "<ref>one</ref><quad>(1,2),(30,40)</quad>\n<ref>two</ref><quad>(5,6),(70,80)</quad>"
    assert read(answer) == [("one", (1, 2, 30, 40)), ("two", (5, 6, 70, 80))]
    assert read_spotting(answer, 9, 9).note is None


def test_corners_in_the_wrong_order_are_put_right():
    assert read("up(30,40),(1,2)") == [("up", (1, 2, 30, 40))]


def test_a_box_without_extent_is_a_pixel_wide_and_within_the_raster():
    assert read("dot(5,7),(5,7)") == [("dot", (5, 7, 6, 8))]
    assert read("corner(1000,1000),(1000,1000)") == [("corner", (999, 999, 1000, 1000))]
    assert read_spotting("speck(0,0),(1,1)", 1, 1).lines[0].bbox == (0, 0, 1, 1)


@pytest.mark.parametrize("rest", ["Bar", "Bar(5", "Bar(5,6)", "Bar(5,6),(70,", "Bar(5,6),(70,8000)"])
def test_an_answer_that_was_cut_off_keeps_its_last_words(rest: str):
    spotted = read_spotting(f"Foo(1,2),(30,40){rest}", 1000, 1000)
    assert spotted.text == f"Foo\n{rest}"
    assert [line.text for line in spotted.lines] == ["Foo"]
    assert spotted.note == "1 of 2 pieces of text have no box: kept as text without a line"


@pytest.mark.parametrize("answer", ["图中没有文字", "(1,2),(3,4)", '{"title": 1}', "[{", '["a"]'])
def test_an_answer_without_any_line_is_kept_as_it_is(answer: str):
    assert read_spotting(answer, 10, 10) == Spotted(answer, (), "the answer has no box: kept as text without a line")


def test_an_empty_answer_has_nothing_to_say():
    assert read_spotting(" \n", 10, 10) == Spotted("", ())
    assert read_spotting('[{"box": [1, 2, 3, 4], "text": " "}]', 10, 10) == Spotted("", ())


@pytest.mark.parametrize("answer", ["[]", " [ ]\n", "```json\n[]\n```", "```\n[]"])
def test_an_empty_array_is_a_page_without_text(answer: str):
    assert read_spotting(answer, 10, 10) == Spotted("", ())


def test_brackets_with_a_box_are_text():
    assert read("[](1,2),(30,40)") == [("[]", (1, 2, 30, 40))]


def test_json_is_read_with_either_word_for_the_box():
    first, second = '{"box": [1, 2, 30, 40], "text": "a (1,2),(3,4)"}', '{"bbox": [5, 6.5, 70, 80], "text": "\\u4e00"}'
    answer = f"```json\n[{first},\n {second}]\n```"
    assert read(answer) == [("a (1,2),(3,4)", (1, 2, 30, 40)), ("一", (5, 6.5, 70, 80))]
    assert read_spotting(answer, 1000, 1000).note is None


def test_json_that_was_cut_off_keeps_the_lines_before_and_the_words_after():
    spotted = read_spotting(
        '[{"box": [1, 2, 30, 40], "text": "whole"}, {"box": [5, 6, 70, 80], "text": "hal', 1000, 1000
    )
    assert [line.text for line in spotted.lines] == ["whole"]
    assert spotted.text.endswith('"text": "hal')
    assert "1 of 2" in str(spotted.note)


def test_one_broken_object_does_not_cost_the_others():
    answer = r'[{"box": [1, 2, 30, 40], "text": "\alpha"}, {"box": [5, 6, 70, 80], "text": "whole"}]'
    spotted = read_spotting(answer, 1000, 1000)
    assert [line.text for line in spotted.lines] == ["whole"]
    assert r"\alpha" in spotted.text


@pytest.mark.parametrize(
    "box", ["null", "[1, 2, 3]", '[1, 2, 3, "4"]', "[1, 2, 3, NaN]", '"(1,2),(3,4)"', "[[1, 2], [3, 4]]"]
)
def test_json_with_a_box_that_is_none_keeps_the_text(box: str):
    spotted = read_spotting(f'[{{"box": {box}, "text": "words"}}, {{"box": [1, 2, 3, 4], "text": "line"}}]', 99, 99)
    assert spotted.text == "words\nline"
    assert [line.text for line in spotted.lines] == ["line"]


def test_json_beyond_the_page_is_drawn_back_to_its_edge():
    assert read('[{"box": [-5, 2, 1003, 1e999], "text": "wide"}]') == [("wide", (0, 2, 1000, 1000))]


def test_an_object_without_text_is_kept_as_it_is():
    assert read_spotting('[{"text": 7, "box": [1, 2, 3, 4]}]', 9, 9).text == '{"text": 7, "box": [1, 2, 3, 4]}'
    assert read_spotting('[{"text": 7, "text": "x"}]', 9, 9).text == "x"


def test_a_line_scores_what_its_own_tokens_do():
    answer = "ab(1,2),(3,4)cd(5,6),(7,8)"
    ends = [1, 2, 13, 15, 26]
    sure = Certainty(ends, [-0.5, -1.5, -9.0, -2.0, -9.0])
    first, second = read_spotting(answer, 10, 10, sure).lines
    assert (first.score, first.min_logprob) == (pytest.approx(math.exp(-1.0)), -1.5)
    assert (second.score, second.min_logprob) == (pytest.approx(math.exp(-2.0)), -2.0)


def test_a_line_in_json_scores_what_the_tokens_of_its_text_do():
    answer = '[{"box": [1, 2, 3, 4], "text": "word"}]'
    start = answer.index("word")
    sure = Certainty([start, start + 4, len(answer)], [-7.0, -0.25, -7.0])
    line = read_spotting(answer, 10, 10, sure).lines[0]
    assert (line.score, line.min_logprob) == (pytest.approx(math.exp(-0.25)), -0.25)


@given(st.lists(st.tuples(NO_MARKS, boxes), max_size=6))
def test_what_is_written_is_read_in_both_notations(items: list[tuple[str, list[int]]]):
    in_json = json.dumps([{"box": box, "text": text} for text, box in items])
    for answer in (written(items), in_json):
        lines = read_spotting(answer, 300, 700).lines
        assert [line.text for line in lines] == [text for text, _ in items]
        for line, (_, (x0, y0, x1, y1)) in zip(lines, items, strict=True):
            wanted = [min(x0, x1) * 0.3, min(y0, y1) * 0.7, max(x0, x1) * 0.3, max(y0, y1) * 0.7]
            assert all(abs(got - want) <= 1.001 for got, want in zip(line.bbox, wanted, strict=True))


@given(st.text() | notation, st.integers(1, 3000), st.integers(1, 3000))
def test_no_answer_raises_or_loses_a_word_and_all_boxes_lie_within_the_raster(answer: str, width: int, height: int):
    spotted = read_spotting(answer, width, height)
    assert words(spotted.text) == words(answer) or '"text"' in answer
    for line in spotted.lines:
        x0, y0, x1, y1 = line.bbox
        assert 0 <= x0 < x1 <= width
        assert 0 <= y0 < y1 <= height
        assert line.text.strip()
        assert line.text in spotted.text
    assert "\n" not in (spotted.note or "")


def words(text: str) -> list[str]:
    """The words of a text that are not marks around text or box."""
    return [word for word in re.findall("[A-Za-z]+", text) if word not in {"ref", "quad"}]
