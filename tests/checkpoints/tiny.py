"""The tiny HunYuanVL before training: configuration, tokenizer and processor, and how they are saved as on the hub."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    GenerationConfig,
    HunYuanVLConfig,
    HunYuanVLForConditionalGeneration,
    HunYuanVLProcessor,
    PreTrainedTokenizerFast,
)
from transformers.models.hunyuan_vl.image_processing_pil_hunyuan_vl import HunYuanVLImageProcessorPil

from tests.checkpoints.grid import CELL_PX, LETTERS

HIDDEN = 128
MIN_PIXELS, MAX_PIXELS = CELL_PX * CELL_PX, 2048 * 2048
"""What the image processor leaves unresized, if both sides are multiples of 32."""

SPECIAL = {
    "begin": "<｜hy_begin▁of▁sentence｜>",
    "pad": "<｜hy_▁pad▁｜>",
    "user": "<｜hy_User｜>",
    "end": "<｜hy_Assistant｜>",
    "unknown": "<｜hy_unk｜>",
    "other_end": "<｜hy_place▁holder▁no▁2｜>",
    "system": "<｜hy_place▁holder▁no▁3｜>",
    "image_start": "<｜hy_place▁holder▁no▁100｜>",
    "image_end": "<｜hy_place▁holder▁no▁101｜>",
    "image": "<｜hy_place▁holder▁no▁102｜>",
    "image_newline": "<｜hy_place▁holder▁no▁103｜>",
}
"""The special tokens of HunyuanOCR, by what they are for. It ends its answers with either of two."""

WORDS = rf"(?: *[^{re.escape(LETTERS)} \n]+)+ *"
"""What no page says, with the spaces around it: one unknown token, so that a sentence of a prompt is a few tokens."""

CHAT_TEMPLATE = (
    "{{ '" + SPECIAL["begin"] + "' }}"
    "{% for message in messages %}"
    "{% if message['role'] == 'system' %}"
    "{{ message['content'] if message['content'] is string else message['content'][0]['text'] }}"
    "{{ '" + SPECIAL["system"] + "' }}"
    "{% elif message['role'] == 'user' %}"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}"
    "{{ '" + SPECIAL["image_start"] + SPECIAL["image"] + SPECIAL["image_end"] + "' }}"
    "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}"
    "{{ '" + SPECIAL["user"] + "' }}"
    "{% elif message['role'] == 'assistant' %}"
    "{{ message['content'] }}{{ '" + SPECIAL["end"] + "' }}"
    "{% endif %}{% endfor %}"
)


def make_processor() -> HunYuanVLProcessor:
    """A token for each printable ASCII character and for the newline, the special ones, and one for all else.

    Characters that stand on pages are always a token each; a run of others is a single one, nearly always the unknown.
    """
    characters = [*SPECIAL.values(), "\n", *(chr(code) for code in range(32, 127))]
    vocabulary = {token: number for number, token in enumerate(characters)}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL["unknown"]))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(rf"{WORDS}|[\s\S]"), "isolated")
    core.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token=SPECIAL["begin"],
        eos_token=SPECIAL["end"],
        pad_token=SPECIAL["pad"],
        unk_token=SPECIAL["unknown"],
        padding_side="left",
        extra_special_tokens={
            "image_token": SPECIAL["image"],
            "image_start_token": SPECIAL["image_start"],
            "image_end_token": SPECIAL["image_end"],
        },
        clean_up_tokenization_spaces=False,
    )
    others = {"additional_special_tokens": list(SPECIAL.values())}
    tokenizer.add_special_tokens(others, replace_extra_special_tokens=False)
    images = HunYuanVLImageProcessorPil(size={"shortest_edge": MIN_PIXELS, "longest_edge": MAX_PIXELS})
    return HunYuanVLProcessor(image_processor=images, tokenizer=tokenizer, chat_template=CHAT_TEMPLATE)


def token_ids(processor: HunYuanVLProcessor) -> dict[str, int]:
    """The numbers of the special tokens, by what they are for."""
    return {name: processor.tokenizer.convert_tokens_to_ids(token) for name, token in SPECIAL.items()}


def make_model(processor: HunYuanVLProcessor) -> HunYuanVLForConditionalGeneration:
    """About 0.8 million random parameters in the shape of HunyuanOCR."""
    ids = token_ids(processor)
    ends = [ids["end"], ids["other_end"]]
    config = HunYuanVLConfig(
        text_config=_text_config(len(processor.tokenizer), ids, ends),
        vision_config={
            "hidden_size": 48,
            "intermediate_size": 96,
            "num_attention_heads": 4,
            "num_hidden_layers": 1,
            "out_hidden_size": HIDDEN,
            "text_hidden_size": HIDDEN,
            "max_image_size": 512,
            "min_image_size": CELL_PX,
        },
        im_start_id=ids["image_start"],
        im_end_id=ids["image_end"],
        image_token_id=ids["image"],
        im_newline_id=ids["image_newline"],
    )
    model = HunYuanVLForConditionalGeneration(config)
    model.generation_config = GenerationConfig(
        bos_token_id=ids["begin"], pad_token_id=ids["pad"], eos_token_id=ends, do_sample=False
    )
    return model


def _text_config(vocab_size: int, ids: dict[str, int], ends: list[int]) -> dict[str, object]:
    rope = {"rope_type": "dynamic", "alpha": 1.0, "factor": 1.0, "rope_theta": 30.0, "mrope_section": [4, 4, 4, 4]}
    return {
        "vocab_size": vocab_size,
        "hidden_size": HIDDEN,
        "intermediate_size": 384,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 8192,
        "rope_parameters": rope,
        "pad_token_id": ids["pad"],
        "bos_token_id": ids["begin"],
        "eos_token_id": ends,
    }


def save(model: HunYuanVLForConditionalGeneration, processor: HunYuanVLProcessor, folder: Path) -> None:
    """Both in the files of the hub's repository: weights in FP16, and an image processor of the older spelling.

    transformers 5 writes one processor_config.json; HunyuanOCR's repository has preprocessor_config.json.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model.half().save_pretrained(folder)
    model.float()
    processor.tokenizer.save_pretrained(folder)
    _add(folder / "tokenizer_config.json", {"processor_class": "HunYuanVLProcessor"})
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
    images = processor.image_processor
    told = {
        "image_processor_type": "HunYuanVLImageProcessor",
        "processor_class": "HunYuanVLProcessor",
        "min_pixels": MIN_PIXELS,
        "max_pixels": MAX_PIXELS,
        "patch_size": images.patch_size,
        "merge_size": images.merge_size,
        "temporal_patch_size": images.temporal_patch_size,
        "image_mean": list(images.image_mean),
        "image_std": list(images.image_std),
        "resample": 1,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def _add(path: Path, more: dict[str, str]) -> None:
    told = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**told, **more}, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
