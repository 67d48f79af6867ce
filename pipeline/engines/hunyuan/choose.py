"""The next token of every slot, chosen on the device, with what the model itself thought of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.engines.generated import Decoding


@dataclass(frozen=True, slots=True)
class Chosen:
    """For each slot: the token (int64), its log-probability before penalty and temperature, and if all was finite."""

    tokens: Tensor
    logprobs: Tensor
    finite: Tensor


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Which tokens every slot has seen (None if no slot has a penalty on that), and where its lots stand."""

    seen: Tensor | None
    lots: list[Tensor | None]


class Chooser:
    """What each slot has been told of how to choose, and which tokens it has seen."""

    def __init__(self, num_slots: int, vocabulary_size: int, device: torch.device) -> None:
        self._penalties = torch.ones(num_slots, 1, device=device)
        self._seen = torch.zeros(num_slots, vocabulary_size, dtype=torch.bool, device=device)
        self._decodings: list[Decoding | None] = [None] * num_slots
        self._generators: list[torch.Generator | None] = [None] * num_slots
        self._device = device

    @property
    def samples(self) -> bool:
        """Whether any slot draws lots: then every step is another for the host."""
        return any(generator is not None for generator in self._generators)

    @property
    def penalizes(self) -> bool:
        """Whether any slot has a penalty on repetition."""
        return any(told and told.repetition_penalty != 1 for told in self._decodings)

    def start(self, slot: int, decoding: Decoding, prompt: Tensor) -> None:
        """A page comes into a slot; `prompt` are the token ids of its prompt, which a penalty counts as seen."""
        self._penalties[slot] = decoding.repetition_penalty
        self._seen[slot] = False
        self._seen[slot, prompt] = True
        self._decodings[slot] = decoding
        self._generators[slot] = None
        if decoding.temperature > 0:
            self._generators[slot] = torch.Generator(self._device).manual_seed(decoding.seed)

    def snapshot(self) -> Snapshot:
        """What choosing changes, for `restore` after steps on trial, or such as failed halfway."""
        seen = self._seen.clone() if self.penalizes else None
        return Snapshot(seen, [lot.get_state() if lot is not None else None for lot in self._generators])

    def restore(self, before: Snapshot) -> None:
        """Take steps back; needs no memory."""
        if before.seen is not None:
            self._seen.copy_(before.seen)
        for generator, state in zip(self._generators, before.lots, strict=True):
            if generator is not None and state is not None:
                generator.set_state(state)

    def end(self, slot: int) -> None:
        """The page has left its slot."""
        self._penalties[slot] = 1.0
        self._decodings[slot] = self._generators[slot] = None

    def move(self, source: int, target: int) -> None:
        """A page goes to another slot."""
        self._penalties[target] = self._penalties[source]
        self._seen[target] = self._seen[source]
        self._decodings[target], self._generators[target] = self._decodings[source], self._generators[source]
        self.end(source)

    def choose(self, logits: Tensor, first: int = 0) -> Chosen:
        """Choose by logits of shape (slots, vocabulary), the first of them being those of slot `first`."""
        slots = slice(first, first + len(logits))
        scores = logits
        if self.penalizes:
            penalty = self._penalties[slots]
            penalized = torch.where(logits < 0, logits * penalty, logits / penalty)
            scores = torch.where(self._seen[slots], penalized, logits)
        tokens = scores.argmax(-1)
        for row, generator in enumerate(self._generators[slots]):
            told = self._decodings[first + row]
            if generator is not None and told is not None:
                tokens[row] = _drawn(scores[row] / told.temperature, generator)
        if self.penalizes:
            self._seen[slots].scatter_(1, tokens[:, None], True)
        logprobs = logits.log_softmax(-1).gather(1, tokens[:, None])[:, 0]
        return Chosen(tokens, logprobs, logits.abs().amax(-1).isfinite())  # the highest is NaN if any is


def _drawn(scores: Tensor, generator: torch.Generator) -> Tensor:
    """One token by lot, as its score makes it likely. Numbers that are not finite have no say."""
    weights = scores.nan_to_num(-1e9, 1e9, -1e9).softmax(-1)
    return torch.multinomial(weights, 1, generator=generator)[0]
