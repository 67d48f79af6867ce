"""Unimodal: the nearest values to those measured that rise to one peak and fall from there. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def unimodal(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The values that rise to one peak and then fall, nearest to those given by weighted least squares.

    Neighbours whose order is the wrong way round for that are drawn together to their mean, so that the level of a
    plateau is known from all sizes on it, and the highest of many noisy values is not taken for the best.
    Where two peaks are as near, the later one is taken.
    """
    best: list[float] = []
    least = float("inf")
    for split in range(1, len(values) + 1):
        rising = _rising(values[:split], weights[:split])
        falling = _rising(values[split:][::-1], weights[split:][::-1])[::-1]
        fitted = [*rising, *falling]
        error = sum(w * (v - f) ** 2 for v, f, w in zip(values, fitted, weights, strict=True))
        if error <= least:
            least, best = error, fitted
    return best


def _rising(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The nearest values that never fall, by drawing violators together (Ayer et al., 1955)."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        mean, total, count = value, weight, 1
        while blocks and blocks[-1][0] > mean:
            before, its_total, its_count = blocks.pop()
            mean = (before * its_total + mean * total) / (its_total + total)
            total, count = total + its_total, count + its_count
        blocks.append((mean, total, count))
    return [mean for mean, _, count in blocks for _ in range(count)]
