"""Conservation: every page of every source ends in exactly one result, whatever crashes, and the flow ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count
from operator import add

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.batch import Batch, BatchLimits
from pipeline.document import Source
from pipeline.errors import SKIPPED_CODES, ErrorCode
from pipeline.flow import Flow, FlowLimits
from pipeline.ledger import Ledger
from pipeline.page import SizedPage
from pipeline.result import Failure, Finish, Outcome, PageResult, Probe, Recognition, Stage, Status
from pipeline.runner import drive
from pipeline.selection import Selection
from pipeline.stats import Totals, of_batch, of_result
from pipeline.task import (
    BatchCrashed,
    BatchEnded,
    BatchReturned,
    PageEnded,
    PageFailed,
    PageRendered,
    PixelsLost,
    ProbeEnded,
    ProbeTask,
    RenderTask,
    TaskEnded,
)

from .samples import NOON, a_document, a_report
from .simulated import MAX_BLOCK, Chaos, Fate, Gathered, Scenario, SimulatedDocument, SimulatedRunner

# scenarios

ENDS: dict[Fate, tuple[Status, ErrorCode | None]] = {
    Fate.FINE: (Status.OK, None),
    Fate.NEEDS_NO_ENGINE: (Status.TEXT_LAYER, None),
    Fate.CANNOT_BE_RENDERED: (Status.FAILED, ErrorCode.BROKEN_PAGE),
    Fate.KILLS_THE_RASTERIZER: (Status.FAILED, ErrorCode.RASTERIZER_CRASHED),
    Fate.CANNOT_BE_READ: (Status.FAILED, ErrorCode.ENGINE_ERROR),
    Fate.KILLS_THE_ENGINE: (Status.FAILED, ErrorCode.ENGINE_CRASHED),
}
REFUSALS = [ErrorCode.NOT_FOUND, ErrorCode.UNSUPPORTED_TYPE, ErrorCode.ENCRYPTED, ErrorCode.NO_PAGES]


@st.composite
def documents(draw: st.DrawFn, uri: str) -> SimulatedDocument:
    kind = draw(st.sampled_from(["pages", "pages", "pages", "refused", "deadly"]))
    if kind == "deadly":
        return SimulatedDocument(uri, kills_the_probe=True)
    if kind == "refused":
        before = draw(st.sampled_from([None, None, Status.FAILED, Status.SKIPPED]))
        return SimulatedDocument(uri, refusal=draw(st.sampled_from(REFUSALS)), refused_before=before)
    page_count = draw(st.integers(1, 14))
    odd = draw(st.dictionaries(st.integers(0, page_count - 1), st.sampled_from(list(Fate)), max_size=4))
    pages = tuple(odd.get(index, Fate.FINE) for index in range(page_count))
    before = st.dictionaries(st.integers(0, page_count - 1), st.sampled_from([Status.OK, Status.FAILED, Status.BLANK]))
    return SimulatedDocument(
        uri,
        pages,
        done=draw(st.one_of(st.just({}), before)),
        length=draw(st.sampled_from([20, 100, 200])),
        side_px=draw(st.sampled_from([1, 10, 30])),
        told=draw(st.booleans()),
    )


@st.composite
def folders(draw: st.DrawFn) -> tuple[SimulatedDocument, ...]:
    """Some documents, of which a few may be the same bytes as one before them; rows of the same page agree."""
    found: list[SimulatedDocument] = []
    for number in range(draw(st.integers(0, 9))):
        document = draw(documents(f"file:///{number}"))
        originals = [other for other in found if other.pages]
        if originals and draw(st.sampled_from([True, False, False])):
            original = draw(st.sampled_from(originals))
            same = [other for other in found if other.document_id == original.document_id]
            known = {index: status for other in same for index, status in other.done.items()}
            mine = {index: status for index, status in document.done.items() if index < len(original.pages)}
            done = {index: known.get(index, status) for index, status in mine.items()}
            found[found.index(original)] = original = replace(original, content=original.content or original.uri)
            document = replace(original, uri=document.uri, done=done, told=document.told)
        found.append(document)
    archived = draw(st.integers(0, len(found)))
    return tuple(replace(d, archive="file:///x.zip") if n < archived else d for n, d in enumerate(found))


scenarios = st.builds(
    Scenario,
    documents=folders(),
    limits=st.builds(
        FlowLimits,
        batch=st.builds(BatchLimits.of, batch_size=st.integers(1, 8), window_pages=st.integers(1, 20)),
        raster_bytes=st.sampled_from([1, 500, 2_000, 1 << 30]),
        pages_per_task=st.integers(1, 6),
        open_documents=st.integers(1, 12),
        sources_per_task=st.integers(1, 5),
    ),
    num_rasterizers=st.integers(1, 4),
    num_engines=st.integers(1, 3),
    batches_at_once=st.sampled_from([1, 1, 2, 3]),
    chaos=st.builds(
        Chaos,
        seed=st.integers(0, 2**32),
        crash=st.sampled_from([0.0, 0.1, 0.5]),
        lost=st.sampled_from([0.0, 0.2]),
        most=st.integers(0, 20),
    ),
    selection=st.sampled_from(
        [
            *[Selection()] * 3,
            Selection(((2, 3),)),
            Selection(max_pages=2),
            Selection(((1, 1), (4, 99)), max_pages=3),
            Selection(((90, 99),)),
        ]
    ),
)


class Killed(BaseException):
    """The driver's process dies."""


@dataclass(slots=True)
class Witness:
    """A `pipeline.runner.Watch` that checks at every turn what must always hold."""

    scenario: Scenario
    runner: SimulatedRunner
    stop_after: int | None = None
    kill_after: int | None = None
    num_looks: int = 0
    has_stopped: bool = False

    def should_stop(self) -> bool:
        self.has_stopped = self.stop_after is not None and self.num_looks >= self.stop_after
        return self.has_stopped

    def say(self, text: str) -> None:
        raise AssertionError(text)

    def look(self, flow: Flow) -> None:
        self.num_looks += 1
        assert self.num_looks <= self.most_turns, "the flow does not end"
        if self.kill_after is not None and self.num_looks > self.kill_after:
            raise Killed
        limits, pixels = self.scenario.limits, self.runner.pixels
        held_bytes = sum(sized.num_bytes for sized in pixels.values())
        if self.has_stopped:
            assert flow.next_task() is None
            assert flow.next_batch(1) is None
            assert not flow.wants_pages
        else:
            has_room = held_bytes < limits.raster_bytes and flow.num_waiting < limits.batch.window_pages
            assert flow.wants_pages == has_room
        assert flow.num_waiting + flow.num_in_flight <= len(pixels)
        assert flow.num_waiting < limits.batch.window_pages + self.scenario.num_rasterizers * MAX_BLOCK

    @property
    def most_turns(self) -> int:
        """A generous bound, but linear in the pages and in the accidents."""
        scenario = self.scenario
        num_items = sum(1 + len(document.pages) for document in scenario.documents)
        return 50 + 20 * num_items + scenario.chaos.most * (10 + 10 * scenario.limits.batch.start.size_for(1))


def _run(scenario: Scenario, earlier: list[PageResult], **watch: int) -> tuple[Flow, Gathered, SimulatedRunner]:
    flow, gathered = scenario.flow(earlier), scenario.gathered(earlier)
    runner = SimulatedRunner(scenario, flow)
    witness = Witness(scenario, runner, **watch)
    try:
        drive(flow, runner, gathered, witness)  # type: ignore[arg-type]
        assert gathered.num_flushes == 1
    except Killed:
        pass
    return flow, gathered, runner


# what must have become of everything

Ends = dict[tuple[str, int | None], tuple[Status, ErrorCode | None]]


def _expected(scenario: Scenario) -> Ends:
    """The one result that each page or unopened document without a row must get."""
    ends: Ends = {}
    for document in scenario.documents:
        if document.kills_the_probe:
            ends[document.uri, None] = (Status.FAILED, ErrorCode.RASTERIZER_CRASHED)
        elif document.refusal:
            status = Status.SKIPPED if document.refusal in SKIPPED_CODES else Status.FAILED
            if not _is_known(document):
                ends[document.uri, None] = (status, document.refusal)
        asked = scenario.selection.mask(len(document.pages))
        for index, fate in enumerate(document.pages):
            if index not in document.done:
                end = ENDS[fate] if asked >> index & 1 else (Status.SKIPPED, ErrorCode.NOT_SELECTED)
                copied = _done_elsewhere(scenario, document, index)
                code = ErrorCode.BROKEN_PAGE if copied is Status.FAILED else None
                ends[document.uri, index] = (copied, code) if copied else end
    return ends


def _is_known(document: SimulatedDocument) -> bool:
    """Whether the row that says why it has no pages is there; without an id it has to say the same again."""
    if document.refusal is ErrorCode.NOT_FOUND:
        return document.refused_before is Status.FAILED
    return document.refused_before is not None


def _done_elsewhere(scenario: Scenario, document: SimulatedDocument, index: int) -> Status | None:
    """What the last row of earlier runs says of the same page of the same bytes."""
    same = [other for other in scenario.documents if other.document_id == document.document_id]
    return next((other.done[index] for other in reversed(same) if index in other.done), None)


def _actual(results: list[PageResult]) -> Ends:
    """What became of what; fails if anything has two results."""
    ends: Ends = {}
    for result in results:
        key = (result.document.uri, result.page.page_index if result.page else None)
        assert key not in ends, f"two results for {key}"
        ends[key] = (result.status, result.failure.code if result.failure else None)
        assert (result.recognition is None) != (result.failure is None)
        if result.recognition is not None:
            text = f"{result.document.document_id} {key[1]}"
            assert result.recognition.text == text, "the text of another page"
    return ends


def _check_documents(scenario: Scenario, gathered: Gathered) -> None:
    """Each document with something to do or to tell is finished once, with one status for each of its pages."""
    finished = {done.document.uri: done for done in gathered.documents}
    assert len(finished) == len(gathered.documents)
    ends = _expected(scenario)
    untold = {d.uri for d in scenario.documents if not d.told and (_is_known(d) or (d.pages and not d.kills_the_probe))}
    assert set(finished) == {uri for uri, _ in ends} | untold
    for document in scenario.documents:
        if document.uri in finished:
            statuses = Counter(str(status) for (uri, _), (status, _) in ends.items() if uri == document.uri)
            statuses += Counter(str(status) for status in document.done.values())
            if document.refused_before and not statuses:
                statuses = Counter([str(document.refused_before)])
            assert {s: n for s, n in finished[document.uri].statuses.items() if n} == statuses
            assert statuses.total() == (len(document.pages) or 1)
            code = ends.get((document.uri, None), (None, document.refusal))[1]
            assert finished[document.uri].error_code == code


def _check_totals(scenario: Scenario, flow: Flow, gathered: Gathered) -> None:
    """What was counted is what was handed to the committer."""
    copied = Counter(str(result.status) for result in gathered.copied)
    codes = Counter(str(result.failure.code) for result in gathered.copied if result.failure)
    copies = Totals(pages=copied.total(), pages_copied=copied.total(), pages_by_status=copied, failures_by_code=codes)
    read = [result for result in gathered.results if not any(result is other for other in gathered.copied)]
    settled = [of_result(result) for result in read] + [of_batch(report) for report in gathered.reports]
    assert flow.totals.documents_new == len(gathered.documents), "the census knew of none"
    assert replace(reduce(add, settled, copies), **_counts_of_before(flow.totals)) == flow.totals


def _counts_of_before(totals: Totals) -> dict[str, int]:
    names = ("documents", "documents_new", "documents_already_done", "pages_already_done", "pages_failed_before")
    return {name: getattr(totals, name) for name in names}


# the laws

EXAMPLES = settings().max_examples  # as many as the profile says
many, few = settings(max_examples=EXAMPLES * 3 // 2), settings(max_examples=EXAMPLES // 2)


@many
@given(scenarios)
def test_every_page_without_a_row_gets_exactly_the_one_result_it_deserves(scenario: Scenario):
    flow, gathered, runner = _run(scenario, [])
    assert _actual(gathered.results) == _expected(scenario)
    _check_documents(scenario, gathered)
    _check_totals(scenario, flow, gathered)
    assert runner.pixels == {}
    assert flow.finished
    assert flow.complete


@few
@given(scenarios)
def test_what_is_known_at_the_end_is_what_is_done(scenario: Scenario):
    flow, _, _ = _run(scenario, [])
    totals = flow.totals
    assert flow.pages_known == totals.pages + totals.pages_already_done
    assert totals.documents + totals.documents_already_done == len(scenario.documents)
    failed = [status for document in scenario.documents for status in document.done.values()]
    known = [d.refused_before for d in scenario.documents if d.refusal and _is_known(d)]
    assert totals.pages_failed_before == (failed + known).count(Status.FAILED)


@many
@given(scenarios, st.integers(0, 60))
def test_a_stopped_run_ends_with_the_batches_in_flight_and_counts_them(scenario: Scenario, turns: int):
    flow, gathered, _ = _run(scenario, [], stop_after=turns)
    assert flow.finished
    assert not flow.complete or _actual(gathered.results) == _expected(scenario)
    assert flow.num_in_flight == 0
    assert _actual(gathered.results).items() <= _expected(scenario).items()
    _check_totals(scenario, flow, gathered)


@many
@given(scenarios, st.lists(st.tuples(st.booleans(), st.integers(0, 40)), min_size=1, max_size=4))
def test_a_run_stopped_or_killed_any_number_of_times_loses_and_doubles_nothing(
    scenario: Scenario, ends: list[tuple[bool, int]]
):
    results: list[PageResult] = []
    for is_killed, turns in ends:
        _, gathered, _ = _run(scenario, results, **{"kill_after" if is_killed else "stop_after": turns})
        results += gathered.results
    _, gathered, _ = _run(scenario, results)
    assert _actual(results + gathered.results) == _expected(scenario)
    _, again, _ = _run(scenario, results + gathered.results)
    assert again.results == [], "there was nothing left to do"


@many
@given(scenarios, st.lists(st.integers(0, 40), max_size=2))
def test_the_same_bytes_are_read_once_at_whatever_names_and_in_whatever_runs(scenario: Scenario, kills: list[int]):
    results: list[PageResult] = []
    read: Counter[tuple[str, int]] = Counter()
    before = {(d.document_id, index) for d in scenario.documents for index in d.done}
    for turns in [*kills, None]:
        _, gathered, _ = _run(scenario, results, **({} if turns is None else {"kill_after": turns}))
        results += gathered.results
        copied = {(r.document.uri, r.page.page_index) for r in gathered.copied if r.page}
        for page in [r.page for r in gathered.results if r.page and r.page.key not in copied]:
            read[page.document_id, page.page_index] += 1
    assert all(times == 1 for times in read.values())
    assert not before & set(read), "what an earlier run has read under any name is not read again"


@few
@given(scenarios, st.lists(st.integers(0, 40), max_size=2))
def test_pages_that_are_asked_for_later_are_read_then_and_no_page_twice(scenario: Scenario, kills: list[int]):
    """A narrow selection first, killed or not, then everything: no page that was read is read again."""
    results: list[PageResult] = []
    for turns in [*kills, None]:
        _, gathered, _ = _run(scenario, results, **({} if turns is None else {"kill_after": turns}))
        results += gathered.results
    everything = replace(scenario, selection=Selection())
    _, gathered, _ = _run(everything, results)
    left_out = {key for key, end in _actual(results).items() if end == (Status.SKIPPED, ErrorCode.NOT_SELECTED)}
    assert set(_actual(gathered.results)) == left_out
    assert {**_actual(results), **_actual(gathered.results)} == _expected(everything)


@few
@given(scenarios)
def test_pixels_that_wait_stay_within_the_limit_but_for_one_block_a_rasterizer(scenario: Scenario):
    _, _, runner = _run(scenario, [])
    largest = max((document.side_px**2 for document in scenario.documents), default=0)
    most = scenario.limits.raster_bytes - 1 + scenario.num_rasterizers * MAX_BLOCK * largest
    assert runner.max_held_bytes <= most


@few
@given(scenarios)
def test_documents_that_are_open_stay_within_a_bound(scenario: Scenario):
    _, _, runner = _run(scenario, [])
    limits = scenario.limits
    probed_at_once = scenario.num_rasterizers * limits.sources_per_task
    assert runner.max_open_documents <= limits.open_documents // 4 + probed_at_once


@few
@given(scenarios)
def test_the_dice_alone_decide(scenario: Scenario):
    one, other = _run(scenario, [])[1], _run(scenario, [])[1]
    assert one == other


# the same laws, one by one, in words

FEW = FlowLimits(BatchLimits.of(batch_size=2, window_pages=8), raster_bytes=1 << 20, pages_per_task=4)
TWO_PAGES = SimulatedDocument("file:///a", (Fate.FINE, Fate.FINE), length=85)
FIVE_PAGES = SimulatedDocument("file:///a", (Fate.FINE,) * 5, length=85)


def _probed(document: SimulatedDocument, limits: FlowLimits = FEW) -> Flow:
    """A flow that has one document, probed."""
    flow = Scenario((document,), limits).flow()
    probing = flow.next_task()
    assert isinstance(probing, ProbeTask)
    flow.on(ProbeEnded(probing, document.probe))
    flow.on(TaskEnded(probing))
    return flow


def _render(flow: Flow, document: SimulatedDocument) -> None:
    """Do the next task, which must be to render."""
    task = flow.next_task()
    assert isinstance(task, RenderTask)
    for page in (page for piece in task.pieces for page in piece.pages()):
        flow.on(PageRendered(task, document.sized(page.page_index)))
    flow.on(TaskEnded(task))


def _crash_alone(flow: Flow) -> None:
    """Let the next rasterizing task die before it has told of its only page."""
    task = flow.next_task()
    assert isinstance(task, RenderTask)
    assert sum(len(piece.pages()) for piece in task.pieces) == 1
    flow.on(TaskEnded(task, "killed"))


def _tell(flow: Flow, batch: Batch, sized: SizedPage) -> None:
    """Let an engine tell of a page."""
    flow.on(PageEnded(batch, Outcome(sized, Recognition("text", output_tokens=2), None, batch.attempt, NOON, NOON)))


def _read(flow: Flow) -> list[PageResult]:
    """Read all batches that there are, and give what is settled."""
    while batch := flow.next_batch(1):
        for sized in batch.pages:
            _tell(flow, batch, sized)
        flow.on(BatchEnded(batch, a_report(batch.pages)))
    return flow.take_ready().results


def _codes(results: list[PageResult]) -> list[str | None]:
    ordered = sorted(results, key=lambda result: result.page.page_index if result.page else -1)
    return [str(result.failure.code) if result.failure else None for result in ordered]


def test_a_page_that_kills_its_engine_twice_alone_is_the_cause():
    flow = _probed(SimulatedDocument("file:///a", (Fate.FINE,)))
    _render(flow, TWO_PAGES)
    first = flow.next_batch(1)
    assert first is not None
    flow.on(BatchCrashed(first, "killed"))
    second = flow.next_batch(1)
    assert second == replace(first, attempt=2, alone=True)
    flow.on(BatchCrashed(second, "killed"))
    ready = flow.take_ready()
    assert _codes(ready.results) == ["engine_crashed"]
    assert ready.results[0].attempts == 2
    assert ready.results[0].batch_id == first.batch_id
    assert "killed" in (ready.results[0].failure.message if ready.results[0].failure else "")
    assert flow.finished


def test_a_batch_that_crashes_is_halved_and_the_innocent_half_is_read():
    flow = _probed(TWO_PAGES)
    _render(flow, TWO_PAGES)
    both = flow.next_batch(1)
    assert both is not None
    flow.on(BatchCrashed(both, "killed"))
    assert [half.pages for half in (flow.next_batch(1), flow.next_batch(1)) if half] == [
        (sized,) for sized in both.pages
    ]


def test_a_batch_that_waited_behind_a_deadly_one_is_read_as_if_nothing_had_happened():
    flow = _probed(TWO_PAGES, replace(FEW, batch=BatchLimits.of(batch_size=1, window_pages=8)))
    _render(flow, TWO_PAGES)
    behind = flow.next_batch(1)
    for _ in range(5):
        assert behind is not None
        flow.on(BatchReturned(behind))
        again = flow.next_batch(1)
        assert again == behind
    assert behind is not None
    _tell(flow, behind, behind.pages[0])
    flow.on(BatchEnded(behind, a_report(behind.pages)))
    assert _codes(_read(flow)) == [None, None]


def test_a_page_is_settled_as_soon_as_it_is_told_and_its_pixels_need_no_room_any_more():
    one_page_of_pixels = replace(FEW, raster_bytes=FIVE_PAGES.side_px**2, pages_per_task=1)
    flow = _probed(FIVE_PAGES, replace(one_page_of_pixels, batch=BatchLimits.of(batch_size=5, window_pages=5)))
    _render(flow, FIVE_PAGES)
    assert not flow.wants_pages
    batch = flow.next_batch(1)
    assert batch is not None
    _tell(flow, batch, batch.pages[0])
    assert flow.wants_pages
    (result,) = flow.take_ready().results
    assert (result.batch_id, result.started_at, result.finished_at) == (batch.batch_id, NOON, NOON)
    assert flow.num_in_flight == 0
    assert not flow.finished, "its batch has not ended"


def test_a_page_that_was_told_before_its_engine_died_is_not_read_again():
    flow = _probed(TWO_PAGES)
    _render(flow, TWO_PAGES)
    batch = flow.next_batch(1)
    assert batch is not None
    _tell(flow, batch, batch.pages[0])
    flow.on(BatchCrashed(batch, "killed"))
    ready = flow.take_ready()
    assert len(ready.results) == 1
    assert [(report.num_pages, report.node) for report in ready.reports] == [(1, None)]
    assert flow.totals.batched_pages == 1
    _tell(flow, batch, batch.pages[0])
    (left,) = _read(flow)
    assert left.page == batch.pages[1].page
    assert flow.totals.batched_pages == 2
    assert flow.finished


def test_a_page_that_is_told_twice_has_one_result():
    flow = _probed(TWO_PAGES)
    _render(flow, TWO_PAGES)
    batch = flow.next_batch(1)
    assert batch is not None
    for sized in (batch.pages[0], batch.pages[0], batch.pages[1], batch.pages[0]):
        _tell(flow, batch, sized)
    flow.on(BatchEnded(batch, a_report(batch.pages)))
    _tell(flow, batch, batch.pages[1])
    assert _codes(_read(flow)) == [None, None]


def test_only_pages_that_were_not_told_are_rendered_again_when_pixels_are_lost():
    flow = _probed(TWO_PAGES)
    _render(flow, TWO_PAGES)
    batch = flow.next_batch(1)
    assert batch is not None
    _tell(flow, batch, batch.pages[1])
    flow.on(PixelsLost(batch))
    task = flow.next_task()
    assert isinstance(task, RenderTask)
    assert [page.page_index for piece in task.pieces for page in piece.pages()] == [batch.pages[0].page.page_index]
    assert flow.next_task() is None


def test_a_batch_that_ends_without_a_word_of_one_of_its_pages_has_that_page_read_again():
    flow = _probed(TWO_PAGES)
    _render(flow, TWO_PAGES)
    batch = flow.next_batch(1)
    assert batch is not None
    _tell(flow, batch, batch.pages[0])
    for _ in range(4):
        flow.on(BatchEnded(batch, a_report(batch.pages)))
        batch = flow.next_batch(1)
        if batch is None:
            break
    assert _codes(flow.take_ready().results) in ([None, "engine_crashed"], ["engine_crashed", None])
    assert flow.finished


def test_pages_of_a_model_that_was_cut_short_or_repeats_itself_are_done_and_say_so():
    flow = _probed(TWO_PAGES)
    _render(flow, TWO_PAGES)
    batch = flow.next_batch(1)
    assert batch is not None
    for sized, finish in zip(batch.pages, (Finish.LENGTH, Finish.REPETITION), strict=True):
        flow.on(PageEnded(batch, Outcome(sized, Recognition("text", finish_reason=finish), None, 1)))
    flow.on(BatchEnded(batch, a_report(batch.pages)))
    assert flow.totals.pages_by_status == {"truncated": 1, "repeated": 1}
    assert (flow.totals.pages_failed, flow.complete) == (0, True)


@few
@given(scenarios)
def test_engines_die_no_more_often_than_it_takes_to_find_the_pages_that_kill_them(scenario: Scenario):
    """Once beside others, then once for each halving and twice alone; for each such page, and for each accident."""
    scenario = replace(scenario, chaos=replace(scenario.chaos, lost=0.0))
    _, _, runner = _run(scenario, [])
    deadly = sum(d.pages.count(Fate.KILLS_THE_ENGINE) for d in scenario.documents)
    halvings = scenario.limits.batch.start.size_for(1).bit_length()
    assert runner.num_deaths <= runner.num_accidents + deadly * (halvings + 4)


def test_one_crash_of_a_rasterizer_and_one_of_an_engine_do_not_make_a_page_the_cause():
    flow = _probed(SimulatedDocument("file:///a", (Fate.FINE,)))
    _crash_alone(flow)
    _render(flow, TWO_PAGES)
    batch = flow.next_batch(1)
    assert batch is not None
    flow.on(BatchCrashed(batch, "killed"))
    assert _codes(_read(flow)) == [None]


def test_a_page_that_kills_its_rasterizer_twice_alone_is_the_cause_and_the_next_page_is_not():
    flow = _probed(TWO_PAGES)
    for alone in (False, True):
        task = flow.next_task()
        assert isinstance(task, RenderTask)
        assert task.alone is alone, "after a crash every page has a process of its own"
        flow.on(TaskEnded(task, "killed"))
    _crash_alone(flow)
    _render(flow, TWO_PAGES)  # the page behind it
    _crash_alone(flow)
    assert _codes(_read(flow)) == ["rasterizer_crashed", None]
    assert flow.finished


def test_a_task_that_ends_without_telling_all_is_done_again():
    flow = _probed(TWO_PAGES)
    task = flow.next_task()
    assert isinstance(task, RenderTask)
    flow.on(PageRendered(task, TWO_PAGES.sized(0)))
    flow.on(TaskEnded(task))
    _render(flow, TWO_PAGES)
    assert _codes(_read(flow)) == [None, None]


def test_a_crash_after_the_last_page_was_told_costs_nothing():
    flow = _probed(TWO_PAGES)
    task = flow.next_task()
    assert isinstance(task, RenderTask)
    for index in range(2):
        flow.on(PageRendered(task, TWO_PAGES.sized(index)))
    flow.on(TaskEnded(task, "killed"))
    assert flow.next_task() is None
    assert _codes(_read(flow)) == [None, None]


def test_pages_whose_pixels_were_lost_are_rendered_again():
    flow = _probed(TWO_PAGES)
    _render(flow, TWO_PAGES)
    batch = flow.next_batch(1)
    assert batch is not None
    flow.on(PixelsLost(batch))
    assert _read(flow) == []
    _render(flow, TWO_PAGES)
    _render(flow, TWO_PAGES)
    assert _codes(_read(flow)) == [None, None]


def test_after_a_stop_crashes_and_late_pages_start_nothing():
    flow = _probed(FIVE_PAGES)
    _render(flow, FIVE_PAGES)
    task, crashing, lost = flow.next_task(), flow.next_batch(1), flow.next_batch(1)
    assert isinstance(task, RenderTask)
    assert crashing is not None
    assert lost is not None
    flow.stop()
    flow.on(PageRendered(task, FIVE_PAGES.sized(4)))
    flow.on(TaskEnded(task, "killed"))
    assert not flow.finished
    flow.on(BatchCrashed(crashing, "killed"))
    flow.on(PixelsLost(lost))
    assert flow.finished
    assert flow.take_ready().results == []


def test_a_source_that_was_not_looked_at_before_a_stop_leaves_the_run_incomplete():
    flow = Scenario((TWO_PAGES,), FEW).flow()
    task = flow.next_task()
    assert isinstance(task, ProbeTask)
    assert flow.next_task() is None
    flow.stop()
    flow.on(TaskEnded(task, "killed"))
    assert flow.finished
    assert not flow.complete


def test_a_document_that_is_done_is_not_rendered():
    done = SimulatedDocument("file:///a", (Fate.FINE,) * 2, done={0: Status.OK, 1: Status.FAILED})
    flow = _probed(done)
    assert flow.next_task() is None
    assert flow.finished
    totals = flow.totals
    assert (totals.documents_already_done, totals.pages_already_done, totals.pages_failed_before) == (1, 2, 1)


def test_the_first_task_looks_at_one_source_so_that_pages_come_soon():
    flow = Flow((Source(f"file:///{n}") for n in count()), Ledger(), FEW)
    task = flow.next_task()
    assert isinstance(task, ProbeTask)
    assert len(task.sources) == 1


def test_endless_sources_are_taken_only_as_fast_as_they_are_rendered():
    taken = 0

    def sources() -> Iterator[Source]:
        nonlocal taken
        for number in count():
            taken = number + 1
            yield Source(f"file:///{number}")

    flow, num_rendered = Flow(sources(), Ledger(), FEW), 0
    while task := flow.next_task():
        if isinstance(task, ProbeTask):
            for source in task.sources:
                flow.on(ProbeEnded(task, SimulatedDocument(source.uri, (Fate.FINE,)).probe))
        else:
            num_rendered += len(task.pieces)
            for piece in task.pieces:
                flow.on(PageRendered(task, SimulatedDocument(piece.document.uri, (Fate.FINE,)).sized(0)))
        flow.on(TaskEnded(task))
    assert num_rendered >= FEW.batch.window_pages
    assert taken <= num_rendered + FEW.open_documents // 4 + FEW.sources_per_task


def test_an_unopened_document_is_one_row_and_its_reason_is_told_with_the_document():
    failure = Failure(Stage.DISCOVER, ErrorCode.ENCRYPTED, "a password is needed")
    flow = Flow(iter([Source("file:///a.pdf")]), Ledger(), FEW)
    task = flow.next_task()
    assert isinstance(task, ProbeTask)
    flow.on(ProbeEnded(task, Probe(a_document(page_count=None), failure)))
    flow.on(TaskEnded(task))
    ready = flow.take_ready()
    assert [(r.page, r.status, r.failure) for r in ready.results] == [(None, Status.FAILED, failure)]
    assert [(d.statuses, d.error_code) for d in ready.documents] == [({"failed": 1}, "encrypted")]


def test_no_sources_are_no_work():
    flow = Flow(iter([]), Ledger(), FEW)
    assert not flow.finished
    assert flow.next_task() is None
    assert flow.next_batch(1) is None
    assert flow.finished


def test_pixels_that_were_lost_with_their_node_are_rendered_again_and_not_alone():
    flow = _probed(TWO_PAGES)
    _render(flow, TWO_PAGES)
    batch = flow.next_batch(1)
    assert batch is not None
    flow.on(PixelsLost(batch))
    task = flow.next_task()
    assert isinstance(task, RenderTask)
    assert not task.alone


def test_a_job_that_is_done_needs_no_process():
    done = [
        replace(TWO_PAGES, uri=f"file:///{n}", done=dict.fromkeys(range(2), Status.OK), told=True) for n in range(9000)
    ]
    flow, turns = Scenario(tuple(done), FEW).flow(), 1
    while flow.pass_over():
        turns += 1
    assert 2 < turns < 9, "some thousands at a time, so that one can look on and stop it"
    assert (flow.finished, flow.complete, flow.next_task()) == (True, True, None)
    assert flow.totals == Totals(documents_already_done=9000, pages_already_done=18000)
    assert flow.pages_known == 18000


def test_sources_that_are_done_are_passed_over_between_others_too():
    done = replace(TWO_PAGES, uri="file:///done", done=dict.fromkeys(range(2), Status.OK), told=True)
    flow = Scenario((TWO_PAGES, done, replace(TWO_PAGES, uri="file:///c")), FEW).flow()
    assert not flow.pass_over()
    tasks = [flow.next_task(), flow.next_task()]
    assert [source.uri for task in tasks if isinstance(task, ProbeTask) for source in task.sources] == [
        "file:///a",
        "file:///c",
    ]
    assert flow.totals.documents_already_done == 1


def test_what_is_told_of_an_unopened_document_is_not_told_again_when_it_is_hashed_again():
    """With --rehash a source has no etag, so that it is looked at although all is known of it."""
    refused = SimulatedDocument("file:///a", refusal=ErrorCode.ENCRYPTED, refused_before=Status.FAILED, told=True)
    flow = Flow(iter([Source(refused.uri)]), Scenario((refused,), FEW).ledger(), FEW)
    probing = flow.next_task()
    assert isinstance(probing, ProbeTask)
    flow.on(ProbeEnded(probing, refused.probe))
    flow.on(TaskEnded(probing))
    ready = flow.take_ready()
    assert (ready.results, ready.documents, flow.totals.pages_failed_before) == ([], [], 1)


def test_a_file_that_is_gone_or_changed_takes_no_other_name_of_its_bytes_along():
    a, b = (replace(TWO_PAGES, uri=f"file:///{name}", content="same") for name in "ab")
    flow = Scenario((a, b), FEW).flow()
    for document in (a, b):
        probing = flow.next_task()
        assert isinstance(probing, ProbeTask)
        flow.on(ProbeEnded(probing, document.probe))
        flow.on(TaskEnded(probing))
    rendering = flow.next_task()
    assert isinstance(rendering, RenderTask)
    assert flow.next_task() is None, "the second name waits for the first"
    gone = Failure(Stage.RASTERIZE, ErrorCode.NOT_FOUND, "no such file")
    flow.on(PageRendered(rendering, a.sized(0)))
    flow.on(PageFailed(rendering, a.page(1), gone))
    flow.on(TaskEnded(rendering))
    batch = flow.next_batch(1)
    assert batch is not None
    _tell(flow, batch, batch.pages[0])
    flow.on(BatchEnded(batch, a_report(batch.pages)))
    again = flow.next_task()
    assert isinstance(again, RenderTask)
    assert [(page.uri, page.page_index) for piece in again.pieces for page in piece.pages()] == [("file:///b", 1)]
    assert [copy.bits for copy in flow.take_ready().copies] == [{"ok": 0b1}]
