"""float16 where it overflows: refused at the start if the built-in page shows it, else page by page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from pipeline.engines.hunyuan import selftest  # noqa: E402
from pipeline.engines.hunyuan.engine import HunyuanEngine  # noqa: E402
from pipeline.engines.hunyuan.model import PageModel, Prompt  # noqa: E402
from pipeline.engines.hunyuan.options import HunyuanOptions  # noqa: E402
from pipeline.result import Recognition  # noqa: E402
from tests.model.given import TINY, Sheet, changed, loader, raster, read  # noqa: E402

UP = "model.layers.1.mlp.up_proj.weight"
DOWN = "model.layers.1.mlp.down_proj.weight"
MOST = 65_504.0


NOISY = (2, 3, 9, 14)
"""Which pages are noise."""


@pytest.fixture(scope="module")
def pages(sheets: list[Sheet]) -> list[np.ndarray]:
    """Grid pages, and among them four of noise."""
    dice = np.random.default_rng(8)
    noise = [dice.integers(0, 256, (64, 32 * cells), np.uint8) for cells in (3, 5, 4, 6)]
    found = [sheet.pixels for sheet in sheets[:20]]
    for place, page in zip(NOISY, noise, strict=True):
        found.insert(place, page)
    return found


@pytest.fixture(scope="module")
def alone(model: PageModel, pages: list[np.ndarray]) -> list[Any]:
    return read(model, pages, num_slots=1)


@pytest.fixture(scope="module")
def heights(model: PageModel, pages: list[np.ndarray]) -> tuple[Any, Any]:
    """The largest number in each channel that `scaled` scales, on each page and in the self-test."""
    mlp, seen = model.model.model.language_model.layers[1].mlp, list[Any]()
    hooks = [
        mlp.down_proj.register_forward_pre_hook(lambda _, given: seen.append(given[0].abs().flatten(0, -2).amax(0))),
        mlp.up_proj.register_forward_hook(lambda _, __, made: seen.append(made.abs().flatten(0, -2).amax(0))),
    ]
    found = []
    for page in pages:
        seen.clear()
        read(model, [page], num_slots=1)
        found.append(torch.stack(seen).amax(0))
    seen.clear()
    selftest.fault(model, selftest.page(), selftest.expect(model, selftest.page()))
    for hook in hooks:
        hook.remove()
    return torch.stack(found), torch.stack(seen).amax(0)


def scaled(folder: Path, channels: Any, factor: float) -> Path:
    """The same function in float32, but products in these channels are so many times as large."""

    def change(weights: dict[str, Any]) -> None:
        weights[UP][channels] *= factor
        weights[DOWN][:, channels] /= factor

    return changed(TINY, folder, change)


@pytest.fixture(scope="module")
def always(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Overflows on every page."""
    return scaled(tmp_path_factory.mktemp("always") / "model", slice(None), 2.0**17)


@pytest.fixture(scope="module")
def sometimes(tmp_path_factory: pytest.TempPathFactory, heights: tuple[Any, Any]) -> tuple[Path, set[int]]:
    """Overflows on some pages, which are named, and not on the page of the self-test."""
    by_page, on_own = heights
    ordered = by_page.sort(0, descending=True).values
    gaps = torch.stack([ordered[hot - 1] / torch.maximum(ordered[hot], on_own) for hot in range(2, 7)])
    row, channel = divmod(int(gaps.argmax()), gaps.shape[1])
    assert gaps[row, channel] > 1.2, "no channel tells the pages apart"
    middle = ordered[row + 1, channel] / gaps[row, channel].sqrt()
    folder = scaled(tmp_path_factory.mktemp("sometimes") / "model", channel, float(MOST / middle))
    return folder, set((by_page[:, channel] > middle).nonzero().flatten().tolist())


def engine(folder: Path, **options: Any) -> HunyuanEngine:
    told = HunyuanOptions(str(folder), task="text", language="en", precision="fp16", device="cpu", max_new_tokens=60)
    return HunyuanEngine(replace(told, **options))


def recognitions(engine: HunyuanEngine, pages: Sequence[np.ndarray]) -> tuple[Recognition, ...]:
    return engine.recognize([raster(page, number) for number, page in enumerate(pages)]).pages


def test_a_checkpoint_that_float16_can_hold_is_run_in_it(model: PageModel, sheets: list[Sheet]):
    reader = engine(TINY)
    assert (reader.precision, reader.notice) == ("fp16", None)
    right = [
        result.text == model.decode(sheet.alone.tokens)
        for result, sheet in zip(
            recognitions(reader, [sheet.pixels for sheet in sheets[:24]]), sheets[:24], strict=True
        )
    ]
    assert sum(right) >= 23, "one page may turn on a tie"


def test_a_checkpoint_that_overflows_is_refused_float16_in_one_line(
    always: Path, model: PageModel, sheets: list[Sheet]
):
    reader = engine(always)
    assert reader.precision == "fp32"
    assert reader.notice == (
        "float16 failed the self-test: its numbers are not finite (alone); float32 is used instead"
    )
    (page,) = recognitions(reader, [sheets[0].pixels])
    assert (page.text, page.tries, page.note) == (model.decode(sheets[0].alone.tokens), 1, None)


@pytest.mark.parametrize("decode", ["continuous", "static"])
def test_a_page_that_overflows_is_read_again_in_float32_and_its_neighbours_are_not(
    sometimes: tuple[Path, set[int]], model: PageModel, pages: list[np.ndarray], alone: list[Any], decode: str
):
    folder, hot = sometimes
    assert 2 <= len(hot) <= 6
    reader = engine(folder, decode=decode, slots=3)
    assert reader.precision == "fp16", reader.notice
    # What is read of noise turns on ties, and float16 may go another way, to numbers that nobody has looked at.
    read_here = [number for number in range(len(pages)) if number in hot or number not in NOISY]
    for number, page in zip(read_here, recognitions(reader, [pages[n] for n in read_here]), strict=True):
        if number in hot:
            assert page.note == "logits were not finite, read again in float32"
            assert (page.tries, page.finish_reason) == (2, alone[number].finish)
            assert page.text == model.decode(alone[number].tokens)
        else:
            assert (page.tries, page.note) == (1, None), f"page {number} caught it from a neighbour"


@pytest.fixture(scope="module")
def expected(model: PageModel) -> selftest.Expectation:
    return selftest.expect(model, selftest.page())


@pytest.fixture
def _misplaced(model: PageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row counts as the number of the image, as in transformers 5.24, and strongly."""
    plain = type(model).prompts

    def by_row(self: PageModel, patches: Sequence[Any]) -> list[Prompt]:
        found = plain(self, patches)
        for row, prompt in enumerate(found):
            image = prompt.tokens == self.config.image_token_id
            prompt.places[-1, image] += 40 * row
        return found

    monkeypatch.setattr(type(model), "prompts", by_row)


def test_the_self_test_is_content_with_float32(model: PageModel, expected: selftest.Expectation):
    assert selftest.fault(model, selftest.page(), expected) is None
    assert sum(expected.sure) >= 8, "a model that is sure of nothing cannot be told wrong"


@pytest.mark.usefixtures("_misplaced")
def test_the_self_test_finds_what_only_a_late_row_gets_wrong(model: PageModel, expected: selftest.Expectation):
    fault = selftest.fault(model, selftest.page(), expected)
    assert fault is not None
    assert "in a late row of a batch" in fault


def test_precisions_to_fall_back_on_end_with_float32():
    assert loader().wider("fp16") == ["fp32"], "bfloat16 is for GPUs"
    assert loader().wider("bf16") == ["fp32"]
    assert loader().wider("fp32") == []


@pytest.mark.parametrize("steps", [1, 4])
def test_what_was_not_finite_stays_in_its_page_and_infects_no_later_one_in_its_slot(
    model: PageModel, sheets: list[Sheet], monkeypatch: pytest.MonkeyPatch, steps: int
):
    """Keys and values beyond a row's position are masked, but nothing times not-a-number is not nothing."""
    by_size = sorted(sheets, key=lambda sheet: -sheet.pixels.size)
    company = [by_size[0], *by_size[-6:]]
    largest, plain = by_size[0].pixels.size, type(model).prompts

    def poisoned(self: PageModel, patches: Sequence[Any]) -> list[Prompt]:
        found = plain(self, patches)
        for page, prompt in zip(patches, found, strict=True):
            if page.rows * page.columns * 256 == largest:
                prompt.embedded[1:] = float("inf")
        return found

    monkeypatch.setattr(type(model), "prompts", poisoned)
    pages = [sheet.pixels for sheet in company]
    first, *others = read(model, pages, num_slots=2, vision_pages=2, steps_per_look=steps)
    assert not first.is_finite
    assert [other.tokens for other in others] == [sheet.alone.tokens for sheet in company[1:]]
    assert all(other.is_finite for other in others)


def test_what_fills_a_shorter_prompt_may_overflow_and_no_page_is_altered(
    model: PageModel, sheets: list[Sheet], overflowing_filler: list[int]
):
    company = [sheets[number] for number in range(12)]
    found = read(model, [sheet.pixels for sheet in company], num_slots=4, vision_pages=12)
    assert all(one.is_finite for one in found)
    assert [one.tokens for one in found] == [sheet.alone.tokens for sheet in company]
    assert sum(overflowing_filler) > 0, "no prompt was filled up"


@pytest.fixture
def overflowing_filler(model: PageModel, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Whatever stands behind the end of a prompt comes to infinity in every layer; how many numbers did, each time."""
    decoder, lengths, spoiled = model.decoder, list[int](), list[int]()
    plain_prefill, plain_after = decoder.prefill, decoder._after

    def prefill(cache: Any, prompts: Any, places: Any, first: int) -> Any:
        lengths[:] = map(len, prompts)
        result = plain_prefill(cache, prompts, places, first)
        lengths.clear()
        return result

    def after(layer: Any, hidden: Any, looked: Any) -> Any:
        result = plain_after(layer, hidden, looked)
        for row, length in enumerate(lengths):
            spoiled.append(result[row, length:].fill_(float("inf")).numel())
        return result

    monkeypatch.setattr(decoder, "prefill", prefill)
    monkeypatch.setattr(decoder, "_after", after)
    return spoiled
