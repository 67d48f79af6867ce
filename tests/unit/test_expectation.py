"""Laws of what answers are expected: from the evidence at first, then from what like pages gave."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.expectation import MAX_DOCUMENTS, MAX_TOKENS, TOKENS_PER_CHAR, Expectation
from pipeline.page import SizedPage

from .samples import a_page

inks = st.none() | st.floats(0, 1e7)
layers = st.none() | st.integers(0, 10**7)


def a_page_with(
    ink: float | None = 1000.0, layer: int | None = None, *, document: str = "d", index: int = 0, length: int = 3871
) -> SizedPage:
    page = replace(a_page(index), document_id=document)
    return SizedPage(page, 1664, 2336, 1, 200.0, 0, length, ink_chars=ink, layer_chars=layer)


pages = st.builds(
    a_page_with, inks, layers, document=st.sampled_from("abc"), index=st.integers(0, 9), length=st.integers(0, 10**7)
)
tells = st.lists(st.tuples(pages, st.integers(0, 10**7)), max_size=60)


def told(pairs: list[tuple[SizedPage, int]]) -> Expectation:
    expectation = Expectation()
    for sized, tokens in pairs:
        expectation.tell(sized, tokens)
    return expectation


@given(tells, pages)
def test_an_expectation_is_a_number_of_tokens_whatever_was_told(pairs: list[tuple[SizedPage, int]], sized: SizedPage):
    assert 1 <= told(pairs).of(sized) <= MAX_TOKENS


@given(tells, pages)
def test_the_same_pages_in_the_same_order_give_the_same_expectation(
    pairs: list[tuple[SizedPage, int]], sized: SizedPage
):
    assert told(pairs).of(sized) == told(pairs).of(sized)


@given(tells, pages)
def test_to_ask_changes_nothing(pairs: list[tuple[SizedPage, int]], sized: SizedPage):
    expectation = told(pairs)
    assert expectation.of(sized) == expectation.of(sized)
    assert expectation == told(pairs)


@given(st.floats(0, 1e7), st.floats(0, 1e7), layers)
def test_more_ink_is_expected_to_give_no_less_before_anything_was_told(one: float, other: float, layer: int | None):
    less, more = sorted((one, other))
    assert Expectation().of(a_page_with(less, layer)) <= Expectation().of(a_page_with(more, layer))


@given(st.floats(10, 1e6))
def test_before_anything_was_told_twice_the_ink_is_twice_the_answer(ink: float):
    assert Expectation().of(a_page_with(2 * ink)) == pytest.approx(2 * Expectation().of(a_page_with(ink)))


@pytest.mark.parametrize(
    ("ink", "layer", "chars"),
    [(1000, None, 1000), (1000, 600, 600), (1000, 30, 1000), (None, 600, 600), (50, 600, 600)],
)
def test_a_text_of_its_own_counts_unless_more_than_twice_as_much_is_printed(
    ink: float | None, layer: int | None, chars: int
):
    assert Expectation().of(a_page_with(ink, layer)) == pytest.approx(chars * TOKENS_PER_CHAR)


def test_of_a_page_that_nobody_looked_at_the_length_counts():
    small, large = (Expectation().of(a_page_with(None, length=length)) for length in (1000, 4000))
    assert large == pytest.approx(4 * small)


@given(st.integers(1, 8192), st.floats(10, 20_000), st.booleans())
def test_what_is_expected_comes_to_what_like_pages_gave(tokens: int, ink: float, of_one_document: bool):
    pairs = [(a_page_with(ink, document="d" if of_one_document else str(n)), tokens) for n in range(600)]
    found = told(pairs).of(a_page_with(ink, document="d" if of_one_document else "another"))
    assert abs(math.log(found / tokens)) < 0.1


def test_pages_of_much_and_of_little_ink_are_learnt_apart():
    pairs = [
        (a_page_with(ink, document=str(n)), tokens) for n in range(200) for ink, tokens in ((300, 20), (3000, 900))
    ]
    expectation = told(pairs)
    assert expectation.of(a_page_with(300, document="new")) == pytest.approx(20, rel=0.1)
    assert expectation.of(a_page_with(3000, document="new")) == pytest.approx(900, rel=0.1)


def test_a_document_of_long_answers_is_known_after_a_few_of_its_pages_and_others_are_not_taken_for_it():
    pairs = [(a_page_with(document=str(n)), 300) for n in range(200)] + [(a_page_with(document="long"), 900)] * 3
    expectation = told(pairs)
    assert 650 < expectation.of(a_page_with(document="long")) < 1000
    assert expectation.of(a_page_with(document="new")) == pytest.approx(300, rel=0.1)


@given(st.integers(0, 10**7), st.integers(1, 50))
def test_after_a_page_that_went_wild_the_order_of_magnitude_is_right(wild: int, before: int):
    pairs = [(a_page_with(document=str(n)), 300) for n in range(before)] + [(a_page_with(document="d"), wild)]
    expectation = told(pairs)
    assert 100 < expectation.of(a_page_with(document="new")) < 1000
    assert 30 < expectation.of(a_page_with(document="d")) < 3000


def test_memory_is_bounded_whatever_the_number_of_documents():
    expectation = Expectation()
    for n in range(MAX_DOCUMENTS + 500):
        expectation.tell(a_page_with(1.5 ** (n % 50), n % 7 * 10**5, document=str(n), length=n**2), n)
    assert MAX_DOCUMENTS < expectation.num_remembered <= MAX_DOCUMENTS + 96


def test_the_document_that_was_told_of_last_is_remembered_and_the_first_is_forgotten():
    expectation = told([(a_page_with(document=str(n)), 300) for n in range(MAX_DOCUMENTS)])
    for document in ("kept", "gone"):
        expectation.tell(a_page_with(document=document), 900)
    for n in range(MAX_DOCUMENTS - 1):
        expectation.tell(a_page_with(document=f"later {n}"), 300)
        if n == MAX_DOCUMENTS // 2:
            expectation.tell(a_page_with(document="kept"), 900)
    usual = expectation.of(a_page_with(document="new"))
    assert expectation.of(a_page_with(document="gone")) == usual
    assert expectation.of(a_page_with(document="kept")) > 1.5 * usual
