"""What the tiny HunYuanVL is taught with: batches of grid pages of one size, and how wrong it is about them.

Three losses. The answer, token by token, some letters of what it is shown of it being false: else the model would guess
from the answer so far and not look at the page. The letter in each cell, said by the visual token itself through the
language model's own head, which teaches the vision tower in a minute. And, before the last layer, where each visual
token stands and where the letter that comes next does; its two heads are thrown away after training.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from transformers import HunYuanVLForConditionalGeneration, HunYuanVLProcessor

from tests.checkpoints.grid import LETTERS, MAX_CELLS, MAX_LINES, GridPages
from tests.checkpoints.tiny import HIDDEN, token_ids

PATCH_PX = 16
PLACE_WEIGHT = 0.3
SHORT_PROMPT, LONG_PROMPT = 10, 64
"""Most tokens of a prompt: half of them are of any length up to the one, half up to the other."""
NUM_BEFORE_IMAGE = 3
"""Tokens of a prompt before the image's own: begin, system, image start."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Pages of one size, ready for the model. Tokens are int64."""

    seen: Tensor
    """What the vision tower made of them: shape (pages, visual tokens, hidden)."""
    rows: Tensor
    """Prompt and answer of each page: shape (pages, tokens)."""
    given: Tensor
    """The same as the model is shown them, some letters of the answers false."""
    num_before: int
    """Tokens of the prompt."""
    lines: int
    cells: int
    letters: Tensor
    """What stands in each cell: shape (pages, lines * cells)."""


class Lessons:
    """Random batches for one model."""

    def __init__(self, model: HunYuanVLForConditionalGeneration, processor: HunYuanVLProcessor, seed: int) -> None:
        self.model, self.pages = model, GridPages(seed)
        self.dice = np.random.default_rng(seed + 1)
        self.ids = token_ids(processor)
        self.code = {chr(c): processor.tokenizer.convert_tokens_to_ids(chr(c)) for c in [10, *range(32, 127)]}
        images = processor.image_processor
        self._mean = torch.tensor(images.image_mean)[None, None, :, None, None]
        self._std = torch.tensor(images.image_std)[None, None, :, None, None]

    def shape(self, open_to: float) -> tuple[int, int]:
        """Lines and cells of a batch: up to a share of the most, and large ones more often, since they are harder."""
        most_lines, most_cells = max(1, round(MAX_LINES * open_to)), max(4, round(MAX_CELLS * open_to))
        draws = 2 if self.dice.random() < 0.5 else 1
        lines = int(self.dice.integers(1, most_lines + 1, draws).max())
        return lines, int(self.dice.integers(2, most_cells + 1, draws).max())

    def batch(self, count: int, lines: int, cells: int, *, false_share: float) -> Batch:
        """Random pages of one size, this share of the letters that the model is shown of the answers being false."""
        texts, ids = [self.pages.text(lines, cells) for _ in range(count)], self.ids
        images = torch.from_numpy(np.stack([self.pages.pixels(text) for text in texts]))
        seen = visual_tokens(self.model, self._patches(images), (2 * lines, 2 * cells))
        span = [ids["image"]] * seen.shape[1]
        before = [
            ids["begin"],
            ids["system"],
            ids["image_start"],
            *span,
            ids["image_end"],
            *self._prompt(),
            ids["user"],
        ]
        answers = [[self.code[letter] for letter in text] + [ids["end"]] for text in texts]
        longest = max(map(len, answers))
        rows = torch.tensor([before + answer + [ids["pad"]] * (longest - len(answer)) for answer in answers])
        given = rows.clone()
        self._spoil(given[:, len(before) :], false_share)
        shown = ["".join(row.ljust(cells) for row in text.split("\n")) for text in texts]
        letters = torch.tensor([[self.code[letter] for letter in page] for page in shown])
        return Batch(seen, rows, given, len(before), lines, cells, letters)

    def _prompt(self) -> list[int]:
        """Tokens of a prompt of any length: half of them of characters, half of unknown words."""
        most = SHORT_PROMPT if self.dice.random() < 0.5 else LONG_PROMPT
        length = int(self.dice.integers(most + 1))
        if self.dice.random() < 0.5:
            return [self.ids["unknown"]] * length
        return [int(code) for code in self.dice.integers(self.code[" "], self.code["~"] + 1, length)]

    def _spoil(self, answer: Tensor, share: float) -> None:
        """Put false letters in place of some; ends of lines and of answers stay."""
        if not share:
            return
        letters = torch.tensor([self.code[letter] for letter in LETTERS])
        is_letter = (answer != self.code["\n"]) & (answer != self.ids["end"]) & (answer != self.ids["pad"])
        spoiled = is_letter & (torch.rand(answer.shape) < share)
        answer[spoiled] = letters[torch.randint(len(letters), (int(spoiled.sum()),))]

    def _patches(self, images: Tensor) -> Tensor:
        """As the image processor makes them: float, shape (pages, patches, 3 * 16 * 16), row by row."""
        count, height, width = images.shape
        cut = images.reshape(count, height // PATCH_PX, PATCH_PX, width // PATCH_PX, PATCH_PX)
        parts = cut.permute(0, 1, 3, 2, 4).reshape(count, -1, 1, PATCH_PX, PATCH_PX)
        return ((parts.float() / 255 - self._mean) / self._std).flatten(2)

    def hidden(self, batch: Batch, given: Tensor) -> tuple[Tensor, Tensor]:
        """Last hidden states and those before the last layer: shape (pages, tokens, hidden)."""
        text = self.model.model
        kinds = (given[:1] == self.ids["image"]).int()
        grid = torch.tensor([[1, 2 * batch.lines, 2 * batch.cells]])
        places, _ = text.get_rope_index(given[:1], kinds, grid)
        embedded = text.language_model.embed_tokens(given)
        after = NUM_BEFORE_IMAGE + batch.seen.shape[1]
        embedded = torch.cat([embedded[:, :NUM_BEFORE_IMAGE], batch.seen, embedded[:, after:]], dim=1)
        made = text.language_model(
            inputs_embeds=embedded,
            position_ids=places.expand(-1, len(given), -1),
            use_cache=False,
            output_hidden_states=True,
        )
        return made.last_hidden_state, made.hidden_states[-2]


def visual_tokens(model: HunYuanVLForConditionalGeneration, patches: Tensor, grid: tuple[int, int]) -> Tensor:
    """What the vision tower makes of pages of one size: shape (pages, tokens, hidden).

    The tower itself takes the patches of all images in one row; with a batch dimension training is eight times faster.
    """
    tower = model.model.vision_tower
    count, num, _ = patches.shape
    pixels = patches.reshape(count * num, 3, PATCH_PX, PATCH_PX)
    hidden = tower.embeddings.patch_embedding(pixels).flatten(1).reshape(count, num, -1)
    hidden = hidden + tower.embeddings.interpolate_pos_encoding(hidden, *grid)
    whole = torch.tensor([0, num], dtype=torch.int32)
    for layer in tower.layers:
        hidden = layer(hidden, cu_seqlens=whole, max_seqlen=num, attention_mask=None)
    return tower.patch_merger(hidden, size=grid)


class Losses(nn.Module):
    """How wrong a model is about a batch. Holds the heads that are thrown away."""

    def __init__(self, lessons: Lessons) -> None:
        super().__init__()
        self._lessons = [lessons]  # within a list, so that the model is no part of this module
        self.line_head = nn.Linear(HIDDEN, MAX_LINES + 1)
        self.cell_head = nn.Linear(HIDDEN, MAX_CELLS + 2)

    def forward(self, batch: Batch) -> tuple[Tensor, float]:
        """Loss of a batch, and the share of right tokens."""
        (lessons,) = self._lessons
        last, earlier = lessons.hidden(batch, batch.given)
        logits = lessons.model.lm_head(last[:, batch.num_before - 1 : -1])
        wanted = batch.rows[:, batch.num_before :]
        keep = wanted != lessons.ids["pad"]
        loss = nn.functional.cross_entropy(logits[keep], wanted[keep])
        loss = loss + self._letters(batch) + PLACE_WEIGHT * self._places(batch, earlier, wanted)
        return loss, float((logits[keep].argmax(-1) == wanted[keep]).float().mean())

    def _letters(self, batch: Batch) -> Tensor:
        (lessons,) = self._lessons
        grid = batch.seen[:, 1:-1].reshape(len(batch.rows), batch.lines, batch.cells + 1, -1)
        said = lessons.model.lm_head(grid[:, :, : batch.cells])
        return nn.functional.cross_entropy(said.flatten(0, 2), batch.letters.flatten())

    def _places(self, batch: Batch, earlier: Tensor, wanted: Tensor) -> Tensor:
        (lessons,) = self._lessons
        count, lines, columns = len(batch.rows), batch.lines, batch.cells + 1
        start = NUM_BEFORE_IMAGE + 1
        grid = earlier[:, start : start + lines * columns].reshape(count, lines, columns, -1)
        of_row = torch.arange(lines)[None, :, None].expand(count, lines, columns)
        of_cell = torch.arange(columns)[None, None].expand(count, lines, columns)
        breaks = wanted == lessons.code["\n"]
        line = (breaks.cumsum(1) - breaks.long()).clamp(max=MAX_LINES)
        order = torch.arange(wanted.shape[1])[None].expand_as(wanted)
        starts = torch.where(breaks, order + 1, 0)
        starts = torch.cat([torch.zeros_like(starts[:, :1]), starts[:, :-1]], 1).cummax(1).values
        cell = order - starts
        keep = (wanted != lessons.ids["pad"]) & (cell <= MAX_CELLS)
        hidden = torch.cat([grid.flatten(0, 2), earlier[:, batch.num_before - 1 : -1][keep]])
        entropy = nn.functional.cross_entropy
        row_loss = entropy(self.line_head(hidden), torch.cat([of_row.flatten(), line[keep]]))
        return row_loss + entropy(self.cell_head(hidden), torch.cat([of_cell.flatten(), cell[keep]]))
