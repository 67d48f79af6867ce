"""One batch in, one outcome a page out, whatever the engine does."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pipeline.step
from pipeline.batch import Batch
from pipeline.engines.fake import FakeEngine, FakeOptions
from pipeline.errors import DeviceBusyError, EngineBrokenError, EngineLostError, ErrorCode, MachineError
from pipeline.page import Raster
from pipeline.result import Answer, BatchOutcome, Effort, Recognition, Stage, Timings
from pipeline.step import Place, host_memory_bytes, step

from .samples import a_sized_page

HERE = Place("node", "cpu", "pid-1")


def _rasters(num_pages: int) -> list[Raster]:
    sized = [a_sized_page(index, length=100) for index in range(num_pages)]
    return [Raster(one, np.full((one.height_px, one.width_px), one.page.page_index, np.uint8)) for one in sized]


def _step(engine: Any, num_pages: int, attempt: int = 1) -> BatchOutcome:
    rasters = _rasters(num_pages)
    batch = Batch(100, tuple(raster.sized for raster in rasters), attempt)
    return step(engine, batch, rasters, place=HERE, submitted_at=datetime.now(UTC))


@dataclass(slots=True)
class Scripted:
    """An engine that does with a batch what the test says."""

    answer: Callable[[Sequence[Raster]], Any]
    sizes: list[int] = field(default_factory=list)

    def recognize(self, batch: Sequence[Raster]) -> Any:
        self.sizes.append(len(batch))
        return self.answer(batch)


def _texts(batch: Sequence[Raster]) -> tuple[Recognition, ...]:
    return tuple(Recognition(f"page {raster.sized.page.page_index}", output_tokens=2) for raster in batch)


some_pages = st.sets(st.integers(0, 19))


@given(st.integers(1, 20), some_pages, some_pages)
def test_there_is_one_outcome_a_page_in_order_and_only_the_page_at_fault_fails(
    num_pages: int, failing: set[int], dropped: set[int]
):
    options = FakeOptions(fail_pages=tuple(failing), drop_pages=tuple(dropped))
    outcome = _step(FakeEngine(options), num_pages)
    assert [page.sized.page.page_index for page in outcome.pages] == list(range(num_pages))
    for index, page in enumerate(outcome.pages):
        assert (page.recognition is None) == (index in failing | dropped)
        assert (page.failure is None) == (page.recognition is not None)
        if page.recognition is not None:
            assert page.recognition.text.startswith(f"page {index + 1} of ")
        elif page.failure is not None:
            expected = ErrorCode.ENGINE_ERROR if index in failing else ErrorCode.ENGINE_CONTRACT
            assert page.failure.code == expected
            assert page.failure.stage is Stage.RECOGNIZE


@given(st.integers(1, 64), st.integers(0, 63))
def test_one_bad_page_is_found_by_halving(num_pages: int, bad: int):
    engine = Scripted(lambda batch: 1 / 0 if bad in _indices(batch) else Answer(_texts(batch)))
    outcome = _step(engine, num_pages)
    is_there = bad < num_pages
    assert sum(page.failure is not None for page in outcome.pages) == int(is_there)
    assert len(engine.sizes) <= (1 + 2 * (num_pages - 1).bit_length() if is_there else 1)


def _indices(batch: Sequence[Raster]) -> list[int]:
    return [raster.sized.page.page_index for raster in batch]


def test_attempts_count_how_often_a_page_was_given_to_the_engine():
    outcome = _step(FakeEngine(FakeOptions(fail_pages=(0,))), 4, attempt=3)
    assert [page.attempts for page in outcome.pages] == [5, 5, 4, 4]


@pytest.mark.parametrize(
    "answer",
    [
        lambda batch: None,
        lambda batch: [],
        lambda batch: "text",
        lambda batch: Answer(()),
        lambda batch: Answer((*_texts(batch), Recognition("one too many"))),
        lambda batch: Answer((None,) * len(batch)),  # type: ignore[arg-type]
        lambda batch: Answer(("text",) * len(batch)),  # type: ignore[arg-type]
        lambda batch: Answer(None),  # type: ignore[arg-type]
        lambda batch: Answer((Recognition(None),) * len(batch)),  # type: ignore[arg-type]
    ],
)
def test_an_engine_that_answers_anything_else_breaks_its_contract_and_nothing_more(answer: Any):
    outcome = _step(Scripted(answer), 3)
    assert [page.failure.code for page in outcome.pages if page.failure] == [ErrorCode.ENGINE_CONTRACT] * 3
    assert all(page.recognition is None for page in outcome.pages)


def test_what_an_engine_says_when_it_raises_is_one_line():
    def raises(_batch: Sequence[Raster]) -> None:
        raise RuntimeError("CUDA error\n\n  at line 3\n" + "x" * 1000)

    (page,) = _step(Scripted(raises), 1).pages
    assert page.failure is not None
    assert page.failure.message.startswith("RuntimeError: CUDA error at line 3 xxx")
    assert len(page.failure.message) <= 500


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_a_process_is_not_taken_for_a_fault_of_a_page(error: type[BaseException]):
    def raises(_batch: Sequence[Raster]) -> None:
        raise error

    with pytest.raises(error):
        _step(Scripted(raises), 2)


def test_the_report_says_what_was_read_where_and_in_what_time():
    timings = Timings(preprocess_s=0.5, decode_s=2.0)
    outcome = _step(Scripted(lambda batch: Answer(_texts(batch), Effort(timings, idle_ratio=0.25))), 3)
    report = outcome.report
    assert (report.node, report.device, report.actor) == ("node", "cpu", "pid-1")
    assert len(report.batch.pages) == 3
    assert report.output_tokens == (2, 2, 2)
    assert report.timings == timings
    assert report.idle_ratio == 0.25
    assert report.total_s >= 0
    assert report.started_at <= report.finished_at


def test_times_of_a_batch_that_was_halved_add_up():
    def answer(batch: Sequence[Raster]) -> Answer:
        if len(batch) > 2:
            raise MemoryError
        return Answer(_texts(batch), Effort(Timings(decode_s=1.5), idle_ratio=0.5))

    report = _step(Scripted(answer), 4).report
    assert report.timings == Timings(decode_s=3.0)
    assert report.idle_ratio is None


def test_the_time_in_the_queue_is_never_negative():
    rasters = _rasters(1)
    batch = Batch(100, (rasters[0].sized,))
    engine = FakeEngine(FakeOptions())
    for offset_s, least, most in ((60, 0.0, 0.0), (-60, 60.0, 120.0)):
        submitted_at = datetime.now(UTC) + timedelta(seconds=offset_s)  # clocks of two machines differ
        report = step(engine, batch, rasters, place=HERE, submitted_at=submitted_at).report
        assert least <= report.queue_s <= most


def test_this_process_has_a_name_and_some_memory():
    assert Place.here("cuda:0") == Place(Place.here().node, "cuda:0", f"pid-{os.getpid()}")
    assert 1 << 20 < host_memory_bytes() < 1 << 40


def test_memory_is_told_where_there_is_no_proc(monkeypatch: pytest.MonkeyPatch):
    def fails(*arguments: Any, **options: Any) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(pipeline.step, "open", fails, raising=False)
    assert 1 << 20 < host_memory_bytes() < 1 << 40


@given(st.integers(1, 40), st.integers(1, 40))
def test_a_batch_too_large_for_the_device_is_halved_until_it_fits_and_no_page_fails(num_pages: int, most: int):
    outcome = _step(FakeEngine(FakeOptions(oom_above=most)), num_pages)
    assert [page.recognition is not None for page in outcome.pages] == [True] * num_pages
    assert (outcome.report.oom_splits > 0) == (num_pages > most)
    assert outcome.report.oom_splits <= num_pages - 1


def test_a_page_too_large_for_a_device_of_its_own_fails_alone():
    outcome = _step(FakeEngine(FakeOptions(oom_pages=(2,))), 4)
    codes = [page.failure and page.failure.code for page in outcome.pages]
    assert codes == [None, None, ErrorCode.OUT_OF_MEMORY, None]
    assert outcome.report.oom_splits == 2


def test_host_memory_that_one_page_alone_does_not_find_fails_that_page():
    def raises(_batch: Sequence[Raster]) -> None:
        raise MemoryError("Unable to allocate 9 TiB")

    outcome = _step(Scripted(raises), 2)
    assert [page.failure.code for page in outcome.pages if page.failure] == [ErrorCode.OUT_OF_MEMORY] * 2


def test_faults_of_the_engine_are_no_splits_for_memory():
    assert _step(FakeEngine(FakeOptions(fail_pages=(1,), drop_pages=(3,))), 8).report.oom_splits == 0


def test_a_page_that_does_not_fit_beside_others_ends_the_run_and_fails_no_page():
    with pytest.raises(DeviceBusyError, match=r"other processes hold 8\.0 GiB"):
        _step(FakeEngine(FakeOptions(oom_pages=(2,), others_hold=True)), 4)


def test_what_others_hold_does_not_matter_while_fewer_pages_fit():
    outcome = _step(FakeEngine(FakeOptions(oom_above=1, others_hold=True)), 4)
    assert (outcome.report.oom_splits, [page.failure for page in outcome.pages]) == (3, [None] * 4)


@pytest.mark.parametrize("error", [EngineBrokenError("device lost"), EngineLostError("the endpoint is down")])
def test_an_engine_that_says_it_cannot_go_on_is_not_asked_again(error: Exception):
    def raises(_batch: Sequence[Raster]) -> None:
        raise error

    engine = Scripted(raises)
    with pytest.raises(type(error)) as raised:
        _step(engine, 8)
    assert raised.value is error
    assert engine.sizes == [8]


@pytest.mark.parametrize(
    ("options", "kind"),
    [(FakeOptions(refuse_pages=(3,)), EngineLostError), (FakeOptions(full_pages=(3,)), MachineError)],
)
def test_what_one_page_alone_meets_and_is_not_its_fault_ends_the_run(options: FakeOptions, kind: type[Exception]):
    with pytest.raises(kind, match="the fake engine was told to"):
        _step(FakeEngine(options), 8)


def test_a_connection_that_is_back_at_the_second_try_costs_nothing():
    def answer(batch: Sequence[Raster]) -> Answer:
        if len(engine.sizes) == 1:
            raise ConnectionResetError("reset")
        return Answer(_texts(batch))

    engine = Scripted(answer)
    assert [page.failure for page in _step(engine, 4).pages] == [None] * 4
