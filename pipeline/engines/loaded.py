"""Loaded: a vision-language model of transformers in memory, with its processor; one of those that import torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForImageTextToText, AutoProcessor
from transformers.utils import logging

from pipeline.engines.device import Place
from pipeline.engines.generated import Decoding, Generated
from pipeline.engines.resizing import resized
from pipeline.engines.static import generate
from pipeline.errors import EngineUnavailableError


class Loaded:
    """One checkpoint in one precision on one device."""

    def __init__(self, folder: Path, place: Place) -> None:
        """Load it, in silence. Attention is SDPA wherever the model has it, which is what transformers takes by itself.

        Raises:
            EngineUnavailableError: its files do not make a model that reads images, or a library is missing.
        """
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        self._place = place
        try:
            self._processor: Any = AutoProcessor.from_pretrained(folder, local_files_only=True)
            model: Any = AutoModelForImageTextToText.from_pretrained(
                folder,
                dtype=place.dtype,
                use_safetensors=True,
                local_files_only=True,
            )
        except ImportError as error:
            raise EngineUnavailableError(
                f"{folder} needs a library: pip install torchvision ({_line(error)})"
            ) from error
        except (OSError, ValueError, KeyError) as error:
            raise EngineUnavailableError(f"{folder} cannot be loaded by transformers: {_line(error)}") from error
        self._model = model.eval().to(place.device)
        tokenizer = self._processor.tokenizer
        tokenizer.padding_side = "left"
        self._end_tokens = _ids(model.generation_config.eos_token_id, tokenizer.eos_token_id, self._end_of_turn())
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        self._pad_token = int(tokenizer.pad_token_id)

    def prepare(self, pages: Sequence[NDArray[np.uint8]], prompt: str, scale: float = 1.0) -> dict[str, torch.Tensor]:
        """What the model takes for these pages, on its device.

        Args:
            pages: Pixels of shape (height, width), or (height, width, 3) in RGB.
            prompt: What to ask of each page; nothing but the page itself if empty.
            scale: A factor for both sides of each page. Processors that show every page in one size make it up again.
        """
        images = [_rgb(pixels, scale) for pixels in pages]
        asked = [{"type": "text", "text": prompt}] if prompt else []
        shaped = {"padding": True, "return_tensors": "pt"}
        if self._processor.chat_template:
            talks = [[{"role": "user", "content": [{"type": "image", "image": image}, *asked]}] for image in images]
            inputs = self._processor.apply_chat_template(
                talks, tokenize=True, add_generation_prompt=True, return_dict=True, processor_kwargs=shaped
            )
        else:
            inputs = self._processor(images=images, text=[prompt] * len(images) if prompt else None, **shaped)
        return dict(inputs.to(self._place.device, dtype=self._place.dtype))

    def _end_of_turn(self) -> int | None:
        """What GOT-OCR 2 ends its answers with, which neither its configuration nor its tokenizer calls an end.

        Source: the example in transformers' documentation of the model, which stops at this text. Its processor names
        the token; others name none.
        """
        mark = getattr(self._processor, "message_end_token", None)
        return self._processor.tokenizer.get_vocab().get(mark) if mark else None

    def write(self, inputs: dict[str, torch.Tensor], decoding: Decoding) -> list[Generated]:
        """One answer for each page of a batch that `prepare` made."""
        return generate(self._model, inputs, decoding, end_tokens=self._end_tokens, pad_token=self._pad_token)

    def text(self, tokens: Sequence[int]) -> str:
        """Tokens as text, without special ones and as they are otherwise."""
        decoded = self._processor.tokenizer.decode(
            list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return str(decoded)


def _rgb(pixels: NDArray[np.uint8], scale: float) -> NDArray[np.uint8]:
    """Three channels, in memory of its own that can be written to: some processors warn of shared memory otherwise."""
    channels = np.repeat(pixels[..., np.newaxis], 3, axis=2) if pixels.ndim == 2 else pixels.copy()
    if scale == 1:
        return channels
    height, width = (max(1, round(side * scale)) for side in pixels.shape[:2])
    planes = resized(torch.from_numpy(channels).permute(2, 0, 1), height, width)
    return np.asarray(planes.byte().permute(1, 2, 0).contiguous().numpy())


def _ids(*told: int | list[int] | None) -> list[int]:
    """All ids that end an answer, each once."""
    flat = [token for some in told for token in (some if isinstance(some, list) else [some])]
    return list(dict.fromkeys(int(token) for token in flat if token is not None))


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
