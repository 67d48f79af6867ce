"""Reading order of what is not plain columns: other directions of writing, long cells, notes, newspapers."""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.order import page_text, reading_order, run_down
from pipeline.result import Line

from .test_order import column, line, texts

JAPANESE = "吾輩は猫である名前はまだ無い"


def down(text: str, x: float, y: float, length: float, width: float = 24) -> Line:
    """A line that runs down the page from `y`."""
    return Line(text, (float(x), float(y), float(x + width), float(y + length)), 0.9)


def tier(name: str, right: float, y: float, num_lines: int, length: float = 400) -> list[Line]:
    """Lines of vertical text, the first of them the rightmost; paragraphs of seven end half way down."""
    return [
        down(f"{name}{i:02}{JAPANESE}", right - 36 * i, y, length / 2 if i % 7 == 6 else length)
        for i in range(num_lines)
    ]


shapes = st.tuples(st.integers(0, 900), st.integers(0, 900), st.integers(1, 300), st.integers(1, 300))
words = st.sampled_from(["word", "縦書きの行", "字", "عربي", "עברית 12", "33", "", " "])
scores = st.sampled_from([None, 0.5])
pages = st.lists(
    st.builds(lambda b, t, s: replace(line(t, b[0], b[1], b[2], b[3]), score=s), shapes, words, scores), max_size=40
)


@given(pages)
def test_every_line_of_any_script_and_shape_comes_back_exactly_once(lines: list[Line]):
    rows = reading_order(lines)
    assert Counter(item for row in rows for item in row) == Counter(lines)
    assert all(rows)


@given(pages, st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter_in_any_direction(lines: list[Line], rng: random.Random):
    assert reading_order(rng.sample(lines, len(lines))) == reading_order(lines)


@given(pages, st.integers(-3000, 3000), st.integers(-3000, 3000))
def test_where_the_boxes_lie_does_not_matter_in_any_direction(lines: list[Line], dx: int, dy: int):
    def moved(item: Line) -> Line:
        x0, y0, x1, y1 = item.bbox
        return replace(item, bbox=(x0 + dx, y0 + dy, x1 + dx, y1 + dy))

    assert reading_order([moved(item) for item in lines]) == [[moved(i) for i in row] for row in reading_order(lines)]


@given(pages)
def test_no_letter_is_lost_from_the_text_of_any_direction(lines: list[Line]):
    got = "".join(page_text(reading_order(lines)).split())
    assert Counter(got) == Counter("".join("".join(item.text.split()) for item in lines))


def test_vertical_lines_are_read_from_the_right():
    lines = tier("上", 900, 100, 12)
    assert texts(lines) == [item.text for item in lines]
    assert "\n\n" not in page_text(reading_order(lines))


def test_tiers_of_vertical_text_are_read_one_after_the_other():
    upper, lower = tier("上", 900, 100, 14), tier("下", 892, 560, 14)
    assert texts(upper + lower) == [item.text for item in upper + lower]


def test_a_heading_above_vertical_text_comes_first_and_the_page_number_last():
    heading = [line("吾輩は猫である", 300, 30, 400, 50)]
    body = tier("本", 900, 120, 14, 800)
    number = [line("123", 440, 980, 40)]
    assert texts(heading + body + number) == [item.text for item in heading + body + number]


def test_vertical_text_to_the_right_of_lines_across_comes_first():
    beside = [line(f"{i}{JAPANESE}", 60, 100 + 40 * i, 350) for i in range(12)]
    body = tier("本", 900, 90, 12, 500)
    assert texts(beside + body) == [item.text for item in body + beside]


def test_pieces_of_a_vertical_line_stand_in_one_row_without_a_space():
    lines = [
        down("吾輩は", 900, 100, 75),
        down("猫", 900, 176, 24),
        down("である", 900, 202, 75),
        down("名前は", 860, 100, 75),
    ]
    assert page_text(reading_order(lines)) == "吾輩は猫である\n名前は"


def test_directions_that_cannot_be_parted_are_read_as_most_of_the_page():
    across = line("a long line across all", 100, 150, 600)
    lines = [down("吾輩", 300, 100, 90), across, down("猫輩", 340, 120, 90)]
    assert texts(lines) == ["吾輩|猫輩", "a long line across all"]
    assert Counter(i for row in reading_order(lines) for i in row) == Counter(lines)


ARABIC = ("السلام", "عليكم", "ورحمة", "الله")


def leftward_column(name: str, right: float, y: float, num_lines: int, width: float = 420) -> list[Line]:
    lines = []
    for i in range(num_lines):
        wide = width / 2 if i % 8 == 7 else width - i % 3
        lines.append(line(f"{' '.join(ARABIC)} {name} {i:02}", right - wide, y + 30 * i, wide))
    return lines


def test_columns_of_arabic_are_read_from_the_right():
    right, left = leftward_column("ا", 940, 100, 16), leftward_column("ب", 480, 100, 16)
    assert texts(right + left) == [item.text for item in right + left]


def test_cells_of_a_hebrew_table_are_read_from_the_right():
    cells = [
        line(word, right - 12 * len(word), 100 + 40 * row, 12 * len(word))
        for row in range(4)
        for word, right in (("שולחן", 900), ("כיסא", 600), ("iPhone", 400), (f"{row}00", 200))
    ]
    assert texts(cells) == [f"שולחן|כיסא|iPhone|{row}00" for row in range(4)]


def test_latin_words_in_an_arabic_line_keep_their_own_order_and_their_number():
    lines = [line("مرحبا", 760, 100, 100), line("New", 600, 100, 50), line("York", 656, 100, 60)]
    lines += [line("12", 722, 100, 30), line("اليوم", 480, 100, 110)]
    assert texts(lines) == ["مرحبا|New|York|12|اليوم"]


def test_arabic_words_in_an_english_line_keep_their_own_order():
    lines = [line("The greeting is", 100, 100, 150), line("عليكم", 258, 100, 80), line("السلام", 346, 100, 80)]
    lines += [line("as everybody knows", 434, 100, 200)]
    assert texts(lines) == ["The greeting is|السلام|عليكم|as everybody knows"]


def long_cells(starts: tuple[int, ...] = (60, 420, 820)) -> tuple[list[Line], list[str]]:
    """A table whose rows stand farther apart than the lines of a cell; what each row says, read cell by cell."""
    lines: list[Line] = []
    want: list[str] = []
    y = 100.0
    for row, lengths in enumerate(((1, 3, 2), (2, 4, 1), (1, 1, 1), (3, 2, 1), (1, 4, 2))):
        cells = [
            [line(f"r{row} c{col} line {i}", starts[col], y + 28 * i, 250 - 20 * i) for i in range(length)]
            for col, length in enumerate(lengths)
        ]
        lines += [item for cell in cells for item in cell]
        single = max(lengths) == 1
        want += ["|".join(c[0].text for c in cells)] if single else [item.text for cell in cells for item in cell]
        y += 28 * max(lengths) + 16
    return lines, want


def test_cells_of_several_lines_are_read_to_their_end_row_by_row():
    lines, want = long_cells()
    assert texts(lines) == want
    assert "\n\n\n" not in page_text(reading_order(lines))


def test_long_cells_wide_enough_for_columns_are_no_columns():
    lines, want = long_cells((60, 360, 660))
    wide = [replace(item, bbox=(item.bbox[0], item.bbox[1], item.bbox[0] + 270, item.bbox[3])) for item in lines]
    assert texts(wide) == want


def test_rows_of_single_lines_in_groups_are_no_long_cells():
    rows = [(y, f"entry {y}") for y in (100, 130, 160, 190, 240, 270, 300, 350, 380, 410, 440)]
    lines = [line(text, 60, y, 300) for y, text in rows] + [line(str(y), 820, y, 40) for y, _ in rows]
    assert texts(lines) == [f"{text}|{y}" for y, text in rows]


def test_side_notes_do_not_break_into_the_text():
    text = column("text", 260, 100, 30, width=600)
    notes = [line(f"note {n} {i}", 60, 112 + 240 * n + 21 * i, 120, 17) for n in range(3) for i in range(4)]
    assert texts(text + notes) == [item.text for item in notes + text]
    on_right = [replace(n, bbox=(n.bbox[0] + 840, n.bbox[1], n.bbox[2] + 840, n.bbox[3])) for n in notes]
    assert texts(text + on_right) == [item.text for item in text + on_right]


def test_an_index_is_read_by_columns_though_its_lines_are_short():
    parts = [
        [line(f"{name} entry {i}, 4{i}", x, 100 + 30 * i, 120 + 61 * (i * 7 % 5)) for i in range(16)]
        for name, x in (("a", 60), ("b", 520))
    ]
    assert texts(parts[0] + parts[1]) == [item.text for item in parts[0] + parts[1]]


def test_a_column_broken_into_words_is_still_a_column():
    def broken(item: Line) -> list[Line]:
        x0, y0, x1, y1 = item.bbox
        num = len(item.text.split())
        step = (x1 - x0 + 7) / num
        return [
            Line(w, (x0 + step * i, y0, x0 + step * (i + 1) - 7, y1), None) for i, w in enumerate(item.text.split())
        ]

    lines = column("left", 60, 100, 14) + column("right", 520, 100, 14)
    pieces = [piece for item in lines for piece in broken(item)]
    assert page_text(reading_order(random.Random(3).sample(pieces, len(pieces)))).split() == [
        word for item in lines for word in item.text.split()
    ]


def test_stories_below_a_story_across_all_columns_begin_after_its_end():
    lead = [line("The heading of it across the page", 60, 40, 1280, 60)]
    upper = [column(name, x, 120, 10, width=400) for name, x in (("a", 60), ("b", 500), ("c", 940))]
    heads = [line(f"Heading {name}", x, 460, 360, 44) for name, x in (("d", 60), ("e", 500), ("f", 940))]
    lower = [column(name, x, 520, 12, width=400) for name, x in (("d", 60), ("e", 500), ("f", 940))]
    below = [item for head, story in zip(heads, lower, strict=True) for item in (head, *story)]
    want = [item.text for item in [*lead, *(i for part in upper for i in part), *below]]
    assert texts(lead + [i for part in upper for i in part] + below) == want


def test_a_short_heading_in_a_strip_of_its_own_ends_the_columns_above_it():
    above = [*column("a", 60, 100, 8), *column("b", 520, 100, 8)]
    heading = [line("Part two", 560, 360, 200, 34)]
    below = [*column("c", 60, 412, 8), *column("d", 520, 412, 8)]
    assert texts(above + heading + below) == [item.text for item in above + heading + below]


def test_a_heading_in_the_longer_of_two_columns_ends_neither():
    left = [*column("a", 60, 100, 8), line("Part two", 60, 360, 200, 34), *column("c", 60, 412, 8)]
    right = column("b", 520, 100, 7)
    number = [line("286", 470, 760, 40)]
    assert texts(left + right + number) == [item.text for item in left + right + number]


def test_a_column_is_cut_off_as_far_down_as_it_goes():
    left, right = column("a", 60, 100, 24), column("b", 520, 100, 12)
    wide = replace(left[18], bbox=(60.0, left[18].bbox[1], 500.0, left[18].bbox[3]))
    left = [*left[:18], wide, *left[19:]]
    assert texts(left + right) == [item.text for item in left + right]


@pytest.mark.parametrize("gap", [0, 1, 2])
def test_fragments_of_a_text_layer_that_touch_are_one_word(gap: float):
    rows = [[Line("Hel", (0.0, 0.0, 40.0, 24.0), None), Line("lo", (40.0 + gap, 0.0, 60.0, 24.0), None)]]
    assert page_text(rows) == "Hello"
    assert page_text([[replace(item, score=0.9) for item in rows[0]]]) == "Hel lo"


def test_chinese_cells_far_apart_are_parted_by_a_space():
    assert page_text([[line("姓名", 0, 0, 48), line("年龄", 200, 0, 48)]]) == "姓名 年龄"


def test_a_tall_box_beside_lines_gathers_none_of_them():
    tall = line("sideways", 20, 100, 24, 600)
    lines = column("a", 100, 100, 12)
    rows = texts([tall, *lines])
    assert [row for row in rows if row != "sideways"] == [item.text for item in lines]


def hostile(kind: str, num: int) -> list[Line]:
    rng = random.Random(num)
    spots = [(rng.uniform(0, 2000), rng.uniform(0, 3000)) for _ in range(num)]
    return {
        "scattered": lambda: [line("ab c", x, y, rng.uniform(1, 300), rng.uniform(5, 40)) for x, y in spots],
        "points": lambda: [line("ab c", x, y, 0, 0) for x, y in spots],
        "one place": lambda: [line("ab c", 0, 0, 50) for _ in spots],
        "one row": lambda: [line("ab c", 10 * i, 0, 5) for i in range(num)],
        "grid": lambda: [line("abcdefgh", 100 * (i % 50), 30 * (i // 50), 60) for i in range(num)],
        "columns": lambda: [
            line("words of a column", i % 40 * 200, i // 40 * 30 + i % 40 * 7, 180) for i in range(num)
        ],
        "mixed": lambda: [
            down("縦書き", x, y, 60) if i % 3 else line("abc", x, y, 20) for i, (x, y) in enumerate(spots)
        ],
        "stairs": lambda: [
            down("縦書", 9 * i, 9 * i, 40, 8) if i % 2 else line("abc", 9 * i, 9 * i, 8, 5) for i in range(num)
        ],
    }[kind]()


@pytest.mark.parametrize("kind", ["scattered", "points", "one place", "one row", "grid", "columns", "mixed", "stairs"])
def test_a_page_made_to_take_forever_takes_no_more_than_some_seconds(kind: str):
    lines = hostile(kind, 5000)
    start = time.process_time()
    rows = reading_order(lines)
    assert time.process_time() - start < (10 if sys.gettrace() is None else 40), "coverage makes it four times as slow"
    assert Counter(item for row in rows for item in row) == Counter(lines)


def cards(*numbers: str, tops: tuple[int, int] = (100, 400)) -> list[Line]:
    """Two columns of cards, each a title and some lines; the first and third on the left."""
    return [
        item
        for index, number in enumerate(numbers)
        for item in [
            line(f"{number} card runs 00", 480 * (index % 2), tops[index // 2], 415),
            *column("then", 480 * (index % 2), tops[index // 2] + 30, 6)[1:],
        ]
    ]


def titles(page: list[Line]) -> list[str]:
    """The first words of the first line of each column or card, in reading order."""
    return [text.partition(" runs")[0].removesuffix(" card") for text in texts(page) if text.endswith(" 00")]


def test_numbers_that_run_across_columns_say_that_cells_are_read_across():
    page = [*cards("1.", "2.", "3.", "4."), *column("above", 0, -160, 6), *column("beside", 480, -160, 6)]
    assert titles(page) == ["above", "beside", "1.", "2.", "3.", "4."]


def test_the_last_of_an_odd_number_of_cells_stands_alone():
    assert titles(cards("(7)", "(8)", "(9)")) == ["(7)", "(8)", "(9)"]


@pytest.mark.parametrize(
    "numbers",
    [("1.", "3.", "2.", "4."), ("1.", "1.", "2.", "2."), ("1.", "a", "2.", "b"), ("1.5", "2.5", "3.5", "4.5")],
)
def test_other_numbers_leave_columns_columns(numbers: tuple[str, ...]):
    assert titles(cards(*numbers)) == [numbers[0], numbers[2], numbers[1], numbers[3]]


def test_numbers_that_are_not_level_leave_columns_columns():
    left, right = cards("1.", "2.", "3.", "4."), cards("1.", "2.", "3.", "4.", tops=(160, 460))
    page = [item for item in left if item.bbox[0] < 480] + [item for item in right if item.bbox[0] >= 480]
    assert titles(page) == ["1.", "3.", "2.", "4."]


def story(name: str, x: int, top: int, num_lines: int) -> list[Line]:
    """A heading in large type and a column below it."""
    return [line(f"{name} runs 00", x, top, 380, 36), *column(name.lower(), x, top + 60, num_lines)]


def test_stories_side_by_side_are_read_to_their_end_where_the_strip_between_them_goes_on():
    page = story("A", 0, 0, 10) + story("B", 480, 0, 10) + story("C", 0, 400, 10) + story("D", 480, 400, 10)
    assert titles(page) == ["A", "a", "C", "c", "B", "b", "D", "d"]
    across = [line("E runs 00", 0, 800, 880, 36), *column("e", 0, 860, 9), *column("f", 480, 860, 9)]
    assert titles(page + across) == ["A", "a", "C", "c", "B", "b", "D", "d", "E", "e", "f"]


def test_tiers_of_a_poem_are_read_one_after_the_other_though_its_lines_end_where_they_like():
    def verses(name: str, y: int) -> list[Line]:
        return [down(f"{name}{i}{JAPANESE[: 5 + i % 4]}", 800 - 36 * i, y, 24 * (8 + i % 4)) for i in range(8)]

    assert [text[0] for text in texts(verses("上", 0) + verses("下", 400))] == ["上"] * 8 + ["下"] * 8


def test_a_page_runs_down_if_most_of_its_letters_do():
    assert run_down(tier("上", 800, 0, 6))
    assert not run_down([*tier("上", 800, 0, 2), *column("a", 0, 500, 12)])
    assert not run_down([])
