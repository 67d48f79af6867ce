"""How many slots fit on a card: a model of weights, vision peak, prompts, key-value cache and logits. Pure.

The figures for a patch and a token are those of the tensors that are alive at once in the code of this folder;
a test counts them there. What allocators lose between blocks is meant by the share that is kept free.
"""

from __future__ import annotations

from dataclasses import dataclass

KEPT_FREE = 0.1
"""Share of the card's memory that is never planned for."""

PATCHES_PER_TOKEN = 4
"""Two by two patches merge to one visual token."""


@dataclass(frozen=True, slots=True)
class ModelSize:
    """What decides how much memory a model takes. Widths are numbers of values, `item_bytes` those of one value.

    `attention` is the width of all queries, `key_value` that of the keys, or values, of a layer, `head` that of one.
    """

    weight_bytes: int
    cache_token_bytes: int
    hidden: int
    intermediate: int
    attention: int
    key_value: int
    head: int
    vision_hidden: int
    vision_intermediate: int
    vocabulary: int
    item_bytes: int

    def vision_bytes(self, num_patches: int) -> int:
        """Peak of the vision tower over so many patches at once."""
        pixels = 3 * 3 * 16 * 16 * 4
        attention = 7 * self.vision_hidden
        mlp = 2 * self.vision_hidden + 2 * self.vision_intermediate
        return num_patches * (pixels + self.item_bytes * max(attention, mlp))

    def prompt_bytes(self, num_tokens: int) -> int:
        """Peak of reading prompts of so many tokens together, beside their keys and values."""
        heads = self.attention + self.key_value
        turning = 4 * 4 * heads + self.item_bytes * (2 * self.hidden + 2 * heads + self.key_value + self.attention)
        mlp = 3 * self.hidden + 3 * self.intermediate + 2 * self.attention
        waves = 4 * 4 * self.head
        return num_tokens * (waves + max(turning, self.item_bytes * mlp))

    def slot_bytes(self, capacity: int) -> int:
        """What a slot takes: keys and values of so many tokens, one more token on its way, and its choice.

        Logits are there five times over where they are penalized, and which tokens have been seen twice.
        """
        return capacity * self.cache_token_bytes + self.prompt_bytes(1) + self.vocabulary * (5 * 4 + 2)


@dataclass(frozen=True, slots=True)
class Card:
    """Memory of a device in bytes: all of it, and what other processes hold."""

    total_bytes: int
    held_by_others_bytes: int = 0

    @property
    def usable_bytes(self) -> int:
        """What may be planned for."""
        return max(0, int(self.total_bytes * (1 - KEPT_FREE)) - self.held_by_others_bytes)


def largest_batch(size: ModelSize, card: Card, *, prompt_tokens: int, answer_tokens: int, vision_pages: int = 1) -> int:
    """The most slots that are safe for prompts of so many tokens, at least one.

    Args:
        size: The model.
        card: Where it is to run.
        prompt_tokens: The longest prompt; all of it counts as visual tokens. As many are read together as are seen.
        answer_tokens: Room for answers in each slot.
        vision_pages: Pages that the vision tower sees at once.
    """
    seen = vision_pages * prompt_tokens
    embedded = seen * size.hidden * size.item_bytes
    peak = max(size.vision_bytes(seen * PATCHES_PER_TOKEN), size.prompt_bytes(seen) + embedded)
    left = card.usable_bytes - size.weight_bytes - peak
    return max(1, left // size.slot_bytes(prompt_tokens + answer_tokens))
