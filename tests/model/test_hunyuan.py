"""The engine as its callers see it: its promises, what it refuses, how sure it is, boxes, and weights in few bits."""

from __future__ import annotations

import json
import math
import pickle
import shutil
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from pipeline.engines.generated import Decoding, Generated  # noqa: E402
from pipeline.engines.hunyuan import engine as module  # noqa: E402
from pipeline.engines.hunyuan import loading  # noqa: E402
from pipeline.engines.hunyuan.continuous import ContinuousReader, Pace  # noqa: E402
from pipeline.engines.hunyuan.engine import HunyuanEngine  # noqa: E402
from pipeline.engines.hunyuan.model import PageModel  # noqa: E402
from pipeline.engines.hunyuan.options import HunyuanOptions  # noqa: E402
from pipeline.engines.hunyuan.positions import rowwise  # noqa: E402
from pipeline.engines.hunyuan.static import model_inputs  # noqa: E402
from pipeline.engines.ladder import Kept  # noqa: E402
from pipeline.errors import ConfigurationError, DeviceOutOfMemoryError, EngineBrokenError  # noqa: E402
from pipeline.result import Answer, Effort, Finish, PageRead, Recognition  # noqa: E402
from tests.model.given import TINY, Sheet, load, loader, raster, read, tokens  # noqa: E402
from tests.model.simulated_memory import Memory  # noqa: E402

TOLD: dict[str, Any] = {"model": str(TINY), "task": "text", "language": "en", "device": "cpu", "max_new_tokens": 60}


@pytest.fixture(scope="module", params=["continuous", "static"])
def engine(request: pytest.FixtureRequest) -> HunyuanEngine:
    return HunyuanEngine(HunyuanOptions(**TOLD, decode=request.param, slots=4))


@pytest.fixture(scope="module")
def some(sheets: list[Sheet]) -> list[Sheet]:
    return sheets[:10]


@pytest.fixture(scope="module")
def answer(engine: HunyuanEngine, some: list[Sheet]) -> Answer:
    return engine.recognize([raster(sheet.pixels, number) for number, sheet in enumerate(some)])


# promises


def test_every_page_gets_one_result_in_order(answer: Answer, model: PageModel, some: list[Sheet]):
    assert [page.text for page in answer.pages] == [model.decode(sheet.alone.tokens) for sheet in some]
    assert all(isinstance(page, Recognition) and page.finish_reason is Finish.STOP for page in answer.pages)
    assert pickle.loads(pickle.dumps(answer)) == answer


def test_a_stream_tells_of_each_page_once_and_of_the_effort_last(engine: HunyuanEngine, some: list[Sheet]):
    *pages, effort = engine.stream([raster(sheet.pixels) for sheet in some])
    assert sorted(page.position for page in pages if isinstance(page, PageRead)) == list(range(len(some)))
    assert isinstance(effort, Effort)
    assert effort.gpu is None
    assert 0 <= (effort.idle_ratio or 0) < 1


def test_an_engine_that_was_widened_reads_so_many_pages_at_a_time_and_the_same_on_them(
    engine: HunyuanEngine, answer: Answer, some: list[Sheet]
):
    rasters = [raster(sheet.pixels, number) for number, sheet in enumerate(some)]
    for pages in (1, len(some), 4):
        engine.widen(pages)
        widened = engine.recognize(rasters)
        assert [page.text for page in widened.pages] == [page.text for page in answer.pages]
        assert (widened.effort.idle_ratio == 0) == (pages == 1)


def test_a_reader_that_was_widened_has_forgotten_what_was_reckoned_of_memory(model: PageModel):
    reader = ContinuousReader(model, Pace(num_slots=8, fits=lambda _: 1))
    assert reader.ceiling(100) == 1
    reader.widen(6)
    assert reader.ceiling(100) == 6


def test_gray_and_color_rasters_of_the_same_page_read_the_same(
    engine: HunyuanEngine, answer: Answer, some: list[Sheet]
):
    colored = [raster(np.repeat(sheet.pixels[..., None], 3, axis=2)) for sheet in some]
    assert [page.text for page in engine.recognize(colored).pages] == [page.text for page in answer.pages]


def test_rasters_may_be_read_only_and_not_contiguous_and_are_left_as_they_were(
    engine: HunyuanEngine, answer: Answer, some: list[Sheet]
):
    wide = np.zeros((some[0].pixels.shape[0], 2 * some[0].pixels.shape[1]), np.uint8)
    wide[:, ::2] = some[0].pixels
    before = wide.copy()
    (page,) = engine.recognize([raster(wide[:, ::2])]).pages
    assert page.text == answer.pages[0].text
    assert np.array_equal(wide, before)


def test_reading_is_silent(engine: HunyuanEngine, some: list[Sheet], capfd: pytest.CaptureFixture[str]):
    engine.recognize([raster(some[0].pixels)])
    assert capfd.readouterr() == ("", "")


# how sure it is


def test_confidence_is_what_transformers_says_of_the_same_tokens(answer: Answer, model: PageModel, some: list[Sheet]):
    theirs = load().model
    rowwise(theirs.model)
    for page, sheet in zip(answer.pages, some, strict=True):
        inputs = model_inputs(model, [model.patches(torch.from_numpy(sheet.pixels))])
        settings = {"max_new_tokens": 60, "do_sample": False, "output_scores": True, "return_dict_in_generate": True}
        written = theirs.generate(**inputs, **settings)
        ids = written.sequences[0, inputs["input_ids"].shape[1] :].tolist()
        scores = [step.log_softmax(-1)[0, token].item() for step, token in zip(written.scores, ids, strict=True)]
        assert ids[-1] in model.ends
        del scores[-1]
        assert page.mean_logprob == pytest.approx(sum(scores) / len(scores), abs=1e-4)
        assert page.min_logprob == pytest.approx(min(scores), abs=1e-4)
        assert page.confidence == pytest.approx(math.exp(page.mean_logprob))


class Spelled:
    """A model that decodes a token as the text at its place: to script what was spotted."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    def decode(self, tokens: Any) -> str:
        return "".join(self.texts[token] for token in tokens)


def test_spotted_lines_have_boxes_in_raster_pixels_and_scores_of_their_own(
    some: list[Sheet], monkeypatch: pytest.MonkeyPatch
):
    engine = HunyuanEngine(HunyuanOptions(**TOLD | {"task": "spotting"}))
    texts = ("Total", "(100,200),(500,400)", "17.50", "(0,500),(1000,1000)")
    monkeypatch.setattr(engine, "_model", Spelled(*texts))
    written = Generated((0, 1, 2, 3), (-0.1, -0.2, -0.9, -0.4), Finish.STOP)
    pixels = np.zeros((500, 2000), np.uint8)
    found = engine._recognition(raster(pixels), Kept(written, 4, 1))
    assert found.text == "Total\n17.50"
    first, second = found.lines
    assert (first.text, first.bbox) == ("Total", (200.0, 100.0, 1000.0, 200.0))
    assert (second.text, second.bbox) == ("17.50", (0.0, 250.0, 2000.0, 500.0))
    assert first.score == pytest.approx(math.exp(-0.1))
    assert second.min_logprob == -0.9
    assert found.note is None


def test_what_was_spotted_in_no_known_form_keeps_its_text_and_says_so(monkeypatch: pytest.MonkeyPatch):
    engine = HunyuanEngine(HunyuanOptions(**TOLD | {"task": "spotting"}))
    monkeypatch.setattr(engine, "_model", Spelled("Total 17.50 (1"))
    found = engine._recognition(raster(np.zeros((64, 64), np.uint8)), Kept(Generated((0,), (-0.1,), Finish.STOP), 1, 1))
    assert "Total 17.50" in found.text
    assert found.lines == ()
    assert found.note


def test_an_answer_that_was_not_finite_to_the_last_is_not_whole(engine: HunyuanEngine):
    broken = Generated((20, 21), (-0.1, -0.2), Finish.STOP, is_finite=False)
    found = engine._recognition(raster(np.zeros((64, 64), np.uint8)), Kept(broken, 2, 2, "said"))
    assert (found.finish_reason, found.note) == (Finish.LENGTH, "said")


# the device


def test_memory_that_is_not_there_and_a_broken_device_are_told_in_our_words():
    assert isinstance(module._translated(torch.OutOfMemoryError("no room")), DeviceOutOfMemoryError)
    assert isinstance(module._translated(torch.AcceleratorError("assert")), EngineBrokenError)
    other = ValueError("a page")
    assert module._translated(other) is other


def test_a_page_for_which_there_is_no_memory_fails_with_our_error(some: list[Sheet], monkeypatch: pytest.MonkeyPatch):
    plain = ContinuousReader.advance

    def short(self: ContinuousReader) -> Any:
        with Memory(capacity_bytes=10_000):
            return plain(self)

    monkeypatch.setattr(ContinuousReader, "advance", short)
    engine = HunyuanEngine(HunyuanOptions(**TOLD))
    with pytest.raises(DeviceOutOfMemoryError, match="simulated"):
        engine.recognize([raster(some[0].pixels)])


# what it refuses, and few bits


@pytest.mark.parametrize("ask", [HunyuanEngine, HunyuanEngine.spec], ids=["loaded", "declared"])
def test_a_checkpoint_of_another_model_is_refused_in_one_line(tmp_path: Path, ask: Any):
    folder = tmp_path / "other"
    shutil.copytree(TINY, folder)
    told = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    told["architectures"] = ["GotOcr2ForConditionalGeneration"]
    (folder / "config.json").write_text(json.dumps(told), encoding="utf-8")
    with pytest.raises(ConfigurationError) as refused:
        ask(HunyuanOptions(**TOLD | {"model": str(folder)}))
    assert str(refused.value) == (
        "other is a GotOcr2ForConditionalGeneration, the engine hunyuan reads with HunYuanVLForConditionalGeneration:"
        " try --engine vlm"
    )


@pytest.mark.parametrize("lacking", ["bitsandbytes", "accelerate"])
def test_few_bits_without_their_library_are_refused_with_what_to_install(lacking: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(loading, "find_spec", lambda name: None if name == lacking else util.find_spec("json"))
    assert loading.lack("int8") == f"--quantize needs {lacking}: pip install 'pagemill[quantize]'"
    assert loading.lack("") is None
    with pytest.raises(ConfigurationError, match=f"needs {lacking}"):
        HunyuanEngine(HunyuanOptions(**TOLD, quantize="int8"))


@pytest.fixture(scope="module", params=["int8", "int4"])
def few_bits(request: pytest.FixtureRequest) -> PageModel:
    pytest.importorskip("bitsandbytes")
    pytest.importorskip("accelerate")
    return loader(quantize=request.param).load("fp32")


def test_only_layers_of_the_language_model_are_in_few_bits(few_bits: PageModel):
    """The vision tower sees small print; and widths of it are odd enough for kernels to refuse."""
    floating = {name for name, weight in few_bits.model.named_parameters() if weight.is_floating_point()}
    layers = {name for name, weight in few_bits.model.named_parameters() if "language_model.layers" in name}
    assert {name for name in layers if "norm" not in name}.isdisjoint(floating)
    assert {name for name, _ in few_bits.model.named_parameters()} - floating <= layers


def test_few_bits_take_less_memory(few_bits: PageModel, model: PageModel):
    ours, plain = (loading.model_size(some.model, 1).weight_bytes for some in (few_bits, model))
    assert ours < 0.75 * plain


def test_few_bits_read_nearly_as_well_and_the_same_in_any_company(few_bits: PageModel, sheets: list[Sheet]):
    some = sheets[:24]
    pages = [sheet.pixels for sheet in some]
    alone = read(few_bits, pages, num_slots=1)
    assert tokens(read(few_bits, pages, num_slots=5)) == tokens(alone)
    assert tokens(read(few_bits, pages[::-1], Decoding(60), num_slots=8, steps_per_look=4))[::-1] == tokens(alone)
    same = sum(one.tokens == sheet.alone.tokens for one, sheet in zip(alone, some, strict=True))
    assert same > 18
