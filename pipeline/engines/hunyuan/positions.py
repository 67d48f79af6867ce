"""Where the tokens of a page stand for the rotary embedding, page by page.

transformers 5.24 places the image of row k of a batch at image index k (`get_rope_index` never sets it back between
rows), so that a page's logits depend on its row. Here every page is the first of its own sequence.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def page_positions(
    *, num_before: int, rows: int, cells: int, num_after: int, num_axes: int, device: torch.device | str = "cpu"
) -> Tensor:
    """Positions of one page's prompt: int64, shape (num_axes, tokens).

    All axes count tokens, but for the image's own cells, where the last three say column, row and image, which is 0.
    A row has one cell more than there are columns, for its end; the image's first and last token count as text
    (`HunYuanVLModel.get_rope_index` in transformers).

    Args:
        num_before: Tokens before the image's first, which marks its start.
        rows: Rows of visual tokens.
        cells: Visual tokens in a row without its end.
        num_after: Tokens after the image's last, which marks its end.
        num_axes: Axes of the embedding, three or four.
        device: Where the positions are to be.
    """
    num_cells = rows * (cells + 1)
    total = num_before + num_cells + 2 + num_after
    places = torch.arange(total, device=device).repeat(num_axes, 1)
    grid = torch.arange(num_cells, device=device)
    first = num_before + 1
    places[-3, first : first + num_cells] = grid % (cells + 1)
    places[-2, first : first + num_cells] = grid // (cells + 1)
    places[-1, first : first + num_cells] = 0
    return places


def rowwise(model: Any) -> None:
    """Have a `HunYuanVLModel` of transformers place each row of a batch by itself, as it would place it alone."""
    together = model.get_rope_index

    def one_by_one(
        input_ids: Tensor,
        mm_token_type_ids: Tensor,
        image_grid_thw: Tensor | None = None,
        attention_mask: Tensor | None = None,
        **others: Any,
    ) -> tuple[Tensor, Tensor]:
        places, deltas = [], []
        for row in range(len(input_ids)):
            one = slice(row, row + 1)
            grid = None if image_grid_thw is None else image_grid_thw[one]
            mask = None if attention_mask is None else attention_mask[one]
            place, delta = together(input_ids[one], mm_token_type_ids[one], grid, mask, **others)
            places.append(place)
            deltas.append(delta)
        return torch.cat(places, dim=1), torch.cat(deltas)

    model.get_rope_index = one_by_one
