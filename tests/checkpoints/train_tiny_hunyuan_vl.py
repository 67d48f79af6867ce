"""Train the tiny HunYuanVL checkpoint that the tests read with: the real architecture really reads simple pages.

    python -m tests.checkpoints.train_tiny_hunyuan_vl OUT [--steps N] [--start FOLDER] [--rate R] [--font FILE]

It starts from random weights or from those of an earlier training. With a font, the glyphs that lie beside this script
are drawn again first. The same seed, number of threads and version of torch give the same weights.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn

from tests.checkpoints.grid import GLYPHS, draw_glyphs
from tests.checkpoints.lessons import Lessons, Losses
from tests.checkpoints.reading import Reader
from tests.checkpoints.tiny import make_model, make_processor, save

RATE, LEAST_SHARE, WARM_UP_STEPS = 2e-3, 0.01, 100
"""Learning rate at its height; it rises over the first steps, then falls along a cosine to a hundredth of that."""
SHAPES_A_STEP, CELLS_A_BATCH = 2, 900
"""Two shapes in every step: one alone pulls the weights its own way."""
FALSE_SHARES = (0.0, 0.1, 0.4)
OPEN_AT, OPEN_ABOVE, OPEN_BY = 0.12, 0.93, 0.03
"""Pages grow from one short line by this share of the largest as soon as so many tokens are right."""
CHECK_EVERY, SAY_EVERY, SAVE_EVERY = 25, 100, 500
FIRST_SEED_OF_PAGES = 1


class Trainer:
    """One model, its lessons, and how far it has come."""

    def __init__(self, seed: int, start: Path | None = None, rate: float = RATE) -> None:
        torch.manual_seed(seed)
        self.processor, self.rate = make_processor(), rate
        self.model = make_model(self.processor)
        if start:
            self.model.load_state_dict(type(self.model).from_pretrained(start, dtype=torch.float32).state_dict())
        self.lessons = Lessons(self.model, self.processor, FIRST_SEED_OF_PAGES + seed)
        self.losses = Losses(self.lessons)
        learned = [*self.model.parameters(), *self.losses.parameters()]
        self.optimizer = torch.optim.AdamW(learned, lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
        self.open_to = 1.0 if start else OPEN_AT

    def steps(self, count: int) -> Iterator[tuple[float, float]]:
        """Learn; give the loss and the share of right tokens of each step."""
        recent: list[float] = []
        for step in range(count):
            factor = min(1.0, (step + 1) / WARM_UP_STEPS) * (0.5 + 0.5 * math.cos(math.pi * step / count))
            for group in self.optimizer.param_groups:
                group["lr"] = self.rate * max(LEAST_SHARE, factor)
            loss, right = self._step()
            recent = [*recent[1 - CHECK_EVERY :], right]
            if (step + 1) % CHECK_EVERY == 0 and np.mean(recent) > OPEN_ABOVE:
                self.open_to = min(1.0, self.open_to + OPEN_BY)
            yield loss, right

    def _step(self) -> tuple[float, float]:
        self.optimizer.zero_grad(set_to_none=True)
        losses, shares = [], []
        for _ in range(SHAPES_A_STEP):
            lines, cells = self.lessons.shape(self.open_to)
            count = max(8, min(32, CELLS_A_BATCH // (lines * cells)))
            false_share = float(self.lessons.dice.choice(FALSE_SHARES))
            loss, share = self.losses(self.lessons.batch(count, lines, cells, false_share=false_share))
            (loss / SHAPES_A_STEP).backward()
            losses.append(loss.item())
            shares.append(share)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return float(np.mean(losses)), float(np.mean(shares))

    def train(self, count: int, out: Path) -> None:
        """All steps, with a word from time to time and weights in `out` that can be looked at meanwhile."""
        started, right = time.monotonic(), []
        for number, (loss, share) in enumerate(self.steps(count), start=1):
            right.append(share)
            if number % SAY_EVERY == 0:
                minutes = (time.monotonic() - started) / 60
                told = f"{number} steps, {minutes:.1f} min, loss {loss:.3f}, right {np.mean(right[-SAY_EVERY:]):.4f}"
                print(f"{told}, open to {self.open_to:.0%}", flush=True)
            if number % SAVE_EVERY == 0 or number == count:
                self.model.save_pretrained(out / "float32")
        save(self.model, self.processor, out)


def main() -> None:
    """Train, save in FP16, and read held-out pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=5500)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=Path, help="folder of weights to go on from")
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--font", type=Path)
    asked = parser.parse_args()
    if asked.font:
        np.savez_compressed(GLYPHS, glyphs=draw_glyphs(asked.font))
    torch.set_num_threads(asked.threads)
    trainer = Trainer(asked.seed, asked.start, asked.rate)
    print(sum(weights.numel() for weights in trainer.model.parameters()), "parameters")
    trainer.train(asked.steps, asked.out)
    print(Reader(asked.out).score(200))


if __name__ == "__main__":
    main()
