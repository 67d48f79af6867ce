"""The checkpoint is loaded once for all tests of this folder, and they run on one core."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pipeline.engines.hunyuan.model import PageModel
    from tests.model.given import Sheet


@pytest.fixture(scope="session")
def model() -> PageModel:
    """In float32."""
    import torch

    from tests.model.given import load

    torch.set_num_threads(1)
    return load()


@pytest.fixture(scope="session")
def sheets(model: PageModel) -> list[Sheet]:
    """200 pages of all sizes, each read alone by a reader that has one slot."""
    from tests.model.given import Sheet, grid_pixels, read

    pages = grid_pixels(200)
    return [Sheet(pixels, alone) for pixels, alone in zip(pages, read(model, pages, num_slots=1), strict=True)]
