"""Which pages are asked for: ranges as people write them, limits, and what is said of the others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import ConfigurationError
from pipeline.selection import Selection


def _pages(text: str, page_count: int, max_pages: int = 0) -> list[int]:
    """Numbers of the pages asked for, the first being 1."""
    bits = Selection.parse(text, max_pages).mask(page_count)
    return [index + 1 for index in range(bits.bit_length()) if bits >> index & 1]


@pytest.mark.parametrize(
    ("text", "page_count", "wanted"),
    [
        ("", 3, [1, 2, 3]),
        ("   ", 2, [1, 2]),
        ("1-3,10-", 12, [1, 2, 3, 10, 11, 12]),
        ("1-3,10-", 9, [1, 2, 3]),
        ("2", 3, [2]),
        ("-2", 3, [1, 2]),
        (" 3 - 4 , 1 ", 5, [1, 3, 4]),
        ("2-3,3-4", 5, [2, 3, 4]),
        ("5-", 4, []),
        ("7", 4, []),
        ("1-999999999", 2, [1, 2]),
        ("1", 0, []),
    ],
)
def test_ranges_are_read_as_people_write_them(text: str, page_count: int, wanted: list[int]):
    assert _pages(text, page_count) == wanted


@pytest.mark.parametrize("text", ["x", "1;2", "1,,2", ",", "-", "1-2-3", "1.5", "+1", "\u0663", "1 2", "9" * 30])
def test_what_is_no_range_is_an_error_that_shows_one(text: str):
    with pytest.raises(ConfigurationError, match="is no page and no range of pages, such as 1-3,10-"):
        Selection.parse(text)


@pytest.mark.parametrize("text", ["0", "3-1", "0-5", "1,-0"])
def test_a_range_without_a_page_is_an_error(text: str):
    with pytest.raises(ConfigurationError, match="holds no page; the first page is 1"):
        Selection.parse(text)


def test_a_limit_takes_the_first_of_the_pages_asked_for():
    assert _pages("", 5, 2) == [1, 2]
    assert _pages("4-", 9, 2) == [4, 5]
    assert _pages("1,5,9", 9, 2) == [1, 5]
    assert _pages("2", 9, 2) == [2]


ranges = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 9)), max_size=4)


@given(ranges, st.integers(0, 4), st.integers(0, 40))
def test_a_selection_is_the_first_pages_of_the_union_of_its_ranges(
    spans: list[tuple[int, int]], max_pages: int, page_count: int
):
    union = {page for first, more in spans for page in range(first, first + more + 1)}
    asked = [page for page in range(1, page_count + 1) if page in union or not spans]
    text = ",".join(f"{first}-{first + more}" for first, more in spans)
    assert _pages(text, page_count, max_pages) == (asked[:max_pages] if max_pages else asked)


def test_what_is_left_out_is_told_in_the_words_of_the_options():
    assert Selection.parse("1-3, 5,10-", 4).says() == "not asked for: --pages 1-3,5,10- --max-pages-per-document 4"
    assert Selection.parse("-2").says() == "not asked for: --pages 1-2"
    assert Selection(max_pages=7).says() == "not asked for: --max-pages-per-document 7"
