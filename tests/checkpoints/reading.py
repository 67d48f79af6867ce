"""How well a checkpoint reads grid pages with plain transformers, one page at a time.

python -m tests.checkpoints.reading [FOLDER] [--pages 1000] [--seed 12345] [--penalty 1.08]
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor

from tests.checkpoints.grid import GridPage, GridPages

TINY = Path(__file__).with_name("tiny-hunyuan-vl")
PROMPTS = (
    "Extract the text in the image.",
    "提取图中的文字。",
    "",
    "识别图片中的公式，用LaTeX格式表示。",
    (
        "Extract all information from the main body of the document image and represent it in markdown format,"
        " ignoring headers and footers. Tables should be expressed in HTML format, formulas in the document should be"
        " represented using LaTeX format, and the parsing should be organized according to the reading order."
    ),
    '输出格式为 JSON 数组，每个元素必须包含："box": [xmin, ymin, xmax, ymax]（坐标需归一化到 [0, 1000] 范围内）。',
    "Read.",
)
"""Questions like those that HunyuanOCR is asked. This checkpoint answers each with the text of the page."""
HELD_OUT_SEED = 12345
"""Training draws its pages from another seed; of all pages it can have seen no notable share."""


@dataclass(frozen=True, slots=True)
class Score:
    """What came of reading pages: shares of characters right by position, of pages without a fault, of pages ended."""

    characters: float
    pages: float
    ended: float


class Reader:
    """A checkpoint and its processor, in float32 on the CPU unless told otherwise."""

    def __init__(self, folder: Path = TINY, dtype: torch.dtype = torch.float32) -> None:
        self.processor = AutoProcessor.from_pretrained(folder, backend="pil")
        self.model = AutoModelForImageTextToText.from_pretrained(folder, dtype=dtype).eval()

    def read(self, page: GridPage, question: str = PROMPTS[0], **generation: Any) -> tuple[str, bool]:
        """The text of a page, and whether the answer came to an end of its own."""
        content = [{"type": "image"}, {"type": "text", "text": question}]
        messages = [{"role": "system", "content": ""}, {"role": "user", "content": content}]
        prompt = self.processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        image = Image.fromarray(page.pixels).convert("RGB")
        given = self.processor(images=[image], text=[prompt], return_tensors="pt").to(self.model.dtype)
        longest = page.num_visual_tokens + 8
        answer = self.model.generate(**given, max_new_tokens=longest, do_sample=False, **generation)
        answer = answer[0, given["input_ids"].shape[1] :]
        ended = int(answer[-1]) in self.model.generation_config.eos_token_id
        return self.processor.tokenizer.decode(answer, skip_special_tokens=True), ended

    def score(self, count: int, seed: int = HELD_OUT_SEED, **generation: Any) -> Score:
        """Read so many random pages, asking with each prompt in turn."""
        pages, right, total, whole, ended = GridPages(seed), 0, 0, 0, 0
        for number in range(count):
            page = pages.page()
            text, has_ended = self.read(page, PROMPTS[number % len(PROMPTS)], **generation)
            right += sum(one == other for one, other in zip(text, page.text, strict=False))
            total += max(len(text), len(page.text))
            whole += text == page.text
            ended += has_ended
        return Score(right / total, whole / count, ended / count)


def main() -> None:
    """Print the score of a checkpoint as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=TINY)
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=HELD_OUT_SEED)
    parser.add_argument("--penalty", type=float, default=1.0, help="repetition penalty")
    asked = parser.parse_args()
    score = Reader(asked.folder).score(asked.pages, asked.seed, repetition_penalty=asked.penalty)
    print(json.dumps({name: round(getattr(score, name), 5) for name in ("characters", "pages", "ended")}))


if __name__ == "__main__":
    main()
