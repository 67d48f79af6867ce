"""What the HunyuanOCR engine can be told. No torch."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeline.engines.device import DEVICES, PRECISIONS
from pipeline.engines.hunyuan.prompts import DEFAULT_TASK, LANGUAGES
from pipeline.errors import ConfigurationError

DPI = 200.0
"""A4 is 3,871 visual tokens then, and 2,016 at 144 dpi."""

MAX_NEW_TOKENS = 8192

_CHOICES = {
    "decode": ("continuous", "static"),
    "precision": PRECISIONS,
    "device": DEVICES,
    "quantize": ("", "int8", "int4"),
    "language": LANGUAGES,
}


@dataclass(frozen=True, slots=True)
class HunyuanOptions:
    """Options of HunyuanOCR.

    `model` is a folder or a hub id, `revision` a branch, tag or commit of the hub's. `task` names what to ask, in
    `language`; `prompt` asks something else instead. `repetition_penalty` of 0 takes the checkpoint's own. `decode` is
    `continuous` or `static`, `slots` the pages decoded at a time (0: what the card holds, at most 64, or 8 on the CPU).
    `precision` `auto` is fp16 on a GPU and fp32 on the CPU. `graphs` records decode steps as CUDA graphs.
    """

    model: str = field(default="", metadata={"alters_text": False})
    revision: str = field(default="", metadata={"alters_text": False})
    task: str = DEFAULT_TASK
    language: str = LANGUAGES[0]
    prompt: str = ""
    max_new_tokens: int = MAX_NEW_TOKENS
    repetition_penalty: float = 0.0
    precision: str = "auto"
    quantize: str = ""
    decode: str = field(default="continuous", metadata={"alters_text": False})
    slots: int = field(default=0, metadata={"alters_text": False})
    device: str = field(default="auto", metadata={"alters_text": False})
    graphs: bool = field(default=True, metadata={"alters_text": False})
    threads: int = field(default=1, metadata={"alters_text": False})
    dpi: float = DPI

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                known = ", ".join(filter(None, choices))
                raise ConfigurationError(f"engine option '{name}' is one of {known}, not '{getattr(self, name)}'")
        for name, low in (("max_new_tokens", 1), ("slots", 0), ("threads", 1), ("repetition_penalty", 0), ("dpi", 1)):
            if not getattr(self, name) >= low:
                raise ConfigurationError(f"engine option '{name}' must be at least {low}, not {getattr(self, name)}")
