"""The engines by name. A module is imported only when its engine is asked for or listed."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from pipeline.engines.engine import Engine
from pipeline.errors import EngineUnavailableError
from pipeline.option import nearest

ENGINES: dict[str, str] = {
    "rapidocr": "pipeline.engines.rapidocr:RapidOcrEngine",
    "hunyuan": "pipeline.engines.hunyuan.engine:HunyuanEngine",
    "vlm": "pipeline.engines.vlm:VlmEngine",
    "fake": "pipeline.engines.fake:FakeEngine",
    "fake_stream": "pipeline.engines.fake_stream:FakeStreamingEngine",
}

BEST_FIRST = ("rapidocr",)
"""What `auto` tries, in this order. The fakes are never chosen unasked."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An engine that can run here, and why it was taken."""

    engine: type[Engine]
    reason: str


def load(name: str) -> type[Engine]:
    """The engine class of this name.

    Raises:
        EngineUnavailableError: no engine is called so.
    """
    if name not in ENGINES:
        raise EngineUnavailableError(f"there is no engine '{name}'{nearest(name, ['auto', *ENGINES])}")
    module, _, attribute = ENGINES[name].partition(":")
    engine: type[Engine] = getattr(import_module(module), attribute)
    return engine


def choose(name: str) -> Choice:
    """The engine to use: the one named, or for `auto` the best that lacks nothing.

    Raises:
        EngineUnavailableError: it lacks something here; the message says what.
    """
    lacking = []
    for candidate in BEST_FIRST if name == "auto" else (name,):
        engine = load(candidate)
        lack = engine.missing()
        if lack is None:
            reason = "as asked" if name != "auto" else "the best that is usable here"
            return Choice(engine, reason)
        lacking.append(f"{candidate}: {lack}")
    raise EngineUnavailableError("no usable engine: " + "; ".join(lacking))
