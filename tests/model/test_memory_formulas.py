"""What `memory` predicts is never less than what the code takes, and not much more: counted tensor by tensor."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from pipeline.engines.generated import Decoding  # noqa: E402
from pipeline.engines.hunyuan.cache import KeyValueCache  # noqa: E402
from pipeline.engines.hunyuan.choose import Chooser  # noqa: E402
from pipeline.engines.hunyuan.loading import model_size  # noqa: E402
from pipeline.engines.hunyuan.memory import ModelSize  # noqa: E402
from pipeline.engines.hunyuan.model import PageModel  # noqa: E402
from pipeline.engines.hunyuan.stepper import Stepper  # noqa: E402
from tests.model.given import CPU, QUESTION, TINY  # noqa: E402
from tests.model.simulated_memory import Memory  # noqa: E402

PENALIZED = Decoding(max_new_tokens=60, repetition_penalty=1.1)


def random_model(like: PageModel, dtype: Any, vision: dict[str, int], **text: int) -> PageModel:
    """Other widths, random weights."""
    told = json.loads((TINY / "config.json").read_text(encoding="utf-8"))
    told["text_config"] |= {"num_hidden_layers": 2, "vocab_size": 4000, **text}
    told["text_config"]["rope_parameters"]["mrope_section"] = [text["head_dim"] // 8] * 4
    told["vision_config"] |= {"out_hidden_size": text["hidden_size"], "text_hidden_size": text["hidden_size"], **vision}
    model = transformers.HunYuanVLForConditionalGeneration(transformers.HunYuanVLConfig(**told)).eval().to(dtype)
    return PageModel(model, like.tokenizer, like.pixel_format, QUESTION)


WIDE_EYES = {"hidden_size": 576, "intermediate_size": 2304}
NARROW_EYES = {"hidden_size": 144, "intermediate_size": 560}
HEADS = {"head_dim": 64, "num_attention_heads": 4}
SHAPES: dict[str, Any] = {
    "tiny": None,
    "like the real one, fp16": (torch.float16, WIDE_EYES, {"hidden_size": 256, "intermediate_size": 896, **HEADS}),
    "a wide perceptron, fp32": (torch.float32, NARROW_EYES, {"hidden_size": 256, "intermediate_size": 2048, **HEADS}),
    "much attention, fp16": (torch.float16, NARROW_EYES, {"hidden_size": 256, "intermediate_size": 300, **HEADS}),
}


@pytest.fixture(scope="module", params=SHAPES)
def sized(request: pytest.FixtureRequest, model: PageModel) -> tuple[PageModel, ModelSize]:
    shape = SHAPES[request.param]
    found = model if shape is None else random_model(model, shape[0], shape[1], **shape[2], num_key_value_heads=2)
    return found, model_size(found.model, found.decoder.cache_shape.token_bytes)


def expect_between(found: int, predicted: int) -> None:
    assert found <= predicted <= 2 * found


PAGES = [(1, (640, 480)), (4, (256, 256))]


@pytest.mark.parametrize(("count", "shape"), PAGES)
def test_the_vision_tower_and_the_reading_of_prompts(
    sized: tuple[PageModel, ModelSize], count: int, shape: tuple[int, int]
):
    model, size = sized
    with torch.inference_mode(), Memory() as memory:
        with memory.peak() as peak:
            patches = [model.patches(torch.from_numpy(np.zeros(shape, np.uint8))) for _ in range(count)]
            prompts = model.prompts(patches)
        expect_between(peak[0], size.vision_bytes(sum(len(page.values) for page in patches)))
        length = len(prompts[0])
        cache = KeyValueCache(model.decoder.cache_shape, num_slots=count, capacity=length, device=CPU)
        assert sum(tensor.nbytes for tensor in (*cache.keys, *cache.values)) == count * length * size.cache_token_bytes
        with memory.peak() as peak:
            model.decoder.prefill(cache, [one.embedded for one in prompts], [one.places for one in prompts], 0)
        expect_between(peak[0], size.prompt_bytes(count * length))


@pytest.mark.parametrize("num_slots", [2, 16])
def test_steps(sized: tuple[PageModel, ModelSize], num_slots: int):
    model, size = sized
    decoder = model.decoder
    with torch.inference_mode(), Memory() as memory:
        cache = KeyValueCache(decoder.cache_shape, num_slots=num_slots, capacity=64, device=CPU)
        with memory.peak() as peak:
            chooser = Chooser(num_slots, decoder.vocabulary_size, CPU)
            stepper = Stepper(decoder, chooser, num_slots=num_slots, graphs=False)
            for slot in range(num_slots):
                chooser.start(slot, PENALIZED, torch.tensor([2, 3, 4]))
            stepper.positions[:] = 30
            stepper.run(cache, num_rows=num_slots, highest=30, num_steps=4)
    expect_between(peak[0], num_slots * size.slot_bytes(0))


def test_weights_that_are_tied_count_once(model: PageModel):
    size = model_size(model.model, 1)
    assert size.weight_bytes == sum(tensor.nbytes for tensor in (*model.model.parameters(), *model.model.buffers()))
    assert size.weight_bytes < sum(tensor.nbytes for tensor in model.model.state_dict().values())
