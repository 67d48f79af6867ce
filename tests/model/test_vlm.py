"""The engine for any vision-language model, on tiny random checkpoints of several families, on the CPU."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from pipeline.engines import load  # noqa: E402
from pipeline.engines.vlm import VlmEngine, VlmOptions  # noqa: E402
from pipeline.errors import ConfigurationError, EngineUnavailableError  # noqa: E402
from pipeline.page import Page, Raster, SizedPage  # noqa: E402
from pipeline.result import Answer, Finish, Recognition, Status  # noqa: E402
from tests.model import tiny  # noqa: E402

LIMIT = 24


def page(width_px: int, height_px: int, index: int, *, gray: bool = True) -> Raster:
    """Noise, read-only as rasters lie in shared memory."""
    shape = (height_px, width_px) if gray else (height_px, width_px, 3)
    pixels = np.random.default_rng(index).integers(0, 256, shape, np.uint8)
    pixels.flags.writeable = False
    sized = SizedPage(Page("file:///noise.pdf", "0" * 64, index, 9), width_px, height_px, 1 if gray else 3, 150.0, 0, 1)
    return Raster(sized, pixels)


PAGES = (page(480, 200, 0), page(620, 160, 1, gray=False), page(90, 130, 2), page(300, 420, 3), page(64, 64, 4))


@pytest.fixture(scope="module", params=tiny.FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.make(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def engine(folder: Path) -> VlmEngine:
    return VlmEngine(VlmOptions(model=str(folder), max_new_tokens=LIMIT, device="cpu"))


@pytest.fixture(scope="module")
def answer(engine: VlmEngine) -> Answer:
    return engine.recognize(PAGES)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of one family, for what is the same in all of them."""
    return tiny.make(tmp_path_factory.mktemp("plain"), "lighton")


def read(folder: Path, num_pages: int = 2, **asked: Any) -> tuple[Recognition, ...]:
    options = VlmOptions(**{"model": str(folder), "max_new_tokens": LIMIT, "device": "cpu", **asked})
    return VlmEngine(options).recognize(PAGES[:num_pages]).pages


def test_every_page_of_a_batch_gets_one_result(answer: Answer):
    assert len(answer.pages) == len(PAGES)
    assert all(isinstance(page, Recognition) for page in answer.pages)
    assert pickle.loads(pickle.dumps(answer)) == answer


def test_results_come_in_the_order_of_the_pages(engine: VlmEngine, answer: Answer):
    backwards = engine.recognize(PAGES[::-1])
    assert [page.text for page in backwards.pages[::-1]] == [page.text for page in answer.pages]
    assert len({page.text for page in answer.pages}) > 1, "pages make a difference"


def test_a_page_reads_the_same_alone_and_in_a_batch(engine: VlmEngine, answer: Answer):
    for page, result in zip(PAGES, answer.pages, strict=True):
        alone = engine.recognize([page]).pages[0]
        assert alone.text == result.text
        assert alone.mean_logprob == pytest.approx(result.mean_logprob, abs=1e-4)


def test_attention_is_never_eager_where_the_model_has_better(plain: Path):
    """Eager attention of a vision tower needs gigabytes for a page."""
    engine = VlmEngine(VlmOptions(model=str(plain), device="cpu"))
    config = engine._loaded[engine._places[0]]._model.config
    assert {part._attn_implementation for part in (config, config.vision_config, config.text_config)} == {"sdpa"}


def test_an_empty_batch_has_no_results(engine: VlmEngine):
    assert engine.recognize([]).pages == ()


def test_how_sure_the_model_was_is_told(answer: Answer):
    for result in answer.pages:
        assert result.mean_logprob is not None
        assert result.min_logprob is not None
        assert result.confidence == pytest.approx(math.exp(result.mean_logprob))
        assert result.min_logprob <= result.mean_logprob <= 0
        assert result.tries == 1
        assert result.note is None


def test_a_page_at_the_limit_is_truncated_and_never_silently_whole(answer: Answer):
    at_limit = [result for result in answer.pages if result.output_tokens == LIMIT]
    assert at_limit
    assert {(result.finish_reason, result.status) for result in at_limit} == {(Finish.LENGTH, Status.TRUNCATED)}
    assert all(r.finish_reason is Finish.STOP for r in answer.pages if r not in at_limit)


def test_time_and_idle_rows_are_told(answer: Answer):
    effort = answer.effort
    assert effort.timings.preprocess_s is not None
    assert effort.timings.decode_s is not None
    assert effort.idle_ratio is not None
    assert 0 <= effort.idle_ratio < 1


def test_loading_and_reading_is_silent(folder: Path, capfd: pytest.CaptureFixture[str]):
    code = f"""
from pipeline.engines.vlm import VlmEngine, VlmOptions
from tests.model.test_vlm import PAGES
VlmEngine(VlmOptions(model={str(folder)!r}, max_new_tokens=3, device="cpu")).recognize(PAGES)
"""
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=120, cwd=root)
    assert capfd.readouterr() == ("", "")


def repeats_itself(model: Any) -> None:
    """Whatever the page, the model is sure that an exclamation mark comes next."""
    for name, parameter in model.model.language_model.named_parameters():
        parameter.fill_(1.0 if "norm" in name or "embed" in name else 0.0)
    model.lm_head.weight.zero_()
    model.lm_head.weight[0] = 10.0


@pytest.fixture(scope="module")
def looping(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.make(tmp_path_factory.mktemp("looping"), "lighton", repeats_itself)


def test_a_model_that_repeats_itself_is_stopped_tried_again_and_cut_to_one_copy(looping: Path):
    (result,) = read(looping, 1, max_new_tokens=8192)
    assert (result.text, result.output_tokens) == ("!", 768)
    assert (result.finish_reason, result.status) == (Finish.REPETITION, Status.REPEATED)
    assert result.tries == 4
    assert "cut to one copy" in str(result.note)
    assert result.mean_logprob == pytest.approx(0.0, abs=1e-3)


def test_one_token_without_end_in_half_precision_is_read_in_full_precision_as_well(looping: Path):
    (result,) = read(looping, 1, max_new_tokens=1000, precision="bf16")
    assert result.tries == 5
    assert str(result.note).startswith("the answer turned into one token, read again in fp32; ")


def overflows(model: Any) -> None:
    """Hidden states beyond 65,504, the largest number of FP16."""
    block = model.model.language_model.layers[0].mlp
    block.up_proj.weight *= 1000.0
    block.down_proj.weight *= 1000.0


def test_numbers_beyond_half_precision_are_read_again_in_full_precision(tmp_path: Path):
    folder = tiny.make(tmp_path, "lighton", overflows)
    in_full = read(folder)
    in_half = read(folder, precision="fp16")
    assert [result.text for result in in_half] == [result.text for result in in_full]
    assert [result.note for result in in_full] == [None, None]
    for result in in_half:
        assert (result.tries, result.note) == (2, "logits were not finite, read again in fp32")


def test_numbers_that_are_finite_nowhere_are_said_to_be_so(tmp_path: Path):
    def breaks(model: Any) -> None:
        model.lm_head.weight[5] = float("nan")

    result = read(tiny.make(tmp_path, "lighton", breaks))[0]
    assert (result.text, result.status) == ("", Status.TRUNCATED)
    assert result.confidence is None
    assert "not finite to the last" in str(result.note)


def test_half_precision_reads_without_complaint_where_numbers_fit(plain: Path):
    assert [result.note for result in read(plain, precision="bf16")] == [None, None]


def test_a_prompt_of_ones_own_is_asked(plain: Path):
    assert read(plain, prompt="Translate this.")[0].text != read(plain)[0].text
    assert read(plain, prompt="Translate this.")[0].format == "text"
    assert VlmEngine.spec(VlmOptions(model=str(plain), prompt="Why?")).identity.task == "Why?"


def test_a_prompt_is_refused_before_anything_is_read_where_the_processor_words_it(tmp_path: Path):
    """GOT-OCR 2: text of one's own has no place for the image, so that every page would fail."""
    options = VlmOptions(model=str(tiny.make(tmp_path, "got")), prompt="Why?")
    for ask in (VlmEngine.spec, VlmEngine):
        with pytest.raises(ConfigurationError, match="leave the prompt out"):
            ask(options)


def test_a_specification_names_and_pins_the_model(plain: Path, tmp_path: Path):
    spec = VlmEngine.spec(VlmOptions(model=str(plain)))
    assert spec.identity.model == plain.name
    assert len(str(spec.identity.model_revision)) == 16
    assert spec.needs.memory_bytes > 3 << 30
    other = tiny.make(tmp_path / plain.name, "lighton", overflows)
    assert VlmEngine.spec(VlmOptions(model=str(other))).fingerprint() != spec.fingerprint()


def test_what_alters_no_text_does_not_make_a_page_be_read_again(plain: Path):
    def fingerprint(**asked: Any) -> str:
        return VlmEngine.spec(VlmOptions(model=str(plain), **asked)).fingerprint()

    assert fingerprint(device="cpu") == fingerprint(device="cuda", threads=4, batch_size=2)
    assert fingerprint() != fingerprint(max_new_tokens=5)
    assert fingerprint() != fingerprint(precision="bf16")


def test_the_gpu_is_needed_where_it_is_asked_for():
    assert VlmEngine.spec(VlmOptions(device="cuda")).needs.num_gpus == 1
    assert VlmEngine.spec(VlmOptions(device="cpu")).needs.num_gpus == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_said_to_be_missing(plain: Path):
    with pytest.raises(EngineUnavailableError, match="device=cpu"):
        VlmEngine(VlmOptions(model=str(plain), device="cuda"))


def test_no_model_is_refused_in_one_line():
    with pytest.raises(EngineUnavailableError, match="no model is named") as refused:
        VlmEngine(VlmOptions())
    assert "\n" not in str(refused.value)


def test_a_folder_that_is_no_model_to_see_with_is_refused_in_one_line(plain: Path, tmp_path: Path):
    for path in plain.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "processor_config.json").unlink()
    with pytest.raises(EngineUnavailableError, match="cannot be loaded") as refused:
        VlmEngine(VlmOptions(model=str(tmp_path), device="cpu"))
    assert "\n" not in str(refused.value)


def test_a_model_with_an_engine_of_its_own_is_left_to_it():
    folder = Path(__file__).resolve().parents[1] / "checkpoints" / "tiny-hunyuan-vl"
    with pytest.raises(EngineUnavailableError, match="--engine hunyuan"):
        VlmEngine.spec(VlmOptions(model=str(folder)))


@pytest.mark.parametrize(
    "option",
    ["precision=fp8", "device=tpu", "max_new_tokens=0", "dpi=0", "max_pixels=1", "batch_size=0", "threads=0", "dpi=x"],
)
def test_options_out_of_range_are_refused(option: str):
    with pytest.raises(ConfigurationError, match=option.partition("=")[0]):
        load("vlm").read_options([option])
