"""What real checkpoints have that tiny ones lack: an end that their configuration does not tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from pipeline.engines.device import Place
from pipeline.engines.generated import Decoding
from pipeline.engines.loaded import Loaded
from pipeline.result import Finish
from tests.model import tiny


def ends_at_once(model: Any) -> None:
    """All tokens look alike, and after any of them the end of a message is the likeliest."""
    for name, weights in model.named_parameters():
        if "layers" in name:
            weights.zero_()
    for tokens in (model.get_input_embeddings().weight, model.get_output_embeddings().weight):
        tokens.fill_(1.0)
        tokens[len(tiny.BYTES) + 1] = 2.0


def test_got_ends_its_answers_with_a_token_that_nothing_but_its_processor_names(tmp_path: Path):
    """As on the hub: no end in generation_config.json, and <|endoftext|> as that of the tokenizer."""
    folder = tiny.make(tmp_path, "got", ends_at_once)
    settings = folder / "tokenizer_config.json"
    told = json.loads(settings.read_text(encoding="utf-8"))
    settings.write_text(json.dumps({**told, "eos_token": tiny.PAD}), encoding="utf-8")
    (folder / "generation_config.json").write_text("{}", encoding="utf-8")
    model = Loaded(folder, Place("cpu", "fp32"))
    (answer,) = model.write(model.prepare([np.zeros((40, 60), np.uint8)], ""), Decoding(5))
    assert (answer.tokens, answer.finish) == ((), Finish.STOP)


@pytest.mark.parametrize("channels", [(), (3,)])
def test_a_page_at_another_size_is_shown_smaller(tmp_path: Path, channels: tuple[int, ...]):
    model = Loaded(tiny.make(tmp_path, "lighton"), Place("cpu", "fp32"))
    page = np.random.default_rng(3).integers(0, 256, (112, 84, *channels), np.uint8)
    whole, smaller, shrunk = (
        model.prepare([pixels], "", scale) for pixels, scale in ((page, 1.0), (page, 0.8), (page[:90, :67], 1.0))
    )
    assert smaller["input_ids"].shape == shrunk["input_ids"].shape
    assert smaller["input_ids"].shape[1] < whole["input_ids"].shape[1]
