"""Expectation: how long a page's answer will be, from its ink and from what like pages gave earlier in the run. Pure.

A batch waits for its longest answer, so pages of like answers belong together. Everything is reckoned in logarithms,
where the error of a guess is as large for a long page as for a short one, and what comes out is near the median.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, field

from pipeline.page import SizedPage

TOKENS_PER_CHAR = 0.3
"""Of an answer in European languages; Chinese has twice as many, which a run learns."""
TOKENS_PER_LENGTH = 0.2
"""Of a page of whose print nothing is known: an A4 page of 3,900 visual tokens has some 800 tokens of text."""
MAX_TOKENS = 1e6
MAX_DOCUMENTS = 4096
"""Documents that are remembered, the last ones told of."""

_CELLS_PER_E = 2.0
_KIND = 32
"""More cells than a kind of evidence has."""
_MAX_STEP = 1.5
"""How far from what was expected, in logarithms, a page may draw what is expected next: one that was written over and
over until the limit draws no farther than one of four times the length."""
_MEMORY, _CELL_MEMORY, _DOCUMENT_MEMORY = 1024, 256, 5
"""Over how many pages of the run, of a cell, and of a document a page's weight fades."""
_CELL_DOUBT, _DOCUMENT_DOUBT = 4.0, 0.5
"""With how many pages like all others a cell, and with how many like its cell a document is taken to begin."""


@dataclass(slots=True)
class _Mean:
    """A running mean that no single value moves far; of the first `count` values, then fading."""

    value: float = 0.0
    count: int = 0

    def tell(self, value: float, memory: int) -> None:
        """Move towards a value, which weighs as much as the last `memory` ones."""
        if self.count < memory:
            self.count += 1
        step = value - self.value
        if step > _MAX_STEP:
            step = _MAX_STEP
        elif step < -_MAX_STEP:
            step = -_MAX_STEP
        self.value += step / self.count


@dataclass(slots=True)
class Expectation:
    """What answers are to be expected; takes no more memory for more pages, and a constant time for each.

    The guess from the evidence on the page is corrected by what all pages, pages with as much evidence (a cell), and
    pages of the same document gave. The same pages told in the same order give the same expectations.
    """

    _all: _Mean = field(default_factory=_Mean)
    _cells: dict[int, _Mean] = field(default_factory=dict)
    _documents: OrderedDict[str, _Mean] = field(default_factory=OrderedDict)

    @property
    def num_remembered(self) -> int:
        """Cells and documents that are kept in memory."""
        return len(self._cells) + len(self._documents)

    def of(self, sized: SizedPage) -> float:
        """Tokens that the answer will have, about the median: at least 1, at most `MAX_TOKENS`."""
        guess, key = _prior(sized)
        cell, document = self._cells.get(key), self._documents.get(sized.page.document_id)
        guess += self._all.value if cell is None else self._usual(cell)
        if document is not None:
            guess += document.value * document.count / (document.count + _DOCUMENT_DOUBT)
        return _within(math.exp(guess))

    def tell(self, sized: SizedPage, output_tokens: int) -> None:
        """Learn how many tokens the answer had."""
        prior, key = _prior(sized)
        beyond = math.log(_within(output_tokens)) - prior
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = _Mean()
        document = self._document(sized.page.document_id)
        document.tell(beyond - self._usual(cell), _DOCUMENT_MEMORY)
        cell.tell(beyond, _CELL_MEMORY)
        self._all.tell(beyond, _MEMORY)

    def _usual(self, cell: _Mean) -> float:
        """How far beyond their evidence pages of a cell are, which is that of all pages before it is known."""
        return (cell.value * cell.count + self._all.value * _CELL_DOUBT) / (cell.count + _CELL_DOUBT)

    def _document(self, document_id: str) -> _Mean:
        """What is known of a document, which is now the last told of."""
        documents = self._documents
        document = documents.get(document_id)
        if document is not None:
            documents.move_to_end(document_id)
            return document
        if len(documents) >= MAX_DOCUMENTS:
            documents.popitem(last=False)
        document = documents[document_id] = _Mean()
        return document


def _prior(sized: SizedPage) -> tuple[float, int]:
    """The logarithm of the tokens as the page's own evidence has them, and the cell of pages with as much of it.

    A page's own text may be a number stamped on a scan: it counts unless more than twice as much is printed.
    """
    ink, layer = sized.ink_chars, sized.layer_chars
    if layer and (ink is None or ink <= 2 * layer):
        kind, tokens = 2 * _KIND, layer * TOKENS_PER_CHAR
    elif ink is not None:
        kind, tokens = _KIND, ink * TOKENS_PER_CHAR
    else:
        kind, tokens = 0, sized.length * TOKENS_PER_LENGTH
    prior = math.log(_within(tokens))
    return prior, kind + int(prior * _CELLS_PER_E)


def _within(tokens: float) -> float:
    return 1.0 if tokens <= 1.0 else tokens if tokens < MAX_TOKENS else MAX_TOKENS
