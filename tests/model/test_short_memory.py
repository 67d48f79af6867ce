"""When a device has no memory: no page is lost, no text changes, and what did not fit is not tried again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from pipeline.engines.generated import Decoding, Generated  # noqa: E402
from pipeline.engines.hunyuan import slots  # noqa: E402
from pipeline.engines.hunyuan.continuous import ContinuousReader, Pace  # noqa: E402
from pipeline.engines.hunyuan.model import PageModel  # noqa: E402
from pipeline.engines.hunyuan.static import StaticReader  # noqa: E402
from tests.checkpoints.grid import GridPages  # noqa: E402
from tests.model.given import GREEDY, drive, readings, tokens  # noqa: E402
from tests.model.simulated_memory import NEVER, Memory  # noqa: E402

PENALIZED = Decoding(max_new_tokens=60, repetition_penalty=1.2)
SAMPLED = Decoding(60, 1.1, temperature=0.7, seed=5)


@pytest.fixture(autouse=True)
def _growing_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers outgrow their slots every few tokens, which happens every 1,024 otherwise."""
    monkeypatch.setattr(slots, "GROWTH_TOKENS", 8)
    monkeypatch.setattr(slots, "CAPACITY_STEP", 8)


@pytest.fixture(scope="module")
def pages() -> list[np.ndarray]:
    drawn = GridPages(31)
    return [drawn.page(lines, cells).pixels for lines, cells in ((1, 6), (2, 8), (1, 7), (3, 5), (1, 3), (2, 7))]


def run(
    model: PageModel, pages: Sequence[np.ndarray], memory: Memory, pace: Pace, decoding: Decoding = GREEDY
) -> tuple[ContinuousReader, list[Generated | Exception]]:
    reader = ContinuousReader(model, pace)
    with memory:
        found = drive(reader, readings(pages, decoding), most=5_000)
    return reader, [found[number] for number in range(len(pages))]


@pytest.fixture(scope="module")
def wanted(model: PageModel, pages: list[np.ndarray]) -> dict[Decoding, list[tuple[int, ...]]]:
    """What is read where there is memory."""
    found = {}
    for decoding in (GREEDY, PENALIZED, SAMPLED):
        done = drive(ContinuousReader(model, Pace(1)), readings(pages, decoding))
        found[decoding] = tokens(done[number] for number in range(len(pages)))
    return found


@pytest.fixture(scope="module")
def needed_bytes(model: PageModel, pages: list[np.ndarray]) -> tuple[int, int]:
    """What the page that needs most takes alone, and what all take together."""
    peaks = []
    for some, pace in (*(([page], Pace(1)) for page in pages), (pages, Pace(6, 6))):
        memory = Memory()
        run(model, some, memory, pace)
        peaks.append(memory.peak_bytes)
    return max(peaks[:-1]), peaks[-1]


SHARES = (1.0, 0.7, 0.4, 0.2, 0.1, 0.05, 0.0)


@pytest.mark.parametrize("share", SHARES)
def test_all_pages_are_read_down_to_the_memory_that_one_needs_alone(
    model: PageModel, pages: list[np.ndarray], wanted: Any, needed_bytes: tuple[int, int], share: float
):
    least, most = needed_bytes
    assert most > 2.5 * least
    memory = Memory(least + int(share * (most - least)))
    reader, found = run(model, pages, memory, Pace(6, 6, steps_per_look=1 + 3 * (share < 0.5)))
    assert tokens(found) == wanted[GREEDY]
    assert memory.peak_bytes <= memory.capacity_bytes
    assert reader.clock.oom_splits == memory.num_refused
    assert (memory.num_refused > 0) == (share < 0.8), "else nothing was tried here"


def test_what_did_not_fit_lowers_the_ceiling_and_is_not_tried_again(
    model: PageModel, pages: list[np.ndarray], needed_bytes: tuple[int, int]
):
    least, _ = needed_bytes
    like = [pages[0]] * 12
    length = len(model.prompt_tokens(model.patches(torch.from_numpy(pages[0]))))
    memory = Memory(least)
    reader, _ = run(model, like, memory, Pace(6, 6))
    first = reader.clock.oom_splits
    assert first > 0
    assert reader.ceiling(length) < 6
    assert reader.ceiling(100 * length) == 6, "other buckets have their own"
    with memory:
        drive(reader, readings(like))
    assert reader.clock.oom_splits - first <= first // 2


def test_a_page_for_which_there_is_no_memory_at_all_ends_with_the_error_and_others_are_read(
    model: PageModel, pages: list[np.ndarray], wanted: Any, needed_bytes: tuple[int, int]
):
    for share in (0.8, 0.5, 0.2, 0.01):
        _, found = run(model, pages, Memory(int(share * needed_bytes[0])), Pace(6, 6))
        fitted = [isinstance(result, Generated) for result in found]
        assert not all(fitted)
        for number, result in enumerate(found):
            if fitted[number]:
                assert result.tokens == wanted[GREEDY][number]
            else:
                assert isinstance(result, torch.OutOfMemoryError)
                assert result.__traceback__ is None, "a traceback would keep the tensors of what failed"


@pytest.mark.parametrize(
    ("decoding", "steps"),
    [(GREEDY, 1), (PENALIZED, 4), (SAMPLED, 4)],
    ids=["greedily", "with a penalty", "by sampling"],
)
def test_any_allocation_may_fail_once_and_no_text_changes(
    model: PageModel, pages: list[np.ndarray], wanted: Any, decoding: Decoding, steps: int
):
    whole = Memory()
    run(model, pages, whole, Pace(4, 3, steps), decoding)
    dice = np.random.default_rng(steps)
    for fail_at in dice.choice(whole.num_allocated, 6, replace=False) + 1:
        memory = Memory(fail_at=int(fail_at))
        reader, found = run(model, pages, memory, Pace(4, 3, steps), decoding)
        assert tokens(found) == wanted[decoding], f"allocation {fail_at} of {whole.num_allocated}"
        assert reader.clock.oom_splits == memory.num_refused == 1


def test_fixed_batches_are_halved_and_all_pages_read(
    model: PageModel, pages: list[np.ndarray], wanted: Any, needed_bytes: tuple[int, int]
):
    memory, reader = Memory(), StaticReader(model, 6)
    with memory:
        drive(reader, readings(pages))
    reader = StaticReader(model, 6)
    with Memory(memory.peak_bytes // 2):
        found = drive(reader, readings(pages))
    assert tokens(found[number] for number in range(len(pages))) == wanted[GREEDY]
    assert reader.clock.oom_splits > 0


def test_the_simulated_memory_counts_what_lives_and_frees_what_died():
    with Memory() as memory:
        one = torch.zeros(1000)
        two = one + 1
        view = two[10:]
        assert memory.live_bytes == 8000
        del two
        assert memory.live_bytes == 8000, "a view keeps its storage"
        del view
        assert memory.live_bytes == 4000
        with memory.peak() as peak:
            torch.nn.functional.softmax(one * 2 + 1, -1).sum()
        assert peak == [8000]
    assert memory.capacity_bytes == NEVER
