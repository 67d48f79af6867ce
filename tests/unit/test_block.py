"""Laws of blocks: what travels together."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.block import MAX_BYTES, MAX_CHARACTERS, MAX_PAGES, MAX_TOLD, blocks
from pipeline.bucket import bucket_of
from pipeline.page import Raster, SizedPage
from pipeline.result import Recognition, Settled, Status, Unrendered

from .samples import a_failure, a_page

made_of = st.one_of(st.none(), st.tuples(st.sampled_from([50, 64, 65, 80, 2016]), st.sampled_from([1, 1000, 3000])))


def _made(shapes: list[tuple[int, int] | None]) -> list[Raster | Unrendered]:
    """One page for each length and side; None for one that could not be rendered. The pixels' shape is their index."""
    found: list[Raster | Unrendered] = []
    for index, shape in enumerate(shapes):
        page = a_page(index, count=len(shapes))
        if shape is None:
            found.append(Unrendered(page, a_failure()))
        else:
            sized = SizedPage(page, shape[1], shape[1], 1, None, 0, shape[0])
            found.append(Raster(sized, np.zeros((index, 0), np.uint8)))
    return found


@given(st.lists(made_of, max_size=40))
@example([(64, 3000)] * 3)
def test_blocks_lose_nothing_and_keep_the_order(shapes: list[tuple[int, int] | None]):
    made = _made(shapes)
    told = [item for block in blocks(made) for item in block.told]
    assert told == [item.sized if isinstance(item, Raster) else item for item in made]


@given(st.lists(made_of, max_size=40))
def test_a_block_has_the_pixels_of_its_pages_in_their_order(shapes: list[tuple[int, int] | None]):
    for block in blocks(_made(shapes)):
        rendered = [item.page.page_index for item in block.told if isinstance(item, SizedPage)]
        assert [pixels.shape[0] for pixels in block.pixels] == rendered


@given(st.lists(made_of, max_size=40))
@example([(64, 3000)] * 3)
def test_a_block_is_of_one_bucket_and_within_its_limits(shapes: list[tuple[int, int] | None]):
    for block in blocks(_made(shapes)):
        rendered = [item for item in block.told if isinstance(item, SizedPage)]
        assert block.told
        assert len({bucket_of(sized.length) for sized in rendered}) <= 1
        assert len(rendered) <= MAX_PAGES
        assert len(rendered) <= 1 or sum(sized.num_bytes for sized in rendered) <= MAX_BYTES


def test_pages_are_told_as_soon_as_their_block_is_full():
    made = iter(_made([(64, 1)] * (MAX_PAGES + 2)))
    first = next(blocks(made))
    assert len(first.told) == MAX_PAGES
    assert len(list(made)) == 1


def _settled(index: int, text: str) -> Settled:
    return Settled(SizedPage(a_page(index), 1, 1, 1, None, 0, 64), Status.TEXT_LAYER, Recognition(text))


def test_pages_without_pixels_are_told_some_at_a_time_and_all_of_them():
    made = [_settled(index, "x") for index in range(2 * MAX_TOLD + 1)]
    found = list(blocks(made))
    assert [len(block.told) for block in found] == [MAX_TOLD, MAX_TOLD, 1]
    assert [item for block in found for item in block.told] == made
    assert all(block.pixels == () for block in found)


def test_long_texts_are_told_soon():
    made = [_settled(index, "x" * MAX_CHARACTERS) for index in range(3)]
    assert [len(block.told) for block in blocks(made)] == [2, 1]
