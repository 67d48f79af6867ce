"""A page's text depends neither on its row, nor on the pages beside it, nor on how many they are (float32, to 1e-4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from pipeline.engines.generated import Decoding  # noqa: E402
from pipeline.engines.hunyuan.cache import KeyValueCache  # noqa: E402
from pipeline.engines.hunyuan.continuous import ContinuousReader, Pace  # noqa: E402
from pipeline.engines.hunyuan.model import PageModel, Prompt  # noqa: E402
from pipeline.engines.hunyuan.static import StaticReader  # noqa: E402
from tests.model.given import GREEDY, SEED, Sheet, drive, read, readings, tokens  # noqa: E402

SAME = 1e-4
"""Logits of the tiny model are of the order of ten; float32 moves them by some millionths."""

PENALIZED = Decoding(max_new_tokens=60, repetition_penalty=1.08)


def shuffled(count: int, seed: int) -> list[int]:
    return np.random.default_rng(seed).permutation(count).tolist()


def expect_alike(found: dict[Any, Any], sheets: Sequence[Sheet], numbers: Iterable[int]) -> None:
    assert sorted(found) == sorted(numbers)
    for number, result in found.items():
        alone = sheets[number].alone
        assert (result.tokens, result.finish) == (alone.tokens, alone.finish)
        assert result.logprobs == pytest.approx(alone.logprobs, abs=SAME)


def test_pages_of_the_trial_differ_in_size_and_text(sheets: list[Sheet]):
    assert len({sheet.pixels.shape for sheet in sheets}) > 20
    assert len({sheet.alone.tokens for sheet in sheets}) > 190
    assert len({len(sheet.alone.tokens) for sheet in sheets}) > 20


@pytest.mark.parametrize(("num_slots", "steps"), [(8, 1), (16, 4)])
def test_200_pages_read_the_same_over_slots_in_shuffled_company(
    model: PageModel, sheets: list[Sheet], num_slots: int, steps: int
):
    order = shuffled(len(sheets), num_slots)
    reader = ContinuousReader(model, Pace(num_slots, steps_per_look=steps))
    expect_alike(drive(reader, readings([sheet.pixels for sheet in sheets], GREEDY, order)), sheets, order)


@pytest.mark.parametrize("num_slots", range(2, 16))
def test_pages_read_the_same_over_any_number_of_slots(model: PageModel, sheets: list[Sheet], num_slots: int):
    order = shuffled(len(sheets), num_slots)[: 10 + num_slots]
    reader = ContinuousReader(model, Pace(num_slots, 1 + num_slots // 2, steps_per_look=4 if num_slots % 2 else 1))
    expect_alike(drive(reader, readings([sheet.pixels for sheet in sheets], GREEDY, order)), sheets, order)


def test_200_pages_read_the_same_in_fixed_batches_by_generate(model: PageModel, sheets: list[Sheet]):
    order = shuffled(len(sheets), 0)
    reader = StaticReader(model, 16)
    expect_alike(drive(reader, readings([sheet.pixels for sheet in sheets], GREEDY, order)), sheets, order)


@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_pages_read_the_same_in_fixed_batches_of_any_size(model: PageModel, sheets: list[Sheet], batch_size: int):
    order = shuffled(len(sheets), batch_size)[: 4 + 3 * batch_size]
    reader = StaticReader(model, batch_size)
    expect_alike(drive(reader, readings([sheet.pixels for sheet in sheets], GREEDY, order)), sheets, order)


def test_a_page_reads_the_same_in_every_row(model: PageModel, sheets: list[Sheet]):
    for start in range(0, 24, 8):
        company = sheets[start : start + 8]
        for shift in range(8):
            turned = [*company[shift:], *company[:shift]]
            results = read(model, [sheet.pixels for sheet in turned], num_slots=8)
            assert tokens(results) == [sheet.alone.tokens for sheet in turned]


@pytest.mark.parametrize(
    "decoding", [PENALIZED, Decoding(60, 1.1, temperature=0.7, seed=5)], ids=["with a penalty", "by sampling"]
)
def test_other_ways_of_choosing_do_not_depend_on_company_either(
    model: PageModel, sheets: list[Sheet], decoding: Decoding
):
    pages = [sheet.pixels for sheet in sheets[:40]]
    alone = read(model, pages, decoding, num_slots=1)
    for num_slots, steps in ((7, 1), (16, 4)):
        order = shuffled(len(pages), num_slots)
        reader = ContinuousReader(model, Pace(num_slots, steps_per_look=steps))
        found = drive(reader, readings(pages, decoding, order))
        assert [found[number].tokens for number in range(len(pages))] == tokens(alone)


def test_fixed_batches_and_slots_penalize_alike(model: PageModel, sheets: list[Sheet]):
    pages = [sheet.pixels for sheet in sheets[:40]]
    found = drive(StaticReader(model, 8), readings(pages, PENALIZED))
    assert [found[number].tokens for number in range(len(pages))] == tokens(read(model, pages, PENALIZED))


def test_pages_that_are_read_in_different_ways_share_slots(model: PageModel, sheets: list[Sheet]):
    """A page with a penalty, one that draws lots and a plain one, side by side."""
    ways = [GREEDY, PENALIZED, Decoding(60, 1.1, temperature=0.7, seed=5)]
    pages = [sheet.pixels for sheet in sheets[:12]]
    alone = [read(model, [page], ways[number % 3])[0].tokens for number, page in enumerate(pages)]
    mixed = [readings(pages, ways[number % 3])[number] for number in range(len(pages))]
    found = drive(ContinuousReader(model, Pace(6)), mixed)
    assert [found[number].tokens for number in range(len(pages))] == alone


def logits_of(model: PageModel, prompts: Sequence[Prompt], shown: Sequence[Sequence[int]], first: int = 0) -> Any:
    """Logits after each prompt and after each of the tokens shown then: (tokens, rows, vocabulary)."""
    decoder, rows = model.decoder, first + len(prompts)
    capacity = max(map(len, prompts)) + len(shown[0]) + 1
    cache = KeyValueCache(decoder.cache_shape, num_slots=rows, capacity=capacity, device=model.device)
    places = [prompt.places for prompt in prompts]
    found = [decoder.prefill(cache, [prompt.embedded for prompt in prompts], places, first)]
    for number, step in enumerate(zip(*shown, strict=True)):
        told = torch.tensor([0] * first + list(step))
        positions = torch.tensor([0] * first + [len(prompt) + number for prompt in prompts])
        found.append(decoder.step(cache, told, positions, int(positions.max()) + 1)[first:])
    return torch.stack(found)


@torch.inference_mode()
def test_logits_are_those_of_the_page_alone_to_a_ten_thousandth(model: PageModel, sheets: list[Sheet]):
    dice, num_steps = np.random.default_rng(SEED), 6
    long = [number for number, sheet in enumerate(sheets) if len(sheet.alone.tokens) >= num_steps]
    for _ in range(12):
        chosen = dice.choice(long, dice.integers(2, 17), replace=False)
        pages = [model.patches(torch.from_numpy(sheets[number].pixels)) for number in chosen]
        shown = [sheets[number].alone.tokens[:num_steps] for number in chosen]
        together = logits_of(model, model.prompts(pages), shown, first=int(dice.integers(3)))
        for row, page in enumerate(pages):
            alone = logits_of(model, model.prompts([page]), [shown[row]])[:, 0]
            assert (together[:, row] - alone).abs().max() < SAME
            assert alone.std(dim=-1).min() > 1e3 * SAME, "logits that hardly differ would prove nothing"
