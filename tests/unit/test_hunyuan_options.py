"""What the HunyuanOCR engine can be told, and what it refuses in one line."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.engines.engine import text_options
from pipeline.engines.hunyuan.options import HunyuanOptions
from pipeline.errors import ConfigurationError


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"decode": "paged"}, "'decode' is one of continuous, static, not 'paged'"),
        ({"precision": "fp8"}, "'precision' is one of auto, fp16, bf16, fp32, not 'fp8'"),
        ({"device": "tpu"}, "'device' is one of auto, cpu, cuda, not 'tpu'"),
        ({"quantize": "int2"}, "'quantize' is one of int8, int4, not 'int2'"),
        ({"language": "fr"}, "'language' is one of zh, en, not 'fr'"),
        ({"max_new_tokens": 0}, "'max_new_tokens' must be at least 1, not 0"),
        ({"slots": -1}, "'slots' must be at least 0, not -1"),
        ({"threads": 0}, "'threads' must be at least 1, not 0"),
        ({"repetition_penalty": -0.1}, "'repetition_penalty' must be at least 0, not -0.1"),
        ({"repetition_penalty": float("nan")}, "'repetition_penalty' must be at least 0, not nan"),
        ({"dpi": 0.5}, "'dpi' must be at least 1, not 0.5"),
        ({"dpi": float("nan")}, "'dpi' must be at least 1, not nan"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(given: dict[str, Any], said: str):
    with pytest.raises(ConfigurationError) as refused:
        HunyuanOptions(**given)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_least_values_are_taken():
    assert HunyuanOptions(max_new_tokens=1, slots=0, threads=1, repetition_penalty=0, dpi=1).slots == 0


def test_only_what_alters_texts_makes_pages_be_read_again():
    ways = {"decode", "slots", "device", "graphs", "threads"}
    told = text_options(HunyuanOptions())
    assert not ways & set(told)
    assert {"task", "language", "prompt", "max_new_tokens", "repetition_penalty", "precision", "quantize"} <= set(told)
