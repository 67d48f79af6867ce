"""The checkpoint that tests read with: loaded as one from the hub is, it reads grid pages that it has never seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.checkpoints.grid import LETTERS, MAX_LINES, GridPages

pytest.importorskip("torch", reason="the extra `torch` is not installed")
pytest.importorskip("transformers", reason="the extra `torch` is not installed")

if TYPE_CHECKING:
    from tests.checkpoints.reading import Reader

FOLDER = Path(__file__).parents[1] / "checkpoints" / "tiny-hunyuan-vl"
LEAST_RIGHT = 0.995
"""Share of characters."""


@pytest.fixture(scope="module")
def reader() -> Reader:
    import torch

    from tests.checkpoints.reading import Reader

    torch.set_num_threads(1)
    return Reader(FOLDER)


def test_it_has_the_files_of_the_hubs_repository_and_half_precision_weights():
    assert {path.name for path in FOLDER.iterdir()} == {
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "preprocessor_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    weights = (FOLDER / "model.safetensors").read_bytes()
    header = json.loads(weights[8 : 8 + int.from_bytes(weights[:8], "little")])
    assert {tensor["dtype"] for name, tensor in header.items() if name != "__metadata__"} == {"F16"}
    assert len(weights) < 4_000_000


def test_it_is_loaded_by_the_auto_classes(reader: Reader):
    assert type(reader.model).__name__ == "HunYuanVLForConditionalGeneration"
    assert type(reader.processor).__name__ == "HunYuanVLProcessor"
    ends = [reader.processor.tokenizer.decode([token]) for token in reader.model.generation_config.eos_token_id]
    assert ends == ["<｜hy_Assistant｜>", "<｜hy_place▁holder▁no▁2｜>"]
    assert reader.processor.tokenizer.padding_side == "left"


def test_it_has_a_token_for_each_letter_and_one_for_a_run_of_what_it_does_not_know(reader: Reader):
    tokenizer = reader.processor.tokenizer
    text = f"{LETTERS} \n"
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text
    assert tokenizer("识别 words", add_special_tokens=False)["input_ids"] == [tokenizer.unk_token_id]
    apart = tokenizer("A 识别 B", add_special_tokens=False)["input_ids"]
    assert tokenizer.convert_ids_to_tokens(apart) == ["A", tokenizer.unk_token, "B"]


@pytest.mark.parametrize(("lines", "cells"), [(1, 1), (1, 2), (4, 8), (64, 64)])
def test_no_page_is_resized_from_one_cell_to_the_largest(reader: Reader, lines: int, cells: int):
    height_px, width_px = 32 * lines, 32 * cells
    grid = reader.processor.image_processor.get_number_of_image_patches(height_px, width_px)
    assert tuple(grid) == (2 * lines, 2 * cells)


@pytest.mark.parametrize("generation", [{}, {"repetition_penalty": 1.08}], ids=["plain", "with repetition penalty"])
def test_it_reads_pages_that_it_has_never_seen_and_ends(reader: Reader, generation: dict[str, Any]):
    score = reader.score(40, **generation)
    assert score.characters >= LEAST_RIGHT
    assert score.ended == 1


def test_it_reads_short_pages_of_every_number_of_lines(reader: Reader):
    pages = [GridPages(7).page(lines, 4) for lines in range(1, MAX_LINES + 1)]
    assert [reader.read(page) for page in pages] == [(page.text, True) for page in pages]
