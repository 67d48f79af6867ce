"""HunyuanOCR's decoding: plain `generate` of transformers against static and continuous batches, in one run.

    python benchmarks/decode.py [--device cuda] [--dpi 144] [--pages 256] [--slots 8 32] [--rounds 3] [--json FILE]

No weights are needed: they are random, of the shape of HunyuanOCR 1.0 on a GPU (0.9 billion parameters, FP16), and of
a small shape on the CPU (float32). Pages are A4, one in five lying on its side. How long an answer is does not come
from the model but from a long-tailed distribution: log-normal, median 400 tokens, 95th percentile 1,800, cut at
4,096, scaled on the CPU to a tenth. Every way of reading writes exactly these tokens:

* `generate`, batch 1: what most examples show;
* `generate`, batch 8, in the order of arrival: every row waits for the longest;
* `generate`, batch 8, pages sorted by visual tokens: static batches as the pipeline packs them;
* continuous, with so many slots: when a row ends, the next page takes its place.

They take turns, round by round; figures are medians, and what counts is the ratio. A way that is slow on the device is
given fewer pages (`--pages` counts those of the widest one); rates are of what it read.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForImageTextToText, GenerationConfig, HunYuanVLConfig

from pipeline.engines.generated import Decoding
from pipeline.engines.hunyuan.continuous import ContinuousReader, Pace
from pipeline.engines.hunyuan.model import PageModel
from pipeline.engines.hunyuan.pixels import PixelFormat
from pipeline.engines.hunyuan.rows import Reading
from pipeline.engines.hunyuan.static import model_inputs

MEDIAN_TOKENS, P95_TOKENS, MOST_TOKENS = 400, 1800, 4096
SIGMA = math.log(P95_TOKENS / MEDIAN_TOKENS) / 1.6449
A4_INCHES = (8.27, 11.69)
CELL_PX = 32
WARM_PAGES = 16
IMAGE_TOKEN, PROMPT_TOKENS = 3, 24

LARGE = {
    "text": {"hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 24, "num_attention_heads": 16}
    | {"num_key_value_heads": 8, "head_dim": 128, "vocab_size": 120_818, "max_position_embeddings": 32_768},
    "vision": {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16},
    "mrope_section": [16, 16, 16, 16],
}
"""HunyuanOCR 1.0 (config.json of tencent/HunyuanOCR)."""

SMALL = {
    "text": {"hidden_size": 128, "intermediate_size": 448, "num_hidden_layers": 4, "num_attention_heads": 4}
    | {"num_key_value_heads": 2, "head_dim": 32, "vocab_size": 4096, "max_position_embeddings": 4096},
    "vision": {"hidden_size": 128, "intermediate_size": 480, "num_hidden_layers": 2, "num_attention_heads": 4},
    "mrope_section": [4, 4, 4, 4],
}
"""An eighth of the width, and depths such that looking, reading and writing share the time about as on a GPU."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page's raster, gray, and how many tokens its answer has."""

    pixels: NDArray[np.uint8]
    num_tokens: int


@dataclass(frozen=True, slots=True)
class Way:
    """One way of reading, with the number of pages that it is given; `read` gives the share of idle slots."""

    name: str
    num_pages: int
    read: Callable[[Sequence[Page]], float]


def make_model(shape: dict[str, Any], device: torch.device) -> PageModel:
    """A model with random weights, asked with a prompt of random tokens."""
    rope = {"rope_type": "dynamic", "alpha": 1000.0, "factor": 1.0, "rope_theta": 10_000.0}
    text = shape["text"] | {"rope_parameters": rope | {"mrope_section": shape["mrope_section"]}}
    hidden = text["hidden_size"]
    vision = shape["vision"] | {"out_hidden_size": hidden, "text_hidden_size": hidden}
    config = HunYuanVLConfig(text_config=text, vision_config=vision, image_token_id=IMAGE_TOKEN, im_start_id=4)
    torch.manual_seed(0)
    with device:
        model = AutoModelForImageTextToText.from_config(
            config, dtype=torch.float16 if device.type == "cuda" else torch.float32, attn_implementation="sdpa"
        )
    pixels = PixelFormat((0.48, 0.46, 0.41), (0.27, 0.26, 0.28))
    return PageModel(model.eval(), _tokenizer(), pixels, "Extract the text.")


def _tokenizer() -> Any:
    """As much of a tokenizer as a prompt needs: a fixed list of ids with the image among them."""
    ids = [5, IMAGE_TOKEN, *range(6, 6 + PROMPT_TOKENS)]

    class Tokenizer(SimpleNamespace):
        def __call__(self, *_: Any, **__: Any) -> dict[str, list[int]]:
            return {"input_ids": ids}

    return Tokenizer(apply_chat_template=lambda *_, **__: "")


def make_pages(count: int, dpi: float, scale: float, seed: int) -> list[Page]:
    """Pages with specks for ink, and answers of the length that `scale` times the distribution gives."""
    dice = np.random.default_rng(seed)
    pages = []
    for _ in range(count):
        sides = [max(1, round(inches * dpi / CELL_PX)) * CELL_PX for inches in A4_INCHES]
        width, height = sides if dice.random() >= 0.2 else reversed(sides)
        drawn = min(MOST_TOKENS, dice.lognormal(math.log(MEDIAN_TOKENS), SIGMA))
        pixels = np.where(dice.random((height, width)) < 0.1, 0, 255).astype(np.uint8)
        pages.append(Page(pixels, max(1, round(drawn * scale))))
    return pages


@torch.inference_mode()
def plain(model: PageModel, pages: Sequence[Page], batch_size: int) -> float:
    """`generate` as it comes, batch after batch; each batch lasts as long as its longest answer."""
    steps = written = 0
    for first in range(0, len(pages), batch_size):
        batch = pages[first : first + batch_size]
        inputs = model_inputs(model, [model.patches(torch.from_numpy(p.pixels).to(model.device)) for p in batch])
        longest = max(page.num_tokens for page in batch)
        told = GenerationConfig(max_new_tokens=longest, do_sample=False, eos_token_id=None, pad_token_id=0)
        made = model.model.generate(**inputs, generation_config=told)
        assert made.shape[1] == inputs["input_ids"].shape[1] + longest
        steps += longest * len(batch)
        written += sum(page.num_tokens for page in batch)
    return 1 - written / steps


def continuous(model: PageModel, pages: Sequence[Page], num_slots: int) -> float:
    """Slots that are filled as they become free."""
    is_gpu = model.device.type == "cuda"
    pace = Pace(num_slots, vision_pages=8, steps_per_look=8 if is_gpu else 1, graphs=is_gpu)
    reader = ContinuousReader(model, pace)
    reader.add([Reading(page, page.pixels, Decoding(page.num_tokens), is_forced=True) for page in pages])
    while not reader.is_idle:
        for ended in reader.advance():
            assert len(ended.result.tokens) == ended.reading.owner.num_tokens, ended.result
    return reader.clock.idle / max(1, reader.clock.slots)


def ways(model: PageModel, num_pages: int, slots: Sequence[int]) -> list[Way]:
    """What is compared. On a GPU, the slow ways get fewer pages."""
    few, some = (max(2, num_pages // 24), max(8, num_pages // 4)) if model.device.type == "cuda" else (num_pages,) * 2

    def by_length(pages: Sequence[Page]) -> list[Page]:
        return sorted(pages, key=lambda page: -len(model.prompt_tokens(model.patches(torch.from_numpy(page.pixels)))))

    return [
        Way("generate, batch 1", few, lambda pages: plain(model, pages, 1)),
        Way("generate, batch 8, as they come", some, lambda pages: plain(model, pages, 8)),
        Way("generate, batch 8, sorted", some, lambda pages: plain(model, by_length(pages), 8)),
        *(Way(f"continuous, {n} slots", num_pages, lambda pages, n=n: continuous(model, pages, n)) for n in slots),
    ]


def measured(way: Way, pages: Sequence[Page], device: torch.device) -> dict[str, float]:
    """Rates of one pass over the pages."""
    given = pages[: way.num_pages]
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
    started = time.perf_counter()
    idle = way.read(given)
    if device.type == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    tokens = sum(page.num_tokens for page in given)
    peak = torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else 0.0
    rates = {"pages_per_s": len(given) / seconds, "tokens_per_s": tokens / seconds}
    return rates | {"idle_ratio": idle, "peak_gib": peak, "seconds": seconds}


def main() -> None:
    """Measure and print a table, tokens a second against batch 8 in the order of arrival."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dpi", type=float, default=0, help="144 on a GPU, 36 on the CPU")
    parser.add_argument("--pages", type=int, default=256)
    parser.add_argument("--slots", type=int, nargs="+", default=[8])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    device = torch.device(asked.device)
    is_gpu = device.type == "cuda"
    model = make_model(LARGE if is_gpu else SMALL, device)
    pages = make_pages(asked.pages, asked.dpi or (144 if is_gpu else 36), 1.0 if is_gpu else 0.1, asked.seed)
    compared = ways(model, asked.pages, asked.slots)
    for way in compared:
        way.read(pages[:WARM_PAGES])
    found: dict[str, list[dict[str, float]]] = {way.name: [] for way in compared}
    for number in range(asked.rounds):
        for way in compared[number % len(compared) :] + compared[: number % len(compared)]:
            found[way.name].append(measured(way, pages, device))
            print(f"round {number + 1}: {way.name}: {found[way.name][-1]['seconds']:.1f} s", flush=True)
    lengths = sorted(page.num_tokens for page in pages)
    prompt = len(model.prompt_tokens(model.patches(torch.from_numpy(pages[0].pixels))))
    print(
        f"{len(pages)} pages of {prompt} prompt tokens, answers of {lengths[len(lengths) // 2]} tokens in the median,"
    )
    print(
        f"{lengths[int(0.95 * len(lengths))]} at the 95th percentile, {lengths[-1]} at most; torch {torch.__version__}"
    )
    print_table(found, compared[1].name)
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


def print_table(found: dict[str, list[dict[str, float]]], base: str) -> None:
    """Medians over the rounds; the ratio is the median of the rounds' ratios."""
    print(f"{'':32} {'pages/s':>8} {'tokens/s':>9} {'ratio':>6} {'idle':>5} {'GiB':>6}")
    for name, rounds in found.items():
        ratios = [one["tokens_per_s"] / other["tokens_per_s"] for one, other in zip(rounds, found[base], strict=True)]
        middle = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
        print(
            f"{name:32} {middle['pages_per_s']:8.2f} {middle['tokens_per_s']:9.0f} {statistics.median(ratios):6.2f}"
            f" {middle['idle_ratio']:5.0%} {middle['peak_gib']:6.1f}"
        )


if __name__ == "__main__":
    main()
