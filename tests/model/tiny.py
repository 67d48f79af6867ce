"""Tiny vision-language checkpoints with random weights, of several families: they read nothing, but differently."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    GenerationConfig,
    GotOcr2Config,
    GotOcr2ForConditionalGeneration,
    GotOcr2Processor,
    LightOnOcrConfig,
    LightOnOcrForConditionalGeneration,
    LightOnOcrProcessor,
    PaddleOCRVLConfig,
    PaddleOCRVLForConditionalGeneration,
    PaddleOCRVLProcessor,
    PreTrainedTokenizerFast,
)
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
from transformers.models.paddleocr_vl.image_processing_pil_paddleocr_vl import PaddleOCRVLImageProcessorPil
from transformers.models.pixtral.image_processing_pil_pixtral import PixtralImageProcessorPil

BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
"""The tokens before the special ones; the first is an exclamation mark."""

PAD, END = "<|endoftext|>", "<|im_end|>"
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{% for part in m['content'] %}"
    "{% if part['type'] == 'image' %}IMAGE{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>{% endif %}"
)
TEXT = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "initializer_range": 0.5,
}
VISION = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "patch_size": 14,
}


def tokenizer(*special: str, **named: str) -> Any:
    """A token for every byte, and the special ones."""
    vocabulary = {token: index for index, token in enumerate([*BYTES, PAD, END, "<|im_start|>", *special])}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens([PAD, END, "<|im_start|>", *special])
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token=PAD, eos_token=END, extra_special_tokens=named)


def lighton() -> tuple[Any, Any]:
    words = {"image_token": "<|image|>", "image_break_token": "<|break|>", "image_end_token": "<|end|>"}
    tokens = tokenizer(*words.values(), **words)
    images = PixtralImageProcessorPil(patch_size=14, size={"longest_edge": 112})
    template = TEMPLATE.replace("IMAGE", "<|image|>")
    processor = LightOnOcrProcessor(images, tokens, patch_size=14, spatial_merge_size=2, chat_template=template)
    config = LightOnOcrConfig(
        image_token_id=tokens.image_token_id,
        tie_word_embeddings=False,
        vision_config={"model_type": "pixtral", **VISION, "head_dim": 16, "image_size": 112},
        text_config={"model_type": "qwen3", **TEXT, "vocab_size": len(tokens), "tie_word_embeddings": False},
    )
    return LightOnOcrForConditionalGeneration(config), processor


def paddle() -> tuple[Any, Any]:
    tokens = tokenizer("<|start|>", "<|end|>", "<|image|>", image_token="<|image|>")
    images = PaddleOCRVLImageProcessorPil(size={"shortest_edge": 56 * 56, "longest_edge": 112 * 112})
    template = TEMPLATE.replace("IMAGE", "<|start|><|image|><|end|>")
    processor = PaddleOCRVLProcessor(images, tokens, chat_template=template)
    config = PaddleOCRVLConfig(
        image_token_id=tokens.image_token_id,
        vision_start_token_id=tokens.convert_tokens_to_ids("<|start|>"),
        vision_end_token_id=tokens.convert_tokens_to_ids("<|end|>"),
        vision_config=VISION,
        text_config={
            **TEXT,
            "vocab_size": len(tokens),
            "pad_token_id": tokens.pad_token_id,
            "bos_token_id": None,
            "eos_token_id": tokens.eos_token_id,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]},
        },
    )
    return PaddleOCRVLForConditionalGeneration(config), processor


def got() -> tuple[Any, Any]:
    tokens = tokenizer("<img>", "</img>", "<imgpad>")
    processor = GotOcr2Processor(GotOcr2ImageProcessorPil(size={"height": 1024, "width": 1024}), tokens)
    vision = {"hidden_size": 8, "output_channels": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "mlp_dim": 16}
    text = {name: value for name, value in TEXT.items() if name != "head_dim"}
    config = GotOcr2Config(
        image_token_index=tokens.convert_tokens_to_ids("<imgpad>"),
        vision_config={**vision, "global_attn_indexes": [], "initializer_range": 0.5},
        text_config={"model_type": "qwen2", **text, "vocab_size": len(tokens)},
    )
    return GotOcr2ForConditionalGeneration(config), processor


FAMILIES: dict[str, Callable[[], tuple[Any, Any]]] = {"lighton": lighton, "paddle": paddle, "got": got}


def make(folder: Path, family: str, change: Callable[[Any], None] | None = None) -> Path:
    """Write a checkpoint of this family, with the weights changed; the folder."""
    torch.manual_seed(0)
    with contextlib.redirect_stderr(io.StringIO()):
        model, processor = FAMILIES[family]()
        model.generation_config = GenerationConfig(
            eos_token_id=processor.tokenizer.eos_token_id, pad_token_id=processor.tokenizer.pad_token_id
        )
        if change:
            with torch.no_grad():
                change(model)
        model.save_pretrained(folder)
        processor.save_pretrained(folder)
    return folder
