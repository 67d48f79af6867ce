"""What is done otherwise than in transformers, and why: when one of these tests fails, a workaround can go."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from PIL import Image  # noqa: E402

from pipeline.engines.hunyuan.model import PageModel  # noqa: E402
from pipeline.engines.hunyuan.positions import rowwise  # noqa: E402
from pipeline.engines.hunyuan.static import model_inputs  # noqa: E402
from tests.model.given import QUESTION, TINY, Sheet, load  # noqa: E402

SAME = 1e-4


@pytest.fixture(scope="module")
def theirs() -> Any:
    """The model of transformers, as it is."""
    return load().model


@pytest.fixture(scope="module")
def by_row() -> Any:
    """The same, placing each row by itself."""
    model = load().model
    rowwise(model.model)
    return model


@pytest.fixture(scope="module")
def processor() -> Any:
    return transformers.AutoProcessor.from_pretrained(TINY, backend="pil", local_files_only=True)


@pytest.fixture(scope="module")
def processed(processor: Any, sheets: list[Sheet]) -> dict[str, Any]:
    """Four pages of different lengths, as the processor of transformers makes a batch of them."""
    content = [{"type": "image"}, {"type": "text", "text": QUESTION}]
    messages = [{"role": "system", "content": ""}, {"role": "user", "content": content}]
    prompt = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    images = [Image.fromarray(sheet.pixels).convert("RGB") for sheet in company(sheets)]
    return dict(processor(images=images, text=[prompt] * len(images), padding=True, return_tensors="pt"))


def company(sheets: list[Sheet]) -> list[Sheet]:
    """Pages of four lengths, the first the shortest."""
    by_size = sorted({sheet.pixels.size: sheet for sheet in sheets}.values(), key=lambda sheet: sheet.pixels.size)
    return by_size[1 :: len(by_size) // 4][:4]


def last_logits(model: Any, inputs: dict[str, Any]) -> Any:
    with torch.inference_mode():
        return model(**inputs).logits[:, -1]


def test_the_image_of_a_late_row_is_placed_where_an_earlier_one_would_be(
    model: PageModel, theirs: Any, sheets: list[Sheet]
):
    """`get_rope_index` counts images on from row to row, so that one page differs between rows: hence `positions`.

    If this fails, upstream sets the count back: let transformers compute positions again, and drop `rowwise`.
    """
    page = model.patches(torch.from_numpy(sheets[0].pixels))
    logits = last_logits(theirs, model_inputs(model, [page] * 4))
    assert (logits[3] - logits[0]).abs().max() > 30 * SAME
    inputs = model_inputs(model, [page] * 4)
    given = (inputs["input_ids"], inputs["mm_token_type_ids"], inputs["image_grid_thw"], inputs["attention_mask"])
    places, _ = theirs.model.get_rope_index(*given)
    assert places[-1, 3].ne(places[-1, 0]).any()


def test_rows_placed_by_themselves_have_the_same_logits(model: PageModel, by_row: Any, sheets: list[Sheet]):
    page = model.patches(torch.from_numpy(sheets[0].pixels))
    logits = last_logits(by_row, model_inputs(model, [page] * 4))
    assert (logits - logits[0]).abs().max() < SAME


def test_padding_on_the_left_changes_no_token_and_no_position(
    model: PageModel, by_row: Any, processed: dict[str, Any], sheets: list[Sheet]
):
    pages = [model.patches(torch.from_numpy(sheet.pixels)) for sheet in company(sheets)]
    lengths = processed["attention_mask"].sum(1)
    assert len(set(lengths.tolist())) == 4, "else nothing is padded"
    given = (processed[name] for name in ("input_ids", "mm_token_type_ids", "image_grid_thw", "attention_mask"))
    places, _ = by_row.model.get_rope_index(*given)
    with torch.inference_mode():
        prompts = model.prompts(pages)
    for row, (prompt, length) in enumerate(zip(prompts, lengths, strict=True)):
        assert processed["attention_mask"][row, -length:].all()
        assert torch.equal(processed["input_ids"][row, -length:], prompt.tokens)
        assert torch.equal(places[:, row, -length:], prompt.places)


def test_padding_on_the_left_changes_no_logits(
    model: PageModel, by_row: Any, processed: dict[str, Any], sheets: list[Sheet]
):
    padded = last_logits(by_row, processed)
    for row, sheet in enumerate(company(sheets)):
        alone = model_inputs(model, [model.patches(torch.from_numpy(sheet.pixels))])
        assert alone["attention_mask"].all()
        assert (padded[row] - last_logits(by_row, alone)[0]).abs().max() < SAME


def test_pixels_are_those_of_the_processor(model: PageModel, processed: dict[str, Any], sheets: list[Sheet]):
    ours = torch.cat([model.patches(torch.from_numpy(sheet.pixels)).values for sheet in company(sheets)])
    assert (ours - processed["pixel_values"]).abs().max() < 1e-6
