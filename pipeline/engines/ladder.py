"""Ladder: what becomes of pages on which a model got stuck: which are read again, how, and what is kept. Pure.

A page whose answer repeats itself without end is read again one step higher: with a repetition penalty, at another
size, then by sampling with a fixed seed. A page with logits that are not finite, or whose answer turned into one token
over and over, as happens where half precision overflows, goes to the next ladder: the same steps in a wider precision.
What repeats itself to the last is kept, the repeats cut to one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from pipeline.engines.generated import Decoding, Generated
from pipeline.engines.repetition import cut_repeats
from pipeline.result import Finish

PENALTY_STEP = 0.1
SMALLER = 0.8
TEMPERATURE = 0.5


@dataclass(frozen=True, slots=True)
class Step:
    """One way to read pages, at `scale` times their size; `name` says it: ``with a repetition penalty of 1.1``."""

    name: str
    decoding: Decoding
    scale: float = 1.0


Read = Callable[[Sequence[int], Step], Sequence[Generated]]
"""Reads the pages at these positions (zero-based), in this order and in this way: one answer each."""


def steps_for(first: Decoding, precision: str | None = None) -> tuple[Step, ...]:
    """A ladder: as asked, with a higher repetition penalty, at another size, then with the penalty and sampling.

    Args:
        first: How to choose tokens as long as nothing goes wrong.
        precision: What to call it by in notes, if pages are read in another than at first.
    """
    penalty = round(first.repetition_penalty + PENALTY_STEP, 4)
    penalized = replace(first, repetition_penalty=penalty)
    where = f"in {precision} " if precision else ""
    return (
        Step(where.strip() or "as asked", first),
        Step(f"{where}with a repetition penalty of {penalty:g}", penalized),
        Step(f"{where}at {SMALLER:g} times the size", first, SMALLER),
        Step(f"{where}by sampling with seed {first.seed}", replace(penalized, temperature=TEMPERATURE)),
    )


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of a page: an answer without its repeats, how many tokens the model wrote for it, how often it read.

    `note` is one line on why it was not read only once; None if it was.
    """

    answer: Generated
    num_written: int
    tries: int
    note: str | None = None


class Climb:
    """One page on its way up. `place` is the ladder and the step to read it by next, zero-based; None at the end."""

    def __init__(self, ladders: Sequence[Sequence[Step]]) -> None:
        self.place: tuple[int, int] | None = (0, 0)
        self._ladders = ladders
        self._answers: list[Generated] = []
        self._reasons: list[str] = []
        self._is_content = False

    def take(self, answer: Generated) -> None:
        """Hear what was read at `place`, and move on.

        Raises:
            ValueError: the climb is over.
        """
        if self.place is None:
            raise ValueError("this page is not to be read again")
        ladder, step = self.place
        self._answers.append(answer)
        overflowed, is_stuck = _overflow(answer), _is_stuck(answer, step)
        self.place, self._is_content = None, answer.is_finite and not is_stuck
        if overflowed and ladder + 1 < len(self._ladders):
            self._go(ladder + 1, 0, overflowed)
        elif answer.is_finite and is_stuck and step + 1 < len(self._ladders[ladder]):
            self._go(ladder, step + 1, "the answer repeated itself" if step == 0 else None)

    def kept(self) -> Kept:
        """The last answer if it does not repeat itself, else the one that got furthest before it did."""
        stuck = [answer for answer in self._answers if answer.is_finite and answer.finish is Finish.REPETITION]
        choices = self._answers[-1:] if self._is_content or not stuck else stuck
        written = max(choices, key=_num_kept)
        keep = _num_kept(written)
        cut = replace(written, tokens=written.tokens[:keep], logprobs=written.logprobs[:keep])
        return Kept(cut, len(written.tokens), len(self._answers), self._note(written))

    def _go(self, ladder: int, step: int, reason: str | None) -> None:
        self.place = ladder, step
        if reason:
            self._reasons.append(f"{reason}, ")
        self._reasons.append(f"read again {self._ladders[ladder][step].name}; ")

    def _note(self, kept: Generated) -> str | None:
        said = "".join(self._reasons)
        if not kept.is_finite:
            said += "logits were not finite to the last: the text ends there"
        elif kept.finish is Finish.REPETITION:
            said += "the answer repeats itself without end: cut to one copy"
        return said.removesuffix("; ") or None


def climb(num_pages: int, ladders: Sequence[tuple[Read, Sequence[Step]]]) -> list[Kept]:
    """Read pages, some of them again, until there is nothing more to be tried.

    Args:
        num_pages: How many; their positions are 0 to `num_pages` less one.
        ladders: At least one, with its reader and at least one step each; the next one is wider in precision. Pages
            at the same step are read in one call.
    """
    pages = [Climb([steps for _, steps in ladders]) for _ in range(num_pages)]
    while waiting := sorted((page.place, position) for position, page in enumerate(pages) if page.place):
        for (ladder, step), group in groupby(waiting, key=lambda entry: entry[0]):
            positions = [position for _, position in group]
            read, steps = ladders[ladder]
            for position, answer in zip(positions, read(positions, steps[step]), strict=True):
                pages[position].take(answer)
    return [page.kept() for page in pages]


def _overflow(answer: Generated) -> str | None:
    """What looks like numbers beyond the range of the precision."""
    if not answer.is_finite:
        return "logits were not finite"
    repeats = answer.tokens[_num_kept(answer) :]
    return "the answer turned into one token" if repeats and set(repeats) == {repeats[0]} else None


def _is_stuck(answer: Generated, step: int) -> bool:
    """Whether the answer repeats itself; on a later step also if it came to no end, which is no better."""
    return answer.finish is Finish.REPETITION or (step > 0 and answer.finish is Finish.LENGTH)


def _num_kept(answer: Generated) -> int:
    return cut_repeats(answer.tokens) if answer.finish is Finish.REPETITION else len(answer.tokens)
