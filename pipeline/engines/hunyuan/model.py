"""A loaded HunyuanOCR: its parts, its prompt, and how a page becomes embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pipeline.engines.hunyuan import vision
from pipeline.engines.hunyuan.decoder import Decoder
from pipeline.engines.hunyuan.pixels import Patches, PixelFormat, patches_of
from pipeline.engines.hunyuan.positions import page_positions


@dataclass(frozen=True, slots=True)
class Prompt:
    """A page for the language model: token ids (tokens,), embeddings (tokens, hidden), places (axes, tokens)."""

    tokens: Tensor
    embedded: Tensor
    places: Tensor

    def __len__(self) -> int:
        """Tokens."""
        return len(self.tokens)


class PageModel:
    """The model with a question. Nothing here depends on what else is read at the time."""

    def __init__(self, model: Any, tokenizer: Any, pixel_format: PixelFormat, question: str) -> None:
        self.model = model
        self.tower, self.decoder = model.model.vision_tower, Decoder(model)
        self.pixel_format, self.config, self.tokenizer = pixel_format, model.config, tokenizer
        self.device = self.decoder.device
        self.ends = _end_tokens(model)
        self.pad: int = model.config.text_config.pad_token_id or 0
        self._before, self._after = self._around_the_image(question)

    @property
    def num_text_tokens(self) -> int:
        """Tokens of a prompt beside those of the page."""
        return len(self._before) + len(self._after)

    def patches(self, pixels: Tensor, scale: float = 1.0) -> Patches:
        """A raster on the device, uint8, as the tower takes it."""
        return patches_of(pixels, self.pixel_format, scale=scale)

    def prompts(self, pages: Sequence[Patches]) -> list[Prompt]:
        """Look at pages and put each into its prompt."""
        return [self._prompt(page, seen) for page, seen in zip(pages, vision.encode(self.tower, pages), strict=True)]

    def prompt_tokens(self, page: Patches) -> Tensor:
        """Token ids of a page's prompt: int64, shape (tokens,)."""
        merge = self.pixel_format.merge
        length = page.rows // merge * (page.columns // merge + 1) + 2
        span = torch.full((length,), self.config.image_token_id, device=self.device)
        return torch.cat([self._before, span, self._after])

    def decode(self, tokens: Sequence[int]) -> str:
        """Token ids as text."""
        text: str = self.tokenizer.decode(list(tokens), skip_special_tokens=True)
        return text

    def _prompt(self, page: Patches, seen: Tensor) -> Prompt:
        merge = self.pixel_format.merge
        before, after = self.decoder.embed(self._before), self.decoder.embed(self._after)
        places = page_positions(
            num_before=len(before),
            rows=page.rows // merge,
            cells=page.columns // merge,
            num_after=len(after),
            num_axes=self.decoder.num_axes,
            device=self.device,
        )
        return Prompt(self.prompt_tokens(page), torch.cat([before, seen.to(before.dtype), after]), places)

    def _around_the_image(self, question: str) -> tuple[Tensor, Tensor]:
        """Token ids of the prompt before and after the image: the chat template's, with an empty system message."""
        messages = [
            {"role": "system", "content": ""},
            {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": question}]},
        ]
        text = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        image = self.config.image_token_id
        if ids.count(image) != 1:
            raise ValueError(f"the chat template of the model puts {ids.count(image)} images into a prompt, not one")
        at = ids.index(image)
        return tuple(torch.tensor(part, dtype=torch.long, device=self.device) for part in (ids[:at], ids[at + 1 :]))


def _end_tokens(model: Any) -> frozenset[int]:
    """Tokens that end an answer, from the generation configuration and that of the text model."""
    found: set[int] = set()
    for config in (model.generation_config, model.config.text_config):
        told = getattr(config, "eos_token_id", None)
        found |= {told} if isinstance(told, int) else set(told or ())
    return frozenset(found)
