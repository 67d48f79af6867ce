"""Reading order: every line once, in whatever order they come; columns, tables and slanted pages read as printed."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.order import page_text, reading_order
from pipeline.result import Line

HEIGHT = 24
PITCH = 30


def line(text: str, x: float, y: float, width: float, height: float = HEIGHT) -> Line:
    return Line(text, (float(x), float(y), float(x + width), float(y + height)), 0.9)


def column(name: str, x: float, y: float, num_lines: int, width: float = 420, pitch: float = PITCH) -> list[Line]:
    """Lines of prose: all as wide as the column, but for the last of each paragraph of eight."""
    return [
        line(f"{name} runs on here {i:02}", x, y + pitch * i, width / 2 if i % 8 == 7 else width - i % 3)
        for i in range(num_lines)
    ]


def slanted(lines: list[Line], degrees: float) -> list[Line]:
    """The upright boxes that a detector gives of a page turned by so many degrees clockwise."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    turned = []
    for item in lines:
        x0, y0, x1, y1 = item.bbox
        xs = [x * cos - y * sin for x in (x0, x1) for y in (y0, y1)]
        ys = [x * sin + y * cos for x in (x0, x1) for y in (y0, y1)]
        box = tuple(float(round(value)) for value in (min(xs), min(ys), max(xs), max(ys)))
        turned.append(replace(item, bbox=box))
    return turned


def shuffled(lines: list[Line]) -> list[Line]:
    return random.Random(7).sample(lines, len(lines))


def texts(lines: list[Line]) -> list[str]:
    """The rows of a shuffled page, fragments joined by a bar."""
    return ["|".join(item.text for item in row) for row in reading_order(shuffled(lines))]


boxes = st.tuples(st.integers(0, 900), st.integers(0, 900), st.integers(1, 700), st.integers(1, 60))
words = st.sampled_from(["word", "two words", "33 003", "漢字", "", " "])
pages = st.lists(
    st.builds(lambda box, text: line(text, *box), boxes, words),
    max_size=40,
)
laid_out = st.builds(
    lambda columns, pitch, jitter: [
        item for i in range(columns) for item in column("abc"[i], 470 * i, jitter * i, 12, pitch=pitch)
    ],
    st.integers(1, 3),
    st.integers(26, 60),
    st.integers(0, 30),
)


@given(pages | laid_out)
def test_every_line_comes_back_exactly_once(lines: list[Line]):
    rows = reading_order(lines)
    assert Counter(item for row in rows for item in row) == Counter(lines)
    assert all(rows)


@given(pages | laid_out, st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(lines: list[Line], rng: random.Random):
    rows = reading_order(lines)
    assert reading_order(rng.sample(lines, len(lines))) == rows


@given(pages | laid_out, st.integers(-5000, 5000), st.integers(-5000, 5000))
def test_where_the_boxes_lie_on_the_page_does_not_matter(lines: list[Line], dx: int, dy: int):
    def moved(item: Line) -> Line:
        x0, y0, x1, y1 = item.bbox
        return replace(item, bbox=(x0 + dx, y0 + dy, x1 + dx, y1 + dy))

    assert reading_order([moved(item) for item in lines]) == [
        [moved(item) for item in row] for row in reading_order(lines)
    ]


@given(pages | laid_out)
def test_the_text_holds_every_word_of_every_line(lines: list[Line]):
    got = Counter(
        page_text(reading_order(lines)).replace("漢字漢字", "漢字 漢字").replace("漢字漢字", "漢字 漢字").split()
    )
    assert got == Counter(word for item in lines for word in item.text.split())


def test_an_empty_page_has_no_rows_and_no_text():
    assert reading_order([]) == []
    assert page_text([]) == ""


def test_one_column_is_read_from_the_top():
    lines = column("a", 100, 100, 20)
    assert texts(lines) == [item.text for item in lines]


def test_fragments_of_one_printed_line_are_joined_by_a_space():
    lines = [line("Total", 100, 100, 80), line("due", 190, 103, 60), line("now", 260, 98, 60)]
    assert texts(lines) == ["Total|due|now"]
    assert page_text(reading_order(lines)) == "Total due now"


def test_a_title_across_two_columns_comes_first_and_the_left_column_before_the_right():
    title = [line("A title that stands across", 200, 40, 600, 40)]
    left, right = column("left", 60, 130, 18), column("right", 520, 130, 18)
    assert texts(title + left + right) == [item.text for item in title + left + right]


def test_columns_of_different_leading_are_not_taken_for_rows():
    left, right = column("left", 60, 100, 20), column("right", 520, 108, 15, width=200, pitch=41)
    assert texts(left + right) == [item.text for item in left + right]


def test_three_columns_with_narrow_gutters_come_one_after_the_other():
    parts = [column(name, x, 100, 30) for name, x in (("a", 60), ("b", 490), ("c", 920))]
    assert texts([item for part in parts for item in part]) == [item.text for part in parts for item in part]


def test_a_heading_across_the_middle_ends_the_columns_above_it():
    above = [*column("a", 60, 100, 8), *column("b", 520, 100, 8)]
    heading = [line("Second part of it", 200, 360, 500)]
    below = [*column("c", 60, 400, 8), *column("d", 520, 400, 8)]
    assert texts(above + heading + below) == [item.text for item in above + heading + below]


def test_a_running_head_and_a_page_number_belong_to_no_column():
    head = [line("Federal Register", 60, 20, 250), line("Vol. 85", 800, 20, 100)]
    left, right = column("left", 60, 110, 20), column("right", 520, 110, 20)
    foot = [line("47698", 470, 760, 60)]
    rows = texts(head + left + right + foot)
    assert rows[0] == "Federal Register|Vol. 85"
    assert rows[-1] == "47698"
    assert rows[1:-1] == [item.text for item in left + right]


@pytest.mark.parametrize("pitch", [55, 65, 80])
def test_wide_leading_makes_no_running_head_of_the_first_line(pitch: int):
    left, right = column("left", 60, 100, 12, pitch=pitch), column("right", 520, 100, 12, pitch=pitch)
    assert texts(left + right) == [item.text for item in left + right]


def test_a_gap_across_the_middle_of_short_columns_does_not_end_them():
    left, right = (column(n, x, 100, 4) + column(n + n, x, 300, 4) for n, x in (("a", 60), ("b", 520)))
    assert texts(left + right) == [item.text for item in left + right]


def table(num_rows: int, widths: list[int]) -> list[Line]:
    """Cells left-aligned in the first column, right-aligned in the others, as in most tables of numbers."""
    cells = []
    for row in range(num_rows):
        cells.append(line(f"item {row}", 60, 100 + 40 * row, 90 + 37 * (row * 5 % 4)))
        for index, width in enumerate(widths):
            right = 420 + 180 * index
            cells.append(line(f"{row * 17 % 10}{index}7", right - width - row % 3, 101 + 40 * row - row % 2, width))
    return cells


def test_a_table_is_read_row_by_row():
    rows = texts(table(5, [60, 70, 65]))
    assert rows == [f"item {r}|{r * 17 % 10}07|{r * 17 % 10}17|{r * 17 % 10}27" for r in range(5)]


def test_a_table_of_words_is_read_row_by_row():
    names, places = (
        ("Giraffe", "Lion", "Cat", "Dog", "Heron"),
        ("At the beach", "Park", "In a home office", "Yard", "Lake"),
    )
    cells = [line(name, 60, 100 + 34 * i, 14 * len(name)) for i, name in enumerate(names)]
    cells += [line(place, 400, 100 + 34 * i, 14 * len(place)) for i, place in enumerate(places)]
    assert texts(cells) == [f"{name}|{place}" for name, place in zip(names, places, strict=True)]


def test_a_receipt_is_read_row_by_row():
    goods = ("Bread", "Milk 1 l", "Coffee beans 500 g", "Butter", "Apples, loose", "Total")
    cells = [line(name, 40, 80 + 32 * i, 13 * len(name)) for i, name in enumerate(goods)]
    cells += [line(f"{i}.49", 420, 82 + 32 * i, 55) for i in range(len(goods))]
    assert texts(cells) == [f"{name}|{i}.49" for i, name in enumerate(goods)]


@pytest.mark.parametrize("degrees", [-2, -1, -0.5, 0.5, 1, 2])
def test_two_columns_on_a_slanted_page_are_still_two_columns(degrees: float):
    title = [line("A title that stands across", 200, 40, 600, 40)]
    left, right = column("left", 60, 130, 30), column("right", 520, 130, 30)
    assert texts(slanted(title + left + right, degrees)) == [item.text for item in title + left + right]


@pytest.mark.parametrize("degrees", [-2, -1, 1, 2])
def test_a_table_on_a_slanted_page_keeps_its_rows(degrees: float):
    lines = table(12, [60, 70, 65, 60, 70])
    assert texts(slanted(lines, degrees)) == texts(lines)


def test_a_superscript_stays_in_its_line():
    lines = [line("as he wrote", 60, 100, 300), line("3", 362, 94, 10, 14), line("in May", 376, 100, 200)]
    lines += [line("and again later", 60, 130, 500)]
    assert texts(lines) == ["as he wrote|3|in May", "and again later"]


def test_boxes_that_lie_on_each_other_are_no_row():
    assert len(texts([line("seal", 60, 100, 300), line("text under it", 70, 104, 290)])) == 2


def test_chinese_is_joined_without_a_space_and_korean_with_one():
    def joined(*parts: str) -> str:
        return page_text([[line(part, 100 * i, 0, 90) for i, part in enumerate(parts)]])

    assert joined("浙江省", "杭州市") == "浙江省杭州市"
    assert joined("カタカナ", "、ひらがな") == "カタカナ、ひらがな"
    assert joined("第", "2") == "第 2"
    assert joined("한국어", "문장") == "한국어 문장"
    assert joined("", "a", " ", "b") == "a b"


def test_a_gap_and_a_new_column_show_as_a_blank_line():
    one = column("a", 60, 100, 3)
    rows = [[item] for item in [*one, line("after a gap", 60, 240, 300), line("next column", 520, 100, 300)]]
    assert page_text(rows).split("\n") == [*(item.text for item in one), "", "after a gap", "", "next column"]


def test_double_spacing_is_no_gap():
    assert "\n\n" not in page_text([[item] for item in column("a", 60, 100, 9, pitch=60)])


def test_boxes_without_height_do_not_disturb():
    flat = [Line(f"rule {i}", (0.0, float(i), 100.0, float(i)), None) for i in range(12)]
    assert sorted(texts(flat)) == sorted(item.text for item in flat)
