"""Which page is read again, how, and what is kept: after numbers that are no numbers, and after loops. Pure.

Repetition is what goes wrong most with models of this kind. The ladder is: a penalty on what was written already,
another resolution, another choice of tokens. What ends by itself is taken; else the first answer is kept and said to
repeat. A page whose numbers overflow in half precision, or that becomes one token for ever, is read in a wider one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pipeline.engines.generated import Decoding, Generated
from pipeline.result import Finish

PENALTY, SCALE, TEMPERATURE = 1.1, 0.8, 0.5


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way to read a page: `wide` in the wider precision, at `scale` times its size."""

    decoding: Decoding
    scale: float = 1.0
    wide: bool = False
    why: str | None = None


@dataclass(slots=True)
class Attempts:
    """The attempts at one page so far. `precision` and `wider` are names for the row's note; no `wider`, no such."""

    first: Decoding
    precision: str
    wider: str | None
    made: list[tuple[Attempt, Generated]] = field(default_factory=list)

    def start(self) -> Attempt:
        """How to read the page at first."""
        return Attempt(self.first)

    def next(self, attempt: Attempt, result: Generated) -> Attempt | None:
        """Take note of an attempt; how to read the page again, or None if the best of the answers is to be kept."""
        self.made.append((attempt, result))
        if not result.is_finite:
            return self._in_wider(attempt, f"numbers were not finite in {self.precision}")
        if result.finish is not Finish.REPETITION:
            return None
        if not attempt.wide and self.wider and len(set(result.tokens[-64:])) == 1:
            return self._in_wider(attempt, f"one token for ever in {self.precision}")
        left = [rung for rung in self._rungs(attempt) if rung.why not in {made.why for made, _ in self.made}]
        return left[0] if left else None

    def kept(self) -> tuple[Attempt, Generated] | None:
        """The answer to keep: one that ended by itself, else the first that is sound; None if none is."""
        sound = [(attempt, result) for attempt, result in self.made if result.is_finite]
        ended = [item for item in sound if item[1].finish is Finish.STOP]
        return next(iter(ended or sound), None)

    def note(self) -> str | None:
        """What the row says of it; None if the page was read once."""
        kept = self.kept()
        if len(self.made) < 2 or kept is None:
            return None
        if kept[0].why is None:
            return f"{len(self.made)} attempts, all of which repeat themselves"
        return kept[0].why

    def _in_wider(self, attempt: Attempt, why: str) -> Attempt | None:
        if attempt.wide or self.wider is None:
            return None
        return replace(attempt, wide=True, why=f"read again in {self.wider}: {why}")

    def _rungs(self, attempt: Attempt) -> list[Attempt]:
        base = Attempt(self.first, wide=attempt.wide)
        penalty = max(PENALTY, self.first.repetition_penalty + 0.05)
        said = "it repeated itself: read again"
        return [
            replace(
                base,
                decoding=replace(self.first, repetition_penalty=penalty),
                why=f"{said} with a repetition penalty of {penalty:g}",
            ),
            replace(base, scale=SCALE, why=f"{said} at {SCALE:g} times the size"),
            replace(
                base,
                decoding=replace(self.first, temperature=TEMPERATURE, repetition_penalty=penalty),
                why=f"{said} by sampling at temperature {TEMPERATURE:g}",
            ),
        ]
