"""The same pages on a GPU: in FP16, by recorded graphs or without, several steps between two looks."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from pipeline.engines.generated import Decoding  # noqa: E402
from tests.model.given import GREEDY, loader, read, tokens  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]


@pytest.fixture(scope="module")
def on_gpu():
    return loader(device=torch.device("cuda")).load("fp16")


@pytest.mark.parametrize("num_slots", [1, 5, 16])
@pytest.mark.parametrize("graphs", [False, True])
def test_200_pages_read_in_half_precision_as_in_full_on_the_cpu(on_gpu, sheets, graphs, num_slots):
    found = read(on_gpu, [sheet.pixels for sheet in sheets], num_slots=num_slots, graphs=graphs, steps_per_look=8)
    differing = [row for row, sheet in enumerate(sheets) if found[row].tokens != sheet.alone.tokens]
    assert len(differing) <= 1  # between two likely letters either is right


@pytest.mark.parametrize("decoding", [GREEDY, Decoding(max_new_tokens=60, repetition_penalty=1.2)])
def test_graphs_change_nothing(on_gpu, sheets, decoding):
    pages = [sheet.pixels for sheet in sheets[:60]]
    ways = [read(on_gpu, pages, decoding, num_slots=8, graphs=graphs, steps_per_look=8) for graphs in (False, True)]
    assert tokens(ways[0]) == tokens(ways[1])
