"""The language model of HunyuanOCR over slots: prompts of like length together, then one token a slot and step.

The layers' own weights do the work, plain or quantized; what is of its own is the cache, which slots share, and that no
prompt is padded on the left: pages stand at the beginning of their slots, whatever else is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pipeline.engines.hunyuan.cache import CacheShape, KeyValueCache
from pipeline.engines.hunyuan.joined import joined

MOST_STEPS = 64
"""Steps between two looks of the host, at most: a row that ended meanwhile runs on so far beyond its end."""


class Decoder:
    """The text part of a `HunYuanVLForConditionalGeneration`, whose weights it uses and does not change."""

    def __init__(self, model: Any) -> None:
        self._text, self._head = model.model.language_model, model.lm_head
        config = model.config.text_config
        self.num_axes = len(config.rope_parameters["mrope_section"])
        self._num_heads, self._num_kv_heads = config.num_attention_heads, config.num_key_value_heads
        self._head_dim = config.head_dim or config.hidden_size // config.num_attention_heads
        self.vocabulary_size: int = config.vocab_size
        self.max_positions: int = config.max_position_embeddings
        weight = self._text.embed_tokens.weight
        self.device, self.dtype = weight.device, weight.dtype
        self._waves = self._text_waves(self.max_positions + MOST_STEPS)
        self._layers = [_Layer(layer, self._num_heads, self._num_kv_heads) for layer in self._text.layers]

    @property
    def cache_shape(self) -> CacheShape:
        """What a token takes in the cache."""
        return CacheShape(len(self._layers), self._num_kv_heads, self._head_dim, self.dtype)

    def embed(self, tokens: Tensor) -> Tensor:
        """Embeddings of token ids: one more axis, of the hidden size."""
        embedded: Tensor = self._text.embed_tokens(tokens)
        return embedded

    def prefill(self, cache: KeyValueCache, prompts: Sequence[Tensor], places: Sequence[Tensor], first: int) -> Tensor:
        """Read prompts into the slots from `first` on, one after the other.

        Args:
            cache: Where keys and values go.
            prompts: Embeddings of each page's prompt, shape (tokens, hidden).
            places: Positions of each, shape (axes, tokens).
            first: The slot of the first prompt, zero-based.

        Returns:
            Logits of the token after each prompt: float32, shape (prompts, vocabulary).
        """
        longest = max(len(prompt) for prompt in prompts)
        # What is shorter is filled up behind: no token looks there, and the answer overwrites it.
        hidden = torch.stack([functional.pad(prompt, (0, 0, 0, longest - len(prompt))) for prompt in prompts])
        positions = torch.stack([functional.pad(place, (0, longest - place.shape[1])) for place in places], dim=1)
        waves = self._text.rotary_emb(hidden, positions)
        lengths = torch.tensor([len(prompt) for prompt in prompts], device=self.device)
        filler = (torch.arange(longest, device=self.device) >= lengths[:, None])[:, :, None]
        for number, layer in enumerate(self._layers):
            # Nobody asked what the filler comes to, and infinity times a weight of 0 would spoil those who do not look.
            hidden = hidden.masked_fill_(filler, 0)
            query, key, value = self._projected(layer, hidden, waves)
            cache.keys[number][first : first + len(prompts), :, :longest] = key
            cache.values[number][first : first + len(prompts), :, :longest] = value
            groups = self._num_heads // self._num_kv_heads
            looked = functional.scaled_dot_product_attention(
                query, key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1), is_causal=True
            )
            del query, key, value  # by the time of the perceptron, which takes most
            hidden = self._after(layer, hidden, looked.transpose(1, 2).flatten(2))
        return self._logits(hidden[torch.arange(len(prompts), device=self.device), lengths - 1])

    def step(self, cache: KeyValueCache, tokens: Tensor, positions: Tensor, span: int) -> Tensor:
        """One more token for each of the first slots.

        Args:
            cache: What was read before; the keys and values of this token are added.
            tokens: The last token of each slot, int64, shape (slots in use,).
            positions: Where it stands, int64, the same shape; below `span`.
            span: How many tokens of the cache to look at, at most its capacity.

        Returns:
            Logits of the token after it: float32, shape (slots in use, vocabulary).
        """
        num = len(tokens)
        rows = torch.arange(num, device=self.device)
        seen = (torch.arange(span, device=self.device) <= positions[:, None])[:, None, None]
        waves = tuple(wave[positions][:, None] for wave in self._waves)
        groups = self._num_heads // self._num_kv_heads
        mask = seen.expand(num, 1, groups, span)
        hidden = self.embed(tokens)[:, None]
        for number, layer in enumerate(self._layers):
            query, key, value = self._projected(layer, hidden, waves)
            keys, values = cache.keys[number], cache.values[number]
            keys[rows, :, positions] = key[:, :, 0]
            values[rows, :, positions] = value[:, :, 0]
            # The query heads that share keys stand where a longer query would: nothing is copied for them.
            looked = functional.scaled_dot_product_attention(
                query.view(num, self._num_kv_heads, groups, self._head_dim),
                keys[:num, :, :span],
                values[:num, :, :span],
                attn_mask=mask,
            )
            hidden = self._after(layer, hidden, looked.reshape(num, 1, -1))
        return self._logits(hidden[:, 0])

    def _projected(self, layer: _Layer, hidden: Tensor, waves: tuple[Tensor, ...]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, shape (rows, heads, tokens, head_dim): turned by their places, then normed."""
        heads = layer.project(_normed(layer.before, hidden)).view(*hidden.shape[:2], -1, self._head_dim)
        num_turned = self._num_heads + self._num_kv_heads
        cos, sin = (wave[:, :, None].float() for wave in waves)
        turned = _turned(heads[:, :, :num_turned], cos, sin)
        turned = functional.rms_norm(turned, turned.shape[-1:], eps=layer.epsilon) * layer.scales
        query, key = turned[:, :, : self._num_heads], turned[:, :, self._num_heads :]
        return query.transpose(1, 2), key.transpose(1, 2), heads[:, :, num_turned:].transpose(1, 2)

    def _after(self, layer: _Layer, hidden: Tensor, looked: Tensor) -> Tensor:
        """The rest of a layer: what attention saw, shape (rows, tokens, heads · head_dim), and the perceptron."""
        hidden = hidden + layer.out(looked)
        gate, up = layer.widen(_normed(layer.between, hidden)).chunk(2, -1)
        result: Tensor = hidden + layer.narrow(layer.act(gate).mul_(up))
        return result

    def _logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self._head(_normed(self._text.norm, hidden))
        return logits.float()

    def _text_waves(self, num_positions: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines for text, where all axes say the same: shape (positions, head_dim)."""
        rotary = self._text.rotary_emb
        turns = torch.arange(num_positions, device=self.device)[:, None] * rotary.inv_freq.to(self.device).float()
        turns = torch.cat([turns, turns], -1)
        scaling = rotary.attention_scaling
        return (turns.cos() * scaling).to(self.dtype), (turns.sin() * scaling).to(self.dtype)


class _Layer:
    """A `HunYuanVLDecoderLayer` with projections of the same input joined."""

    def __init__(self, layer: Any, num_heads: int, num_kv_heads: int) -> None:
        attention, perceptron = layer.self_attn, layer.mlp
        self.before, self.between = layer.input_layernorm, layer.post_attention_layernorm
        self.project = joined([attention.q_proj, attention.k_proj, attention.v_proj])
        self.out = attention.o_proj
        self.widen, self.narrow = joined([perceptron.gate_proj, perceptron.up_proj]), perceptron.down_proj
        norms = [attention.query_layernorm] * num_heads + [attention.key_layernorm] * num_kv_heads
        self.scales = torch.stack([norm.weight.detach() for norm in norms])
        self.act = perceptron.act_fn
        self.epsilon: float = attention.query_layernorm.variance_epsilon


def _turned(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding in float32, as in transformers: halves of a head turn against each other."""
    wide = heads.float()
    low, high = wide.chunk(2, dim=-1)
    return (wide * cos + torch.cat((-high, low), -1) * sin).to(heads.dtype)


def _normed(norm: Any, hidden: Tensor) -> Tensor:
    """A `HunYuanVLRMSNorm` in one call."""
    return functional.rms_norm(hidden, hidden.shape[-1:], norm.weight, norm.variance_epsilon)
