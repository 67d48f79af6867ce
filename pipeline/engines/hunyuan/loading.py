"""From a folder with weights to a model that can be trusted with pages: precision, self-test, quantization."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch

from pipeline.engines.checkpoint import Checkpoint
from pipeline.engines.device import TORCH_NAMES, Place, gpu_memory_bytes
from pipeline.engines.hunyuan import selftest
from pipeline.engines.hunyuan.memory import Card, ModelSize
from pipeline.engines.hunyuan.model import PageModel
from pipeline.engines.hunyuan.pixels import PixelFormat


@dataclass(frozen=True, slots=True)
class Loader:
    """Which weights, what is to be asked of them, and where and how they are to be run.

    `quantize` is empty, `int8` or `int4`: weights of the language model's layers in so many bits, by bitsandbytes.
    """

    checkpoint: Checkpoint
    question: str
    device: torch.device
    quantize: str = ""

    def load(self, precision: str, *, quantize: bool = True) -> PageModel:
        """The model in one precision (`fp16`, `bf16`, `fp32`)."""
        from transformers import AutoTokenizer, HunYuanVLForConditionalGeneration

        folder, dtype = self.checkpoint.folder, Place(self.device.type, precision).dtype
        in_few_bits = _in_few_bits(self.quantize, dtype) if self.quantize and quantize else None
        with _quietly():
            model: Any = HunYuanVLForConditionalGeneration.from_pretrained(
                folder,
                dtype=dtype,
                use_safetensors=True,
                attn_implementation="sdpa",
                local_files_only=True,
                quantization_config=in_few_bits,
                device_map=self.device if in_few_bits else None,
            )
        model = (model if in_few_bits else model.to(self.device)).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        mean, std = self.checkpoint.pixel_statistics()
        pixels = PixelFormat(mean, std, self.checkpoint.patch_size_px(), self.checkpoint.merge_size())
        return PageModel(model, tokenizer, pixels, self.question)

    def trusted(self, precision: str) -> tuple[PageModel, str, str | None]:
        """The model in the precision asked for, or in the next wider one that passes the self-test.

        Returns:
            The model, its precision, and one line that says what was refused, if anything was.
        """
        if precision == "fp32":
            return self.load("fp32"), "fp32", None
        reference = self.load("fp32", quantize=False)
        min_pixels, _ = self.checkpoint.image_size_limits()
        pixels = selftest.page(cell_px=reference.pixel_format.cell_px, min_pixels=min_pixels)
        expected = selftest.expect(reference, pixels)
        del reference
        refused: list[str] = []
        for candidate in [precision, *self.wider(precision)]:
            _free(self.device)
            model = self.load(candidate)
            if candidate == "fp32" or not (fault := selftest.fault(model, pixels, expected)):
                return model, candidate, _told(refused, candidate)
            refused.append(f"{TORCH_NAMES[candidate]} failed the self-test: {fault}")
            del model
        raise AssertionError("float32 ends the list")

    def wider(self, precision: str) -> list[str]:
        """Precisions to fall back on, the next one first."""
        found, place = [], Place(self.device.type, precision).wider()
        while place is not None:
            found.append(place.precision)
            place = place.wider()
        return found


def lack(quantize: str) -> str | None:
    """What is missing for a model in few bits, as one line that says how to get it."""
    absent = [name for name in ("bitsandbytes", "accelerate") if quantize and find_spec(name) is None]
    return f"--quantize needs {absent[0]}: pip install 'pagemill[quantize]'" if absent else None


def _in_few_bits(kind: str, compute: torch.dtype) -> Any:
    """How bitsandbytes is to load the layers of the language model. Embeddings and the vision tower stay as they are.

    The treatment of outliers is off: it looks at all rows of a batch together, and a page's text would depend on them.
    """
    from transformers import BitsAndBytesConfig

    kept = ["lm_head", "model.vision_tower"]  # as they begin: a name in the middle would not be found
    if kind == "int8":
        return BitsAndBytesConfig(load_in_8bit=True, llm_int8_threshold=0.0, llm_int8_skip_modules=kept)
    return BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=compute, llm_int8_skip_modules=kept
    )


@contextmanager
def _quietly() -> Iterator[None]:
    """No progress bars on stderr, where a run shows its own."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def model_size(model: Any, decoder_token_bytes: int) -> ModelSize:
    """What decides how much memory a `HunYuanVLForConditionalGeneration` takes."""
    text, tower = model.config.text_config, model.config.vision_config
    head = text.head_dim or text.hidden_size // text.num_attention_heads
    weights = {id(tensor): tensor for tensor in [*model.parameters(), *model.buffers()]}
    return ModelSize(
        weight_bytes=sum(tensor.numel() * tensor.element_size() for tensor in weights.values()),
        cache_token_bytes=decoder_token_bytes,
        hidden=text.hidden_size,
        intermediate=text.intermediate_size,
        attention=text.num_attention_heads * head,
        key_value=text.num_key_value_heads * head,
        head=head,
        vision_hidden=tower.hidden_size,
        vision_intermediate=tower.intermediate_size,
        vocabulary=text.vocab_size,
        item_bytes=model.lm_head.weight.dtype.itemsize,
    )


def card(device: torch.device) -> Card | None:
    """The memory of the device, and what others hold of it; None for the CPU."""
    if device.type != "cuda":
        return None
    return Card(*gpu_memory_bytes())


def _told(refused: list[str], taken: str) -> str | None:
    return f"{'; '.join(refused)}; {TORCH_NAMES[taken]} is used instead" if refused else None


def _free(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
