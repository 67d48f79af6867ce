"""Static batches: `generate` of transformers, each row watched on its own; one of the modules that import torch.

What `generate` chooses from is bent by its own settings (penalties, sampling), in an order it does not let one set, and
draws at random for a batch as a whole. So it is always asked to choose greedily, and all that bends the choice is done
here, row by row: a page's text depends neither on which pages share its batch nor on how much padding it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList

from pipeline.engines.generated import Decoding, Generated
from pipeline.engines.repetition import TailWatch
from pipeline.result import Finish


def generate(
    model: Any, inputs: Mapping[str, torch.Tensor], decoding: Decoding, *, end_tokens: Sequence[int], pad_token: int
) -> list[Generated]:
    """Answer every row of a batch until it ends, repeats itself, or reaches the limit.

    Args:
        model: A model of transformers that writes token by token and has a `generate`; its own generation
            configuration is not heeded.
        inputs: What its processor made of prompts and images, on the model's device: `input_ids` and `attention_mask`
            of shape (rows, longest prompt) with padding on the left, and whatever else the model takes.
        decoding: How to choose tokens, the same for all rows; a draw is the same for a page wherever it stands.
        end_tokens: Ids that end an answer; they are not part of it.
        pad_token: What to feed rows that have ended.

    Returns:
        One answer a row, in order. A row with logits that are not finite stops there, with finish ``length``.

    Raises:
        torch.OutOfMemoryError: the batch does not fit the device.
    """
    rows = _Rows([_Row() for _ in range(len(inputs["input_ids"]))], frozenset(end_tokens))
    bending: list[LogitsProcessor] = [_Look(rows)]
    if decoding.repetition_penalty != 1.0:
        bending.append(_Penalty(decoding.repetition_penalty, inputs.get("attention_mask")))
    if decoding.temperature > 0.0:
        bending.append(_Draw(decoding.temperature, decoding.seed))
    with torch.inference_mode(), _Plain(model):
        model.generate(
            **inputs,
            generation_config=_configuration(
                max_new_tokens=decoding.max_new_tokens,
                do_sample=False,
                num_beams=1,
                eos_token_id=list(end_tokens),
                pad_token_id=pad_token,
                use_cache=True,
            ),
            logits_processor=LogitsProcessorList(bending),
            stopping_criteria=StoppingCriteriaList([_Stop(rows)]),
        )
    return [row.generated() for row in rows.rows]


@dataclass(slots=True)
class _Row:
    """One page's answer so far; `finish` is set when it is over."""

    watch: TailWatch = field(default_factory=TailWatch)
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish: Finish | None = None
    is_finite: bool = True

    def take(self, token: int, logprob: float, *, is_finite: bool, is_end: bool) -> None:
        """Hear which token was chosen, unless the answer is over already."""
        if self.finish:
            return
        if not is_finite:
            self.is_finite, self.finish = False, Finish.LENGTH
        elif is_end:
            self.finish = Finish.STOP
        else:
            self.tokens.append(token)
            self.logprobs.append(logprob)
            self.finish = Finish.REPETITION if self.watch.feed(token) else None

    def generated(self) -> Generated:
        return Generated(tuple(self.tokens), tuple(self.logprobs), self.finish or Finish.LENGTH, self.is_finite)


@dataclass(slots=True)
class _Rows:
    """All rows, and the distribution that the next token is chosen from: (rows, vocabulary), one step of it only."""

    rows: list[_Row]
    end_tokens: frozenset[int]
    logprobs: torch.Tensor | None = None
    is_finite: torch.Tensor | None = None


class _Look(LogitsProcessor):
    """Sees the model's own logits, before anything bends them. It has to be the first."""

    def __init__(self, rows: _Rows) -> None:
        self._rows = rows

    def __call__(self, _: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self._rows.is_finite = scores.isfinite().all(dim=-1)
        self._rows.logprobs = scores.log_softmax(dim=-1)
        return torch.where(self._rows.is_finite[:, None], scores, torch.zeros_like(scores))


class _Penalty(LogitsProcessor):
    """The repetition penalty of transformers, without one for the token that happens to fill up short prompts."""

    def __init__(self, penalty: float, prompt_mask: torch.Tensor | None) -> None:
        self._penalty, self._mask = penalty, prompt_mask

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        seen = input_ids.clamp(max=scores.shape[-1] - 1)
        if self._mask is not None:
            length = self._mask.shape[-1]
            prompt = torch.where(self._mask.bool(), seen[:, :length], seen[:, length - 1 : length])
            seen = torch.cat([prompt, seen[:, length:]], dim=-1)
        score = scores.gather(1, seen)
        return scores.scatter(1, seen, torch.where(score < 0, score * self._penalty, score / self._penalty))


class _Draw(LogitsProcessor):
    """Sampling as a choice of the highest score: Gumbel noise, of which every row gets the same."""

    def __init__(self, temperature: float, seed: int) -> None:
        self._temperature, self._seed = temperature, seed
        self._dice: torch.Generator | None = None

    def __call__(self, _: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if self._dice is None:
            self._dice = torch.Generator(scores.device).manual_seed(self._seed)
        noise = torch.empty(scores.shape[-1], dtype=torch.float64, device=scores.device)
        noise.exponential_(generator=self._dice).clamp_(min=torch.finfo(torch.float64).tiny)
        return scores / self._temperature - noise.log().float()


class _Stop(StoppingCriteria):
    """Hands every row the token that was chosen for it, and says which are over: one wait for the device a step."""

    def __init__(self, rows: _Rows) -> None:
        self._rows = rows

    def __call__(self, input_ids: torch.Tensor, _: Any, **__: Any) -> torch.Tensor:
        rows, chosen = self._rows, input_ids[:, -1:]
        logprobs = cast(torch.Tensor, rows.logprobs).gather(1, chosen)
        told = torch.cat([chosen, logprobs, cast(torch.Tensor, rows.is_finite)[:, None]], dim=1)
        for row, (token, logprob, is_finite) in zip(rows.rows, told.tolist(), strict=True):
            row.take(int(token), logprob, is_finite=bool(is_finite), is_end=int(token) in rows.end_tokens)
        return torch.tensor([row.finish is not None for row in rows.rows], device=input_ids.device)


class _Plain:
    """Takes the model's own generation configuration away for a while: it would bend logits before they are seen."""

    def __init__(self, model: Any) -> None:
        self._model, self._own = model, model.generation_config

    def __enter__(self) -> None:
        kept = {name: getattr(self._own, name, None) for name in ("bos_token_id", "decoder_start_token_id")}
        self._model.generation_config = _configuration(**kept)

    def __exit__(self, *_: object) -> None:
        self._model.generation_config = self._own


def _configuration(**settings: Any) -> GenerationConfig:
    return GenerationConfig(**settings)
