"""How many slots fit: laws of the formula, whatever the model and the card."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engines.hunyuan.memory import PATCHES_PER_TOKEN, Card, ModelSize, largest_batch

REAL = ModelSize(
    weight_bytes=2_000_000_000,
    cache_token_bytes=96 * 1024,
    hidden=1024,
    intermediate=3584,
    attention=2048,
    key_value=1024,
    head=128,
    vision_hidden=1152,
    vision_intermediate=4304,
    vocabulary=120_818,
    item_bytes=2,
)
"""About HunyuanOCR 1.0 in FP16."""

widths = st.integers(1, 5000)
sizes = st.builds(
    ModelSize,
    **{field.name: widths for field in fields(ModelSize)} | {"weight_bytes": st.integers(0, 10**11)},
)
cards = st.builds(Card, st.integers(0, 2 * 10**11), st.integers(0, 10**11))
tokens = st.integers(1, 20_000)


def needed_bytes(size: ModelSize, slots: int, prompt: int, answer: int, pages: int) -> int:
    vision = size.vision_bytes(pages * prompt * PATCHES_PER_TOKEN)
    text = size.prompt_bytes(pages * prompt) + pages * prompt * size.hidden * size.item_bytes
    return size.weight_bytes + max(vision, text) + slots * size.slot_bytes(prompt + answer)


@given(sizes, cards, tokens, tokens, st.integers(1, 16))
def test_it_is_the_largest_number_that_fits_but_at_least_one(
    size: ModelSize, card: Card, prompt: int, answer: int, pages: int
):
    slots = largest_batch(size, card, prompt_tokens=prompt, answer_tokens=answer, vision_pages=pages)
    assert slots >= 1
    assert slots == 1 or needed_bytes(size, slots, prompt, answer, pages) <= card.usable_bytes
    assert needed_bytes(size, slots + 1, prompt, answer, pages) > card.usable_bytes


@given(sizes, cards, tokens, tokens, tokens)
def test_longer_pages_and_answers_and_smaller_cards_never_allow_more(
    size: ModelSize, card: Card, prompt: int, answer: int, more: int
):
    slots = largest_batch(size, card, prompt_tokens=prompt, answer_tokens=answer)
    assert largest_batch(size, card, prompt_tokens=prompt + more, answer_tokens=answer) <= slots
    assert largest_batch(size, card, prompt_tokens=prompt, answer_tokens=answer + more) <= slots
    tight = replace(card, held_by_others_bytes=card.held_by_others_bytes + more * 1000)
    assert largest_batch(size, tight, prompt_tokens=prompt, answer_tokens=answer) <= slots
    heavy = replace(size, weight_bytes=size.weight_bytes + more * 1000)
    assert largest_batch(heavy, card, prompt_tokens=prompt, answer_tokens=answer) <= slots


def test_a_tenth_of_the_card_is_never_planned_for():
    assert Card(1000).usable_bytes == 900
    assert Card(1000, 300).usable_bytes == 600
    assert Card(1000, 950).usable_bytes == 0


@pytest.mark.parametrize(("gigabytes", "least", "most"), [(8, 1, 10), (24, 15, 40), (141, 150, 300)])
def test_slots_for_a4_at_200_dpi_on_real_cards(gigabytes: int, least: int, most: int):
    card = Card(gigabytes * 10**9)
    slots = largest_batch(REAL, card, prompt_tokens=3900, answer_tokens=2048, vision_pages=8)
    assert least <= slots <= most
