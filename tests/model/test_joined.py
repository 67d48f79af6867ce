"""Projections of the same input in one call."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from pipeline.engines.hunyuan.joined import joined  # noqa: E402


def projections(*widths: int) -> list[nn.Linear]:
    torch.manual_seed(0)
    return [nn.Linear(24, width, bias=False) for width in widths]


@torch.inference_mode()
def test_results_stand_behind_one_another():
    parts = projections(16, 8, 8)
    hidden = torch.randn(3, 5, 24)
    wanted = torch.cat([part(hidden) for part in parts], -1)
    assert torch.allclose(joined(parts)(hidden), wanted, atol=1e-6)
    assert torch.allclose(torch.cat([part(hidden) for part in parts], -1), wanted, atol=1e-6)


def test_weights_are_there_once():
    parts = projections(16, 8)
    together = joined(parts)
    assert len({part.weight.untyped_storage().data_ptr() for part in parts}) == 1
    with torch.no_grad():
        parts[1].weight.zero_()
        assert together(torch.randn(2, 24))[:, 16:].abs().max() == 0


@torch.inference_mode()
def test_what_is_more_than_a_matrix_is_called_itself():
    class Doubled(nn.Linear):
        def forward(self, hidden: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(hidden)

    plain, hidden = projections(8)[0], torch.randn(2, 24)
    biased, doubled = nn.Linear(24, 8), Doubled(24, 8, bias=False)
    for other in (biased, doubled):
        before = other.weight.untyped_storage().data_ptr()
        assert torch.equal(joined([plain, other])(hidden), torch.cat([plain(hidden), other(hidden)], -1))
        assert other.weight.untyped_storage().data_ptr() == before
