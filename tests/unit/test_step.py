"""One batch in, one outcome a page out, whatever the engine does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pipeline.step
from pipeline.batch import Batch
from pipeline.engines.engine import StreamingEngine
from pipeline.engines.fake import FakeEngine, FakeOptions
from pipeline.engines.fake_stream import FakeStreamingEngine, FakeStreamOptions
from pipeline.errors import (
    DeviceBusyError,
    DeviceOutOfMemoryError,
    EngineBrokenError,
    EngineLostError,
    ErrorCode,
    MachineError,
)
from pipeline.page import Raster
from pipeline.result import (
    Answer,
    BatchReport,
    Effort,
    Finish,
    GpuUse,
    Outcome,
    PageRead,
    Recognition,
    Stage,
    Status,
    Timings,
)
from pipeline.step import Place, host_memory_bytes, step

from .samples import a_sized_page

HERE = Place("node", "cpu", "pid-1")


def _rasters(num_pages: int) -> list[Raster]:
    sized = [a_sized_page(index, length=100) for index in range(num_pages)]
    return [Raster(one, np.full((one.height_px, one.width_px), one.page.page_index, np.uint8)) for one in sized]


@dataclass(frozen=True, slots=True)
class Stepped:
    """All that was told of a batch: pages in the order told, and in the order of the batch."""

    told: list[Outcome]
    report: BatchReport

    @property
    def pages(self) -> list[Outcome]:
        return sorted(self.told, key=lambda page: page.sized.page.page_index)


def _start(engine: Any, num_pages: int, attempt: int = 1) -> Iterator[Outcome | BatchReport]:
    rasters = _rasters(num_pages)
    batch = Batch(100, tuple(raster.sized for raster in rasters), attempt)
    return step(engine, batch, rasters, place=HERE, submitted_at=datetime.now(UTC))


def _step(engine: Any, num_pages: int, attempt: int = 1) -> Stepped:
    *told, report = _start(engine, num_pages, attempt)
    assert isinstance(report, BatchReport), "the report comes last"
    return Stepped([page for page in told if isinstance(page, Outcome)], report)


@dataclass(slots=True)
class Scripted:
    """An engine that does with a batch what the test says."""

    answer: Callable[[Sequence[Raster]], Any]
    sizes: list[int] = field(default_factory=list)

    def recognize(self, batch: Sequence[Raster]) -> Any:
        self.sizes.append(len(batch))
        return self.answer(batch)


class Streaming(StreamingEngine):
    """An engine that tells of a batch what the test says; it remembers the pages of each."""

    name = "streaming"

    def __init__(self, tell: Callable[[Sequence[Raster]], Iterator[Any]]) -> None:
        self.tell = tell
        self.batches: list[list[int]] = []

    @classmethod
    def missing(cls) -> str | None:
        return None

    @classmethod
    def spec(cls, options: Any) -> Any:
        raise NotImplementedError

    def stream(self, batch: Sequence[Raster]) -> Iterator[PageRead | Effort]:
        self.batches.append(_indices(batch))
        return self.tell(batch)


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
    assert report.total_s is not None
    assert report.total_s >= 0
    assert report.started_at is not None
    assert report.finished_at is not None
    assert report.started_at <= report.finished_at
    for page in outcome.pages:
        assert page.started_at == report.started_at
        assert page.finished_at is not None
        assert report.started_at <= page.finished_at <= report.finished_at


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
        *_, report = step(engine, batch, rasters, place=HERE, submitted_at=submitted_at)
        assert isinstance(report, BatchReport)
        assert report.queue_s is not None
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


# engines that tell of pages one by one


def _named(batch: Sequence[Raster]) -> Iterator[PageRead]:
    yield from (PageRead(position, text) for position, text in enumerate(_texts(batch)))


def _codes(stepped: Stepped) -> list[str | None]:
    return [str(page.failure.code) if page.failure else None for page in stepped.pages]


@given(st.integers(1, 20), some_pages, some_pages, some_pages, some_pages, some_pages, st.integers(0, 6))
def test_a_streaming_engine_gives_one_outcome_a_page_whatever_it_tells_or_does_not(
    num_pages: int,
    failing: set[int],
    raising: set[int],
    dropped: set[int],
    twice: set[int],
    stray: set[int],
    oom_above: int,
):
    options = FakeStreamOptions(
        fail_pages=tuple(failing),
        raise_pages=tuple(raising),
        drop_pages=tuple(dropped),
        twice_pages=tuple(twice),
        stray_pages=tuple(stray),
        oom_above=oom_above,
    )
    stepped = _step(FakeStreamingEngine(options), num_pages)
    assert [page.sized.page.page_index for page in stepped.pages] == list(range(num_pages))
    for index, page in enumerate(stepped.pages):
        if index in failing | raising:
            assert page.failure is not None
            assert page.failure.code == ErrorCode.ENGINE_ERROR
        elif index in dropped | stray:
            assert page.failure is not None
            assert page.failure.code == ErrorCode.ENGINE_CONTRACT
        else:
            assert page.recognition is not None
            assert page.recognition.text.startswith(f"page {index + 1} of ")


def test_a_page_is_told_before_the_next_one_is_read():
    read: list[int] = []

    def tell(batch: Sequence[Raster]) -> Iterator[PageRead]:
        for told in _named(batch):
            read.append(told.position)
            yield told

    for number, told in enumerate(_start(Streaming(tell), 4)):
        if isinstance(told, Outcome):
            assert (told.sized.page.page_index, read) == (number, list(range(number + 1)))


def test_pages_come_in_the_order_in_which_the_engine_tells_of_them():
    def backwards(batch: Sequence[Raster]) -> Iterator[PageRead]:
        yield from list(_named(batch))[::-1]

    told = _step(Streaming(backwards), 4).told
    assert [page.sized.page.page_index for page in told] == [3, 2, 1, 0]
    assert [page.recognition.text for page in told if page.recognition] == [f"page {n}" for n in (3, 2, 1, 0)]


def test_an_error_of_one_page_is_its_own_and_no_page_is_read_again():
    def tell(batch: Sequence[Raster]) -> Iterator[PageRead]:
        for told in _named(batch):
            error = [ValueError("not a page"), MemoryError("no room"), DeviceOutOfMemoryError("full", 0)]
            yield PageRead(told.position, error[told.position]) if told.position < 3 else told

    engine = Streaming(tell)
    stepped = _step(engine, 5)
    assert _codes(stepped) == ["engine_error", "out_of_memory", "out_of_memory", None, None]
    assert (engine.batches, stepped.report.oom_splits) == ([[0, 1, 2, 3, 4]], 0)
    assert [page.attempts for page in stepped.pages] == [1] * 5


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConnectionRefusedError("nobody there"), EngineLostError),
        (DeviceOutOfMemoryError("full", 1 << 30), DeviceBusyError),
        (EngineBrokenError("lost"), EngineBrokenError),
        (EngineLostError("down"), EngineLostError),
    ],
)
def test_an_error_of_one_page_that_is_not_its_fault_ends_the_step_and_what_was_told_was_told(
    error: Exception, kind: type[Exception]
):
    def tell(batch: Sequence[Raster]) -> Iterator[PageRead]:
        for told in _named(batch):
            yield PageRead(2, error) if told.position == 2 else told

    told = _start(Streaming(tell), 5)
    before = [page.sized.page.page_index for page in (next(told), next(told)) if isinstance(page, Outcome)]
    assert before == [0, 1]
    with pytest.raises(kind):
        next(told)


def test_a_stream_that_raises_is_read_again_in_halves_but_for_what_was_told():
    def tell(batch: Sequence[Raster]) -> Iterator[PageRead]:
        for told in _named(batch):
            if batch[told.position].sized.page.page_index == 3:
                raise RuntimeError("made to fail")
            yield told

    engine = Streaming(tell)
    stepped = _step(engine, 8)
    assert _codes(stepped) == [None] * 3 + ["engine_error"] + [None] * 4
    assert engine.batches == [list(range(8)), [3, 4], [3], [4], [5, 6, 7]]
    assert [page.attempts for page in stepped.pages] == [1, 1, 1, 3, 3, 2, 2, 2]


@pytest.mark.parametrize(
    "stray",
    [
        PageRead(5, Recognition("")),
        PageRead(-1, Recognition("")),
        PageRead(None, Recognition("")),  # type: ignore[arg-type]
        PageRead(0, Recognition("page 0")),
        PageRead(1, None),  # type: ignore[arg-type]
        PageRead(1, Recognition(None)),  # type: ignore[arg-type]
        PageRead(1, KeyboardInterrupt()),  # type: ignore[arg-type]
        "page 1",
        None,
    ],
)
def test_what_breaks_the_contract_of_a_stream_costs_no_page_that_is_told_well_elsewhere(stray: Any):
    def tell(batch: Sequence[Raster]) -> Iterator[Any]:
        told = list(_named(batch))
        yield told[0]
        if len(batch) > 2:
            yield stray
        yield from told[1:]

    engine = Streaming(tell)
    stepped = _step(engine, 5)
    assert [page.recognition.text for page in stepped.pages if page.recognition] == [f"page {n}" for n in range(5)]
    assert engine.batches == [[0, 1, 2, 3, 4], [1, 2], [3, 4]], "nothing more is believed of a stream that was wrong"


def test_a_page_that_is_left_out_also_when_alone_fails_and_its_neighbours_do_not():
    stepped = _step(FakeStreamingEngine(FakeStreamOptions(drop_pages=(2,))), 5)
    assert _codes(stepped) == [None, None, "engine_contract", None, None]
    assert stepped.pages[2].failure is not None
    assert stepped.pages[2].failure.message == "the engine did not tell of this page in a batch of 1"


def test_a_page_that_is_told_twice_has_what_was_told_first():
    def tell(batch: Sequence[Raster]) -> Iterator[PageRead]:
        yield from (PageRead(0, Recognition(text)) for text in ("first", "second"))

    assert [page.recognition and page.recognition.text for page in _step(Streaming(tell), 1).told] == ["first"]


def test_a_stream_that_breaks_is_closed_before_its_pages_are_read_again():
    under_way: list[int] = []

    def tell(batch: Sequence[Raster]) -> Iterator[Any]:
        under_way.append(len(batch))
        assert len(under_way) == 1, "two at a time"
        try:
            yield None if len(batch) > 1 else PageRead(0, Recognition(""))
        finally:
            under_way.pop()

    assert _codes(_step(Streaming(tell), 3)) == [None] * 3


def test_what_a_stream_took_is_told_in_the_report():
    gpu = GpuUse(100, 200, 0.5)
    effort = Effort(Timings(decode_s=2.0), idle_ratio=0.25, gpu=gpu, oom_splits=3)

    def tell(batch: Sequence[Raster]) -> Iterator[PageRead | Effort]:
        yield from _named(batch)
        yield effort

    report = _step(Streaming(tell), 3).report
    assert (report.timings, report.idle_ratio, report.gpu, report.oom_splits) == (effort.timings, 0.25, gpu, 3)
    assert report.output_tokens == (2, 2, 2)


def test_of_a_batch_read_in_pieces_the_highest_memory_and_all_splits_are_told():
    def tell(batch: Sequence[Raster]) -> Iterator[PageRead | Effort]:
        if len(batch) > 2:
            raise DeviceOutOfMemoryError("too many", 0)
        yield from _named(batch)
        yield Effort(Timings(decode_s=1.0), 0.5, GpuUse(batch[0].sized.page.page_index, 7, 0.5), oom_splits=1)

    report = _step(Streaming(tell), 4).report
    assert (report.gpu, report.oom_splits, report.timings.decode_s) == (GpuUse(2, 7), 3, 2.0)


def test_a_page_that_was_cut_or_repeats_itself_is_read_and_says_so():
    for engine in (
        FakeEngine(FakeOptions(truncated_pages=(0,), repeated_pages=(1,))),
        FakeStreamingEngine(FakeStreamOptions(truncated_pages=(0,), repeated_pages=(1,))),
    ):
        read = [page.recognition for page in _step(engine, 3).pages if page.recognition]
        assert [page.status for page in read] == [Status.TRUNCATED, Status.REPEATED, Status.OK]
        assert [page.finish_reason for page in read] == [Finish.LENGTH, Finish.REPETITION, Finish.STOP]


def test_a_streaming_engine_can_be_asked_for_all_at_once():
    engine = FakeStreamingEngine(FakeStreamOptions())
    answer = engine.recognize(_rasters(5))
    assert [page.text.partition(",")[0] for page in answer.pages] == [f"page {n + 1} of {n + 1}" for n in range(5)]
    assert answer.effort.gpu is not None
    with pytest.raises(RuntimeError, match="told to fail on page index 2"):
        FakeStreamingEngine(FakeStreamOptions(fail_pages=(2,))).recognize(_rasters(5))
