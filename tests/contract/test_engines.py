"""The contract of every registered engine, and what is special about RapidOCR; pages are drawn here."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pymupdf
import pytest

from pipeline.engines import BEST_FIRST, ENGINES, load
from pipeline.engines.engine import Engine, StreamingEngine
from pipeline.engines.rapidocr import RapidOcrEngine, RapidOcrOptions
from pipeline.errors import ConfigurationError
from pipeline.page import Page, Raster, SizedPage
from pipeline.result import Answer, Effort, PageRead, Recognition

SDKS = ("rapidocr", "onnxruntime", "cv2", "torch", "transformers")

FAKES = ("fake", "fake_stream")

INVOICE = ["Invoice 2041 of the paper works", "Two reams of blotting paper", "Amount due 17.50"]
LETTER = ["Dear reader, the ledger is closed", "and the presses stand still"]


def draw(lines: Sequence[str], width_px: int, height_px: int, *, gray: bool = True, size: float = 20, x: float = 30):
    """Text on white, one line below the other, as pixels: one channel if gray, three otherwise."""
    document = pymupdf.open()
    sheet = document.new_page(width=width_px, height=height_px)
    for index, text in enumerate(lines):
        sheet.insert_text(
            (x, size * 1.6 * (index + 1)), text, fontsize=size, color=(0, 0, 0) if gray else (0.5, 0, 0.1)
        )
    space = pymupdf.csGRAY if gray else pymupdf.csRGB
    pixmap = sheet.get_pixmap(colorspace=space, alpha=False)
    pixels = np.frombuffer(pixmap.samples, np.uint8)
    shape = (pixmap.height, pixmap.width) if gray else (pixmap.height, pixmap.width, 3)
    return pixels.reshape(shape)


def raster(pixels: Any, page_index: int = 0) -> Raster:
    """The pixels as a page, read-only as they lie in shared memory."""
    pixels = np.ascontiguousarray(pixels)
    pixels.flags.writeable = False
    height_px, width_px = pixels.shape[:2]
    channels = 1 if pixels.ndim == 2 else 3
    page = Page("file:///drawn.pdf", "0" * 64, page_index, 9)
    return Raster(SizedPage(page, width_px, height_px, channels, 150.0, 0, 1), pixels)


PAGES = (
    raster(draw(INVOICE, 480, 200), 0),
    raster(draw(LETTER, 620, 160, gray=False), 1),
    raster(np.full((130, 90), 255, np.uint8), 2),
    raster(draw(["Page 17"], 300, 420, size=28), 3),
)
BLANK = 2


def letters(text: str) -> str:
    """The text without white space, for comparisons in which spacing does not count."""
    return "".join(text.split())


@pytest.fixture(params=ENGINES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine that can run here, loaded once. Those that need a model keep their promises in `tests/model`."""
    kind = load(request.param)
    lack = kind.missing()
    if lack is not None:
        pytest.skip(lack)
    options = kind.read_options([])
    if getattr(options, "model", None) == "":
        pytest.skip("a model has to be named")
    return kind(options)


@pytest.fixture(scope="module")
def answer(engine: Engine) -> Answer:
    return engine.recognize(PAGES)


@pytest.fixture(scope="module")
def rapid() -> RapidOcrEngine:
    lack = RapidOcrEngine.missing()
    if lack is not None:
        pytest.skip(lack)
    return RapidOcrEngine(RapidOcrOptions())


def read(engine: Engine, pixels: Any) -> Recognition:
    return engine.recognize([raster(pixels)]).pages[0]


def test_an_engine_answers_to_the_name_it_is_registered_under(name: str):
    kind = load(name)
    assert kind.name == name
    assert kind.summary
    assert "\n" not in kind.summary
    assert kind.spec(kind.read_options([])).identity.name == name


def test_an_engine_says_what_its_figures_hold_for_without_loading_anything(name: str):
    code = f"""
import sys
from pipeline.engines import load
engine = load({name!r})
premises = engine.tuning_key(engine.read_options([]))
assert premises.device, premises
print(*set(sys.modules) & set({SDKS!r}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_the_engines_that_auto_tries_are_registered():
    assert set(BEST_FIRST) <= set(ENGINES)


def test_what_an_engine_lacks_is_one_line(name: str):
    lack = load(name).missing()
    assert lack is None or (lack and "\n" not in lack)


def test_an_engine_declares_itself_quickly_and_without_its_library(name: str):
    code = f"""
import sys, time
from pipeline.engines import load
started = time.perf_counter()
kind = load({name!r})
kind.missing()
kind.spec(kind.read_options([]))
assert time.perf_counter() - started < 2, "slow"
assert not set({SDKS!r}) & set(sys.modules), sorted(set({SDKS!r}) & set(sys.modules))
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_spec_can_be_planned_with(name: str):
    kind = load(name)
    spec = kind.spec(kind.read_options([]))
    assert spec.needs.num_cpus > 0 or spec.needs.num_gpus > 0
    assert spec.needs.batch_size >= 1
    assert spec.raster.max_pixels >= 1_000_000
    assert spec.raster.length(1240, 1754) > 0
    assert all(value is None or isinstance(value, str) for value in spec.fingerprint_parts().values())
    assert pickle.loads(pickle.dumps(kind.read_options([]))) == kind.read_options([])


def test_an_unknown_option_is_refused(name: str):
    with pytest.raises(ConfigurationError, match="unknown"):
        load(name).read_options(["no_such_option=1"])


def test_every_page_of_a_batch_gets_one_result(answer: Answer):
    assert len(answer.pages) == len(PAGES)
    assert all(isinstance(page, Recognition) for page in answer.pages)
    assert pickle.loads(pickle.dumps(answer)) == answer


def test_results_come_in_the_order_of_the_pages(engine: Engine, answer: Answer):
    backwards = engine.recognize(PAGES[::-1])
    assert [page.text for page in backwards.pages[::-1]] == [page.text for page in answer.pages]
    assert len({page.text for page in answer.pages}) == len(PAGES)


def test_a_page_reads_the_same_alone_and_in_a_batch(engine: Engine, answer: Answer):
    assert [engine.recognize([page]).pages[0].text for page in PAGES] == [page.text for page in answer.pages]


def test_boxes_lie_within_the_raster(answer: Answer):
    for page, result in zip(PAGES, answer.pages, strict=True):
        for line in result.lines:
            x0, y0, x1, y1 = line.bbox
            assert 0 <= x0 < x1 <= page.sized.width_px
            assert 0 <= y0 < y1 <= page.sized.height_px
            assert line.score is None or 0 <= line.score <= 1
        assert result.confidence is None or 0 <= result.confidence <= 1


def test_lines_come_in_the_order_of_the_text(answer: Answer):
    for result in answer.pages:
        if result.lines:
            assert letters("".join(line.text for line in result.lines)) == letters(result.text)


def test_only_an_engine_that_streams_is_given_several_batches_at_once(name: str):
    kind = load(name)
    assert kind.spec(kind.read_options([])).needs.batches_at_once >= 1
    if not issubclass(kind, StreamingEngine):
        assert kind.spec(kind.read_options([])).needs.batches_at_once == 1


def test_a_streaming_engine_tells_of_each_page_once_and_then_what_all_took(engine: Engine, answer: Answer):
    if not isinstance(engine, StreamingEngine):
        pytest.skip("not an engine that streams")
    *told, effort = engine.stream(PAGES)
    pages = {page.position: page.result for page in told if isinstance(page, PageRead)}
    assert len(told) == len(PAGES)
    assert [pages[position] for position in range(len(PAGES))] == list(answer.pages)
    assert isinstance(effort, Effort)
    assert pickle.loads(pickle.dumps((told, effort))) == (told, effort)


def test_a_streaming_engine_reads_several_batches_at_once_as_one_after_the_other(engine: Engine, answer: Answer):
    if not isinstance(engine, StreamingEngine):
        pytest.skip("not an engine that streams")
    batches = [PAGES[n:] + PAGES[:n] for n in range(len(PAGES))]
    with ThreadPoolExecutor(len(batches)) as threads:
        answers = list(threads.map(engine.recognize, batches))
    for number, found in enumerate(answers):
        texts = [page.text for page in answer.pages]
        assert [page.text for page in found.pages] == texts[number:] + texts[:number]


def test_a_stream_that_is_closed_early_leaves_the_engine_usable(engine: Engine, answer: Answer):
    if not isinstance(engine, StreamingEngine):
        pytest.skip("not an engine that streams")
    stream = engine.stream(PAGES)
    next(stream)
    del stream
    assert [page.text for page in engine.recognize(PAGES).pages] == [page.text for page in answer.pages]


def test_what_an_engine_has_to_say_is_one_line(engine: Engine):
    assert engine.notice is None or (engine.notice and "\n" not in engine.notice)


def test_a_real_engine_reads_what_is_printed(engine: Engine, answer: Answer):
    if engine.name in FAKES:
        pytest.skip("the fake does not read")
    assert letters(answer.pages[0].text) == letters("".join(INVOICE))
    assert letters(answer.pages[1].text) == letters("".join(LETTER))


def test_a_blank_page_has_no_text(engine: Engine, answer: Answer):
    if engine.name in FAKES:
        pytest.skip("the fake names every page, also a blank one")
    assert answer.pages[BLANK] == Recognition("", answer.pages[BLANK].format)


def test_a_black_page_has_no_text(engine: Engine):
    if engine.name in FAKES:
        pytest.skip("the fake names every page, also a black one")
    assert read(engine, np.zeros((300, 200, 3), np.uint8)).text == ""


def test_reading_is_silent(engine: Engine, capfd: pytest.CaptureFixture[str]):
    engine.recognize(PAGES)
    assert capfd.readouterr() == ("", "")


def test_loading_is_silent(engine: Engine, capfd: pytest.CaptureFixture[str]):
    code = f"""
from pipeline.engines import load
kind = load({engine.name!r})
kind(kind.read_options([]))
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_rapidocr_reads_a_page_that_lies_on_its_side_or_head(rapid: RapidOcrEngine, quarters: int):
    upright = draw(INVOICE, 480, 200)
    turned = np.rot90(upright, quarters)
    result = read(rapid, turned)
    assert letters(result.text) == letters("".join(INVOICE))
    for line in result.lines:
        x0, y0, x1, y1 = (int(value) for value in line.bbox)
        assert turned[y0:y1, x0:x1].min() < 128, "a box must lie where the text stands on the raster it was given"


def test_rapidocr_does_not_turn_lines_that_stand_upright(rapid: RapidOcrEngine):
    """The classifier that comes with RapidOCR takes some of these lines for upside down."""
    lines = [
        "were more interested in recording the activities of the leaders of the church. Edgar mainly",
        "dominant religious and social force. It is seen by historians as a major achievement, and",
        "from Viking invasions for over a century when Edgar came to power, but there were none",
    ]
    assert letters(read(rapid, draw(lines, 1100, 200, size=24)).text) == letters("".join(lines))


@pytest.mark.parametrize("shape", [(1, 1), (11, 65), (156, 2544), (2544, 40), (3, 900)])
def test_rapidocr_takes_thin_and_tiny_pages(rapid: RapidOcrEngine, shape: tuple[int, int]):
    assert read(rapid, np.full(shape, 255, np.uint8)).text == ""


def test_rapidocr_refuses_a_page_that_no_frame_could_hold(rapid: RapidOcrEngine):
    with pytest.raises(ValueError, match="too long and thin"):
        read(rapid, np.full((1, 20_000), 255, np.uint8))
    with pytest.raises(ValueError, match="too long and thin"):
        read(rapid, np.full((60_000, 2), 255, np.uint8))


def test_rapidocr_finds_text_that_touches_the_edge(rapid: RapidOcrEngine):
    page = draw(["Margin notes"], 300, 60, size=30, x=0)
    inked = np.argwhere(page < 128)
    (top, left), (bottom, right) = inked.min(axis=0), inked.max(axis=0) + 1
    assert letters(read(rapid, page[top:bottom, left:right]).text) == "Marginnotes"


def test_rapidocr_reads_a_page_in_bands_as_in_one_piece(rapid: RapidOcrEngine, monkeypatch: pytest.MonkeyPatch):
    lines = [f"Line {i} of a page of some length" for i in range(30)]
    page = draw(lines, 500, 900, size=16)
    whole = read(rapid, page)
    monkeypatch.setattr("pipeline.engines.rapidocr.MAX_PIXELS", 200_000)
    assert [line.text for line in read(rapid, page).lines] == [line.text for line in whole.lines] == lines


def test_rapidocr_finds_the_only_line_of_a_large_page(rapid: RapidOcrEngine):
    page = draw(["five metre wide page"], 2097, 2097, size=44)
    assert letters(read(rapid, page).text) == "fivemetrewidepage"


def test_rapidocr_reads_the_columns_one_after_the_other(rapid: RapidOcrEngine):
    left = [f"the left column number {i} runs on" for i in range(8)]
    right = [f"the right column number {i} goes on" for i in range(8)]
    page = np.minimum(draw(left, 800, 300, size=20), draw(right, 800, 300, size=20, x=420))
    assert letters(read(rapid, page).text) == letters("".join(left + right))


def test_a_squeezed_line_reads_the_same_in_clean_print(rapid: RapidOcrEngine):
    page = draw(INVOICE, 480, 200)
    narrow = RapidOcrEngine(RapidOcrOptions(squeeze=0.75))
    assert letters(read(narrow, page).text) == letters(read(rapid, page).text)


@pytest.mark.parametrize("option", ["text_score=1.5", "text_score=-1", "squeeze=0.1", "threads=0", "threads=many"])
def test_rapidocr_refuses_options_out_of_range(option: str):
    with pytest.raises(ConfigurationError, match=option.partition("=")[0]):
        RapidOcrEngine.read_options([option])


def test_threads_do_not_make_a_page_be_read_again():
    one, four = (RapidOcrEngine.spec(RapidOcrOptions(threads=n)) for n in (1, 4))
    assert one.fingerprint_parts() == four.fingerprint_parts()
    assert four.needs.num_cpus == 4
    assert RapidOcrEngine.spec(RapidOcrOptions(squeeze=0.8)).fingerprint_parts() != one.fingerprint_parts()
