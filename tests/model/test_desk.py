"""The desk: batches of several threads are read together, each page is told of once, trouble reaches whom it must."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from pipeline.engines.generated import Decoding, Generated  # noqa: E402
from pipeline.engines.hunyuan.continuous import ContinuousReader, Pace  # noqa: E402
from pipeline.engines.hunyuan.desk import Desk, Work  # noqa: E402
from pipeline.engines.hunyuan.model import PageModel  # noqa: E402
from pipeline.engines.hunyuan.rows import Clock, Ended, Reading  # noqa: E402
from pipeline.engines.ladder import Kept, Step  # noqa: E402
from pipeline.errors import DeviceOutOfMemoryError, EngineBrokenError  # noqa: E402
from pipeline.page import Raster  # noqa: E402
from pipeline.result import Effort, Finish, PageRead, Recognition  # noqa: E402
from tests.model.given import GREEDY, Sheet, raster  # noqa: E402


def nobody(*_: Any) -> Any:
    raise NotImplementedError


class ScriptedReader:
    """Answers the page whose first pixel is n with the token n, one page at a time, unless `trouble` raises for it."""

    def __init__(self, trouble: Callable[[int], None] = lambda _: None, reset: Callable[[], None] = lambda: None):
        self.clock, self._trouble, self._on_reset, self.waiting = Clock(), trouble, reset, list[Reading]()

    @property
    def is_idle(self) -> bool:
        return not self.waiting

    @property
    def owners(self) -> list[object]:
        return []

    def add(self, readings: Sequence[Reading]) -> None:
        self.waiting += readings

    def reset(self) -> None:
        self.waiting = []
        self._on_reset()

    def advance(self) -> list[Ended]:
        number = int(self.waiting[0].pixels.flat[0])
        self._trouble(number)
        self.clock.decode_s += 1.0
        self.clock.slots += 4
        self.clock.idle += 1
        finite = number < 200 or self.waiting[0].decoding.temperature > 0
        answer = Generated((number,), (-0.5,), Finish.STOP, is_finite=finite)
        return [Ended(self.waiting.pop(0), answer)]


def recognized(_: Raster, kept: Kept) -> Recognition:
    return Recognition(str(kept.answer.tokens[0]), note=kept.note)


def work(wide: Callable[[], Any] = nobody, translate: Any = lambda error: error, num_ladders: int = 1) -> Work:
    ladders = [[Step(f"ladder {number}", Decoding(9, temperature=float(number)))] for number in range(num_ladders)]
    return Work(ladders, wide, recognized, translate)


def page(number: int) -> Raster:
    return raster(np.full((2, 2), number, np.uint8))


def pages(*numbers: int) -> list[Raster]:
    return [page(number) for number in numbers]


def texts(told: Sequence[PageRead | Effort]) -> dict[int, Any]:
    return {one.position: getattr(one.result, "text", one.result) for one in told if isinstance(one, PageRead)}


def test_batches_of_several_threads_are_read_together_and_each_page_is_told_of_once(
    model: PageModel, sheets: list[Sheet]
):
    ladders = [[Step("as asked", GREEDY)]]
    tell = Work(ladders, nobody, lambda _, kept: Recognition(model.decode(kept.answer.tokens)), lambda error: error)
    desk, told = Desk(ContinuousReader(model, Pace(6)), tell), dict[int, list[Any]]()
    batches = [sheets[first : first + 7] for first in range(0, 42, 7)]

    def bring(number: int) -> None:
        told[number] = list(desk.read([raster(sheet.pixels) for sheet in batches[number]]))

    threads = [threading.Thread(target=bring, args=(number,)) for number in range(len(batches))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, batch in enumerate(batches):
        assert texts(told[number]) == {at: model.decode(sheet.alone.tokens) for at, sheet in enumerate(batch)}
        assert sorted(one.position for one in told[number][:-1]) == list(range(len(batch)))
        effort = told[number][-1]
        assert 0 <= effort.idle_ratio < 1
        assert effort.timings.decode_s > 0
        assert effort.timings.prefill_s > 0
        assert effort.oom_splits == 0


def test_what_a_piece_of_work_took_is_charged_once():
    desk = Desk(ScriptedReader(), work())
    told = list(desk.read(pages(1, 2, 3)))
    assert told[-1].timings.decode_s == 3.0
    assert told[-1].idle_ratio == 0.25
    again = list(desk.read(pages(4)))
    assert again[-1].timings.decode_s == 1.0


def test_a_batch_without_pages_is_told_at_once_and_forgotten():
    desk = Desk(ScriptedReader(), work())
    assert [type(told) for told in desk.read([])] == [Effort]
    assert texts(list(desk.read(pages(5)))) == {0: "5"}
    assert not desk._open


def test_an_error_of_the_reader_reaches_all_batches_at_the_desk_and_the_next_one_is_read():
    begun, gate = threading.Event(), threading.Event()

    def trouble(number: int) -> None:
        if number == 6:
            begun.set()
            gate.wait(10)
        if number == 7:
            raise RuntimeError("a kernel that is not there")

    desk, errors = Desk(ScriptedReader(trouble), work()), list[Exception]()

    def bring(*numbers: int) -> None:
        try:
            list(desk.read(pages(*numbers)))
        except RuntimeError as error:
            errors.append(error)

    threads = [threading.Thread(target=bring, args=numbers) for numbers in ((6, 7), (1, 2))]
    threads[0].start()
    assert begun.wait(10)
    threads[1].start()
    while desk._inbox.empty():
        assert threads[1].is_alive()
    gate.set()
    for thread in threads:
        thread.join(10)
    assert [str(error) for error in errors] == ["a kernel that is not there"] * 2
    assert texts(list(desk.read(pages(8, 9)))) == {0: "8", 1: "9"}


@pytest.mark.parametrize("is_the_pages", [True, False], ids=["told of a page", "raised"])
def test_once_the_device_is_broken_every_batch_is_refused(is_the_pages: bool):
    class Breaking(ScriptedReader):
        def advance(self) -> list[Ended]:
            if is_the_pages:
                return [Ended(self.waiting.pop(0), EngineBrokenError("device-side assert"))]
            raise EngineBrokenError("device-side assert")

    desk = Desk(Breaking(), work())
    for _ in range(3):
        with pytest.raises(EngineBrokenError, match="device-side assert"):
            list(desk.read(pages(1, 2)))


def test_a_device_that_cannot_even_be_reset_is_broken_and_nobody_waits_for_ever():
    def fail(*_: Any) -> None:
        raise RuntimeError("sticky")

    desk = Desk(ScriptedReader(fail, fail), work())
    for _ in range(2):
        with pytest.raises(EngineBrokenError, match="sticky"):
            list(desk.read(pages(1)))


def test_where_the_wider_model_cannot_be_loaded_only_the_page_that_needs_it_fails():
    def no_room() -> Any:
        raise DeviceOutOfMemoryError("no room for the model once more")

    told = list(Desk(ScriptedReader(), work(no_room, num_ladders=2)).read(pages(1, 250, 3)))
    found = texts(told)
    assert (found[0], found[2]) == ("1", "3")
    assert isinstance(found[1], DeviceOutOfMemoryError)


def test_a_page_whose_numbers_are_not_finite_is_read_by_the_wider_reader():
    made = []

    def wide() -> Any:
        made.append(1)
        return ScriptedReader()

    told = list(Desk(ScriptedReader(), work(wide, num_ladders=2)).read(pages(1, 250, 251)))
    assert texts(told) == {0: "1", 1: "250", 2: "251"}
    assert [told.result.note for told in sorted(told[:-1], key=lambda one: one.position)] == [
        None,
        *["logits were not finite, read again ladder 1"] * 2,
    ]
    assert made == [1], "it is made once"


ABSURD = {
    "four axes": np.zeros((1, 32, 32, 3), np.uint8),
    "five channels": np.zeros((32, 32, 5), np.uint8),
    "no rows": np.zeros((0, 32), np.uint8),
    "texts": np.full((32, 32), "x"),
}


@pytest.mark.parametrize("absurd", ABSURD.values(), ids=ABSURD)
def test_a_raster_of_an_absurd_shape_fails_alone(model: PageModel, sheets: list[Sheet], absurd: np.ndarray):
    tell = Work(
        [[Step("as asked", GREEDY)]],
        nobody,
        lambda _, kept: Recognition(model.decode(kept.answer.tokens)),
        lambda error: error,
    )
    desk = Desk(ContinuousReader(model, Pace(4)), tell)
    bad = Raster(raster(np.zeros((32, 32), np.uint8)).sized, absurd)
    batch = [raster(sheets[0].pixels), bad, raster(sheets[1].pixels)]
    found = texts(list(desk.read(batch)))
    assert isinstance(found[1], Exception)
    assert [found[0], found[2]] == [model.decode(sheet.alone.tokens) for sheet in sheets[:2]]


@pytest.mark.parametrize("shape", [(1, 1), (1, 1, 3), (33, 31), (40, 700)])
def test_a_raster_of_any_size_becomes_whole_cells(model: PageModel, shape: tuple[int, ...]):
    patches = model.patches(torch.full(shape, 255, dtype=torch.uint8))
    assert (patches.rows, patches.columns) == tuple(2 * max(1, round(side / 32)) for side in shape[:2])
    assert patches.values.shape == (patches.rows * patches.columns, 3 * 16 * 16)
