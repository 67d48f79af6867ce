"""Pages of our own making whose reading order is known: set like print, then seen as a detector or a text layer would.

A page is set line by line by a layout that knows the order, with type, leading, gutters and lengths drawn from a
seed; nothing here knows how `pipeline.order` works. Then it is seen in one of four ways (`VIEWS`): lines as printed,
single words, the boxes of a detector (jitter, lines in pieces, cells run together), and the same of a page that lies
askew. Left marginal notes come before the text they stand beside, right ones after; of a table's row each cell is read
to its end.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

from pipeline.result import Line

A4_PX = (1240.0, 1754.0)
VIEWS = ("lines", "words", "detector", "askew")
LETTERS = {
    "latin": "eeeeaaaiiooonnnrrrtttsssllddcumphgbfvkwyzjxq",
    "hebrew": "אבגדהוזחטיכלמנסעפצקרשת",
    "arabic": "ابتثجحخدذرزسشصضطظعغفقكلمنهوي",
}
HAN = (
    "的一是不了人我在有他这中大来上国和地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行"
    "所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者"
    "意无力它与长把机十民第公此已工使情明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见"
    "被利什二等产或新己制身果加西斯月话合回特代内信表化老给世位次度门任常先海通教儿原东声提立及比员解水名"
    "真论处走义各入几口认条平系气题活尔更别打女变四神总何电数安少报才结反受目太量再感建务做接必场件计管期"
    "市直德资命山金指克许统区保至队形社便空决治展马科司五基眼书非则听白却界达光放强即像难且权思王象完设式"
    "色路记南品住告类求据程北边死张该交规万取拉格望觉术领共确传师观清今切院让识候带导争运"
)
KANA = "のにはをたがでてとしれさあいうえおかきくけこすせそつなねひふへほまみむめもやゆよらりるろわん"

Word = tuple[str, float, float]


@dataclass(frozen=True, slots=True)
class Piece:
    """Words in one box: text, first and last pixel of each in the order they are read."""

    words: tuple[Word, ...]
    y0: float
    y1: float


Row = list[Piece]
"""What is read as one line."""


@dataclass(frozen=True, slots=True)
class Printed:
    """A page: its rows in the order they are read, and the text they give."""

    rows: list[list[Line]]

    @property
    def text(self) -> str:
        """Rows joined by line feeds, words by spaces where the script has them."""
        return "\n".join("".join(_spaced(row)) for row in self.rows)


def _spaced(row: list[Line]) -> list[str]:
    parts = [row[0].text]
    for before, after in pairwise(row):
        tight = _is_han(before.text[-1]) and _is_han(after.text[0])
        parts.append(("" if tight else " ") + after.text)
    return parts


def _is_han(char: str) -> bool:
    return char in HAN or char in KANA or char in "、。"


class Sheet:
    """An empty page and the type it is set in; what is set is kept in `rows` in the order of the calls."""

    def __init__(self, rng: random.Random, script: str = "latin", size: tuple[float, float] = A4_PX) -> None:
        self.rng, self.script = rng, script
        self.width, self.height = size
        self.em = rng.uniform(15, 24)
        self.pitch = self.em * rng.uniform(1.15, 1.65)
        self.tall = rng.uniform(0.95, 1.3)
        self.justified = rng.random() < 0.6
        self.left = rng.uniform(0.06, 0.12) * self.width
        self.right = self.width - rng.uniform(0.06, 0.12) * self.width
        self.top = rng.uniform(0.05, 0.1) * self.height
        self.bottom = self.height - rng.uniform(0.06, 0.12) * self.height
        self.rows: list[Row] = []
        self._cap = True

    def word(self) -> str:
        """A word of the sheet's script; of Chinese and Japanese one or two characters."""
        rng = self.rng
        if self.script in ("han", "kana"):
            letters = HAN if self.script == "han" else HAN + 8 * KANA
            return "".join(rng.choices(letters, k=rng.choice((1, 1, 2)))) + (
                "、。"[rng.random() < 0.4] * (rng.random() < 0.08)
            )
        if rng.random() < 0.04:
            return str(rng.randint(1, 9999))
        if self.script != "latin" and rng.random() < 0.06:
            return "".join(rng.choices(LETTERS["latin"], k=rng.randint(2, 8))).capitalize()
        word = "".join(rng.choices(LETTERS[self.script], k=min(14, max(1, round(rng.lognormvariate(1.5, 0.5))))))
        word = word.capitalize() if self._cap else word
        self._cap = rng.random() < 0.07
        return word + (rng.choice(".,,;") if self._cap or rng.random() < 0.05 else "")

    def words(self, low: int, high: int) -> list[str]:
        """From `low` to `high` words."""
        return [self.word() for _ in range(self.rng.randint(low, high))]

    def space(self, em: float) -> float:
        """Width of a space; Chinese and Japanese have none."""
        return 0.0 if self.script in ("han", "kana") else 0.27 * em

    def measure(self, words: list[str], em: float) -> float:
        """Width of words set without stretching."""
        return sum(_width(word, em) for word in words) + self.space(em) * max(0, len(words) - 1)

    def piece(self, x: float, y: float, words: list[str], em: float = 0.0, *, stretch: float = 0.0) -> Piece:
        """Words from `x` on, on the line whose top is `y`; `stretch` is added to each space."""
        em = em or self.em
        set_words: list[Word] = []
        for run in self._runs(words):
            start = x
            for word in reversed(run) if run is not words and len(run) > 1 else run:
                end = x + _width(word, em)
                set_words.append((word, x, end))
                x = end + self.space(em) + stretch
            if run is not words and len(run) > 1:
                added = set_words[-len(run) :]
                set_words[-len(run) :] = sorted(added, key=lambda item: -item[1])
            assert x > start
        extra = (self.tall - 1) * em / 2
        return Piece(tuple(set_words), y - extra, y + em + extra)

    def _runs(self, words: list[str]) -> list[list[str]]:
        """Words that keep together: from right to left, neighbouring Latin words stand the other way round."""
        if self.script not in ("hebrew", "arabic"):
            return [words]
        runs: list[list[str]] = []
        for word in words:
            latin = word[0].isascii() and word[0].isalpha()
            if runs and latin and runs[-1][-1][0].isascii() and runs[-1][-1][0].isalpha():
                runs[-1].append(word)
            else:
                runs.append([word])
        return runs

    def line(
        self, x: float, y: float, words: list[str], em: float = 0.0, *, width: float = 0.0, align: str = "left"
    ) -> float:
        """A line of its own; gives the top of the next."""
        em = em or self.em
        free = width - self.measure(words, em) if width else 0.0
        x += {"left": 0.0, "center": free / 2, "right": free}[align]
        self.rows.append([self.piece(x, y, words, em)])
        return y + em * self.pitch / self.em

    def break_lines(self, words: list[str], width: float, em: float, indent: float = 0.0) -> list[list[str]]:
        """Words in lines no wider than `width`, as long as no single word is."""
        lines: list[list[str]] = [[]]
        used = indent
        for word in words:
            wide = _width(word, em)
            if lines[-1] and used + self.space(em) + wide > width:
                lines.append([])
                used = 0.0
            used += wide + (self.space(em) if lines[-1] else 0.0)
            lines[-1].append(word)
        return lines

    def paragraph(
        self,
        x: float,
        y: float,
        width: float,
        words: list[str],
        em: float = 0.0,
        *,
        indent: float = 0.0,
        bottom: float = 1e9,
        align: str = "left",
        justified: bool | None = None,
    ) -> float:
        """A paragraph down to `bottom` at most; gives the top of the next line."""
        em = em or self.em
        justified = self.justified if justified is None else justified
        lines = self.break_lines(words, width, em, indent)
        for number, line in enumerate(lines):
            if y + em > bottom:
                break
            start = x + (indent if number == 0 else 0.0)
            free = width - (start - x) - self.measure(line, em)
            stretch = (
                free / (len(line) - 1)
                if justified and number < len(lines) - 1 and len(line) > 1 and align == "left"
                else 0.0
            )
            stretch = stretch if 0 < stretch < 2 * em else 0.0
            start += {"left": 0.0, "center": free / 2, "right": free}[align]
            self.rows.append([self.piece(start, y, line, em, stretch=stretch)])
            y += em * self.pitch / self.em
        return y

    def fill(self, x: float, y: float, width: float, bottom: float, em: float = 0.0, *, headings: bool = True) -> float:
        """Paragraphs, with a heading now and then, down to `bottom`."""
        em = em or self.em
        rng = self.rng
        pitch = em * self.pitch / self.em
        style = random.Random(rng.random())
        indent, gap = style.choice(((1.5 * em, 0.0), (0.0, 0.6 * pitch), (0.0, 0.0)))
        while y + em <= bottom:
            if headings and rng.random() < 0.12 and y + 3 * pitch < bottom:
                y = (
                    self.line(x, y + 0.5 * pitch, self.words(1, 3)[: max(1, int(width / (6 * em)))], 1.15 * em)
                    + 0.2 * pitch
                )
            y = self.paragraph(x, y, width, self.words(15, 90), em, indent=indent, bottom=bottom) + gap
        return y


def _width(word: str, em: float) -> float:
    total = 0.0
    for char in word:
        if ord(char) > 0x2E80:
            total += 1.0
        elif char in "iljtfr.,;:'()1":
            total += 0.32
        else:
            total += 0.78 if char in "mwMW" or char.isupper() else 0.5
    return total * em


def _columns(sheet: Sheet, count: int, low: float = 1.0, high: float = 2.5) -> list[tuple[float, float]]:
    gutter = sheet.rng.uniform(low, high) * sheet.em
    width = (sheet.right - sheet.left - gutter * (count - 1)) / count
    return [(sheet.left + (width + gutter) * i, width) for i in range(count)]


def _head(sheet: Sheet, y: float) -> float:
    """A running head, a page number, or nothing."""
    if sheet.rng.random() < 0.5:
        left = sheet.piece(sheet.left, y, sheet.words(2, 4))
        number = [str(sheet.rng.randint(1, 400))]
        sheet.rows.append([left, sheet.piece(sheet.right - sheet.measure(number, sheet.em), y, number)])
        y += 2.6 * sheet.pitch
    return y


def _foot(sheet: Sheet) -> None:
    if sheet.rng.random() < 0.5:
        sheet.line(
            sheet.left,
            sheet.bottom + 1.8 * sheet.pitch,
            [str(sheet.rng.randint(1, 400))],
            width=sheet.right - sheet.left,
            align="center",
        )


def _title(sheet: Sheet, y: float) -> float:
    width = sheet.right - sheet.left
    em = sheet.em * sheet.rng.uniform(1.4, 2.2)
    y = sheet.paragraph(sheet.left, y, width, sheet.words(6, 12), em, align="center")
    if sheet.rng.random() < 0.5:
        y = sheet.line(sheet.left, y + 0.3 * sheet.pitch, sheet.words(3, 6), width=width, align="center")
    return y + sheet.pitch


def _set_columns(
    sheet: Sheet, y: float, count: int, bottom: float, *, ragged_end: bool = True, em: float = 0.0
) -> None:
    columns = _columns(sheet, count)
    for index, (x, width) in enumerate(columns):
        last = index == count - 1 and ragged_end
        end = y + (bottom - y) * sheet.rng.uniform(0.4, 1.0) if last else bottom
        sheet.fill(x, y + sheet.rng.choice((0.0, 0.0, 0.4)) * sheet.pitch, width, end, em)


def one_column(sheet: Sheet) -> None:
    """Paragraphs and headings across the page."""
    y = _head(sheet, sheet.top)
    y = _title(sheet, y) if sheet.rng.random() < 0.5 else y
    sheet.fill(sheet.left, y, sheet.right - sheet.left, sheet.bottom)
    _foot(sheet)


def two_columns(sheet: Sheet) -> None:
    """A title, then two columns."""
    y = _head(sheet, sheet.top)
    y = _title(sheet, y) if sheet.rng.random() < 0.5 else y
    _set_columns(sheet, y, 2, sheet.bottom)
    _foot(sheet)


def three_columns(sheet: Sheet) -> None:
    """Three columns, perhaps below a title."""
    sheet.em *= 0.85
    sheet.pitch *= 0.85
    y = _head(sheet, sheet.top)
    y = _title(sheet, y) if sheet.rng.random() < 0.4 else y
    _set_columns(sheet, y, 3, sheet.bottom)
    _foot(sheet)


def mixed_columns(sheet: Sheet) -> None:
    """Parts of one to three columns one below the other, parted by headings or figures with captions across them."""
    rng = sheet.rng
    y = _title(sheet, _head(sheet, sheet.top))
    width = sheet.right - sheet.left
    inset = rng.choice((0.0, 0.08)) * width
    y = sheet.paragraph(sheet.left + inset, y, width - 2 * inset, sheet.words(40, 80)) + 1.2 * sheet.pitch
    while sheet.bottom - y > 12 * sheet.pitch:
        bottom = min(sheet.bottom, y + rng.uniform(10, 30) * sheet.pitch)
        _set_columns(sheet, y, rng.choice((2, 2, 3)), bottom, ragged_end=False)
        y = bottom + rng.uniform(0.6, 1.5) * sheet.pitch
        if rng.random() < 0.5:
            y += rng.uniform(4, 10) * sheet.pitch
            y = sheet.paragraph(sheet.left, y, width, sheet.words(18, 40), 0.9 * sheet.em) + 1.2 * sheet.pitch
        else:
            em = 1.3 * sheet.em
            words = sheet.words(5, 9)
            y = sheet.line(
                sheet.left,
                y,
                words,
                em,
                width=width,
                align="center" if rng.random() < 0.5 or sheet.measure(words, em) < 0.6 * width else "left",
            )
            y += 0.6 * sheet.pitch
    _foot(sheet)


def side_notes(sheet: Sheet) -> None:
    """A column of text and notes of one to six short lines in the margin, smaller and on lines of their own."""
    rng = sheet.rng
    note_width = rng.uniform(0.14, 0.22) * (sheet.right - sheet.left)
    gap = rng.uniform(1.2, 2.5) * sheet.em
    on_left = rng.random() < 0.5
    text_x = sheet.left + note_width + gap if on_left else sheet.left
    note_x = sheet.left if on_left else sheet.right - note_width
    width = sheet.right - sheet.left - note_width - gap
    y = _head(sheet, sheet.top)

    def notes() -> None:
        top = y + rng.uniform(0, 8) * sheet.pitch
        while top < sheet.bottom - 7 * sheet.pitch:
            top = sheet.paragraph(note_x, top, note_width, sheet.words(3, 14), 0.8 * sheet.em, justified=False)
            top += rng.uniform(2, 14) * sheet.pitch

    if on_left:
        notes()
    sheet.fill(text_x, y, width, sheet.bottom)
    if not on_left:
        notes()


def footnotes(sheet: Sheet) -> None:
    """One or two columns with notes in smaller type at the foot of the page or of each column."""
    rng = sheet.rng
    y = _head(sheet, sheet.top)
    count, below_all = rng.choice(((1, True), (2, True), (2, False)))
    start = sheet.bottom - rng.uniform(4, 12) * sheet.pitch

    def notes(x: float, width: float) -> None:
        top = start + 0.8 * sheet.pitch
        number = 1
        while top + sheet.em <= sheet.bottom:
            top = sheet.paragraph(
                x, top, width, [f"{number}", *sheet.words(8, 40)], 0.78 * sheet.em, bottom=sheet.bottom
            )
            number += 1

    for x, width in _columns(sheet, count):
        sheet.fill(x, y, width, start)
        if not below_all:
            notes(x, width)
    if below_all:
        notes(sheet.left, sheet.right - sheet.left)
    _foot(sheet)


def _cell(sheet: Sheet, kind: str) -> list[str]:
    rng = sheet.rng
    if kind == "number":
        return [
            rng.choice(
                (
                    f"{rng.randint(0, 9)}.{rng.randint(0, 99):02}",
                    f"{rng.randint(1, 999)},{rng.randint(0, 999):03}",
                    str(rng.randint(0, 9999)),
                    "—",
                )
            )
        ]
    if kind == "date":
        return [f"{rng.randint(1, 28)}.{rng.randint(1, 12)}.{rng.randint(1950, 2024)}"]
    return sheet.words(1, 3)


def _table(sheet: Sheet, y: float, num_rows: int) -> float:
    """Cells of one line; some rows lack a cell, and a title may stand above the heads of the columns."""
    rng = sheet.rng
    count = rng.randint(2, 7)
    kinds = ["words", *(rng.choice(("number", "number", "words", "date")) for _ in range(count - 1))]
    aligns = [{"words": "left", "number": "right", "date": rng.choice(("left", "center"))}[kind] for kind in kinds]
    shares = [rng.uniform(0.8, 1.4) + (kind == "words") for kind in kinds]
    total = sum(shares)
    wide = rng.choice((0.6, 0.85, 1.0)) * (sheet.right - sheet.left)
    edges = [sheet.left + wide * sum(shares[:i]) / total for i in range(count + 1)]
    pitch = sheet.pitch * rng.uniform(1.0, 1.8)
    for number in range(num_rows + 1):
        row: Row = []
        for i in range(count):
            words = sheet.words(1, 1) if number == 0 else _cell(sheet, kinds[i])
            room = edges[i + 1] - edges[i] - 1.2 * sheet.em
            while len(words) > 1 and sheet.measure(words, sheet.em) > room:
                words = words[:-1]
            words = (
                words if sheet.measure(words, sheet.em) <= room else [words[0][: max(1, int(room / (0.8 * sheet.em)))]]
            )
            free = room - sheet.measure(words, sheet.em)
            if number and i and rng.random() < 0.06:
                continue
            row.append(sheet.piece(edges[i] + {"left": 0.0, "center": free / 2, "right": free}[aligns[i]], y, words))
        sheet.rows.append(row)
        y += pitch
    return y


def tables(sheet: Sheet) -> None:
    """Tables of one-line cells with text above and below."""
    rng = sheet.rng
    y = _head(sheet, sheet.top)
    width = sheet.right - sheet.left
    while sheet.bottom - y > 14 * sheet.pitch:
        y = sheet.paragraph(sheet.left, y, width, sheet.words(20, 80)) + sheet.pitch
        num_rows = min(rng.randint(4, 24), int((sheet.bottom - y) / (1.8 * sheet.pitch)) - 1)
        y = _table(sheet, y, num_rows) + sheet.pitch


def cell_tables(sheet: Sheet) -> None:
    """A table whose cells run over several lines, with more room between rows than between lines."""
    rng = sheet.rng
    y = sheet.paragraph(sheet.left, sheet.top, sheet.right - sheet.left, sheet.words(20, 60)) + 1.2 * sheet.pitch
    count = rng.randint(2, 5)
    shares = [rng.uniform(0.5, 1.6) for _ in range(count)]
    gutter = rng.uniform(1.0, 2.5) * sheet.em
    room = sheet.right - sheet.left - gutter * (count - 1)
    widths = [room * share / sum(shares) for share in shares]
    padding = rng.uniform(0.4, 1.2) * sheet.em
    lengths = [rng.choice((1, 4, 12, 25)) for _ in range(count)]
    lengths[rng.randrange(count)] = 20
    middle = rng.random() < 0.25
    while y < sheet.bottom - 8 * sheet.pitch:
        cells = []
        for width, length in zip(widths, lengths, strict=True):
            words = _cell(sheet, "number") if length == 1 else sheet.words(1, length)
            cells.append(sheet.break_lines(words, width, sheet.em))
        most = max(map(len, cells))
        x = sheet.left
        single: Row = []
        for lines, width in zip(cells, widths, strict=True):
            top = y + ((most - len(lines)) * sheet.pitch / 2 if middle else 0.0)
            pieces = [sheet.piece(x, top + i * sheet.pitch, line) for i, line in enumerate(lines)]
            x += width + gutter
            if most == 1:
                single += pieces
            else:
                sheet.rows.extend([piece] for piece in pieces)
        if single:
            sheet.rows.append(single)
        y += most * sheet.pitch + padding


def receipt(sheet: Sheet) -> None:
    """A narrow slip: name of the shop, goods and prices, a total, thanks."""
    rng = sheet.rng
    width = sheet.right - sheet.left
    y = sheet.top
    for _ in range(rng.randint(2, 5)):
        y = sheet.line(sheet.left, y, sheet.words(1, 3), width=width, align="center")
    y += rng.uniform(0.3, 1.5) * sheet.pitch
    while y < sheet.bottom - 5 * sheet.pitch:
        price = [f"{rng.randint(0, 99)}.{rng.randint(0, 99):02}"]
        row = [sheet.piece(sheet.left, y, sheet.words(1, 3))]
        if rng.random() < 0.4:
            row.insert(0, sheet.piece(sheet.left - 2.5 * sheet.em, y, [str(rng.randint(1, 9))]))
        row.append(sheet.piece(sheet.right - sheet.measure(price, sheet.em), y, price))
        sheet.rows.append(row)
        y += sheet.pitch
        if rng.random() < 0.15:
            y = sheet.line(sheet.left + sheet.em, y, sheet.words(1, 3))
    for _ in range(rng.randint(1, 3)):
        y = sheet.line(sheet.left, y + 0.5 * sheet.pitch, sheet.words(2, 4), width=width, align="center")


def form(sheet: Sheet) -> None:
    """Labels and what was filled in, one or two pairs to a line, under headings."""
    rng = sheet.rng
    y = _title(sheet, sheet.top)
    pairs = rng.choice((1, 2, 2, 3))
    width = (sheet.right - sheet.left) / pairs
    pitch = rng.uniform(1.2, 2.2) * sheet.pitch
    share = rng.uniform(0.3, 0.5)
    while y < sheet.bottom:
        if rng.random() < 0.1:
            y = sheet.line(sheet.left, y + 0.5 * pitch, sheet.words(2, 4), 1.2 * sheet.em) + 0.3 * pitch
        row: Row = []
        for i in range(pairs):
            x = sheet.left + width * i
            label = sheet.words(1, 2)
            while len(label) > 1 and sheet.measure(label, sheet.em) > share * width - sheet.em:
                label = label[1:]
            row.append(
                sheet.piece(x, y, [label[0][: int(share * width / (0.8 * sheet.em))]] if len(label) == 1 else label)
            )
            if rng.random() < 0.85:
                value = rng.choice((sheet.words(1, 2), _cell(sheet, "number"), _cell(sheet, "date")))
                if sheet.measure(value, sheet.em) < (1 - share) * width - sheet.em:
                    row.append(sheet.piece(x + share * width, y, value))
        sheet.rows.append(row)
        y += pitch


def contents(sheet: Sheet) -> None:
    """Titles and page numbers, chapters set off."""
    rng = sheet.rng
    y = _title(sheet, sheet.top)
    while y < sheet.bottom:
        chapter = rng.random() < 0.2
        x = sheet.left if chapter else sheet.left + 2 * sheet.em
        number = [str(rng.randint(1, 400))]
        y += 0.4 * sheet.pitch if chapter else 0.0
        row = [
            sheet.piece(x, y, sheet.words(2, 7)),
            sheet.piece(sheet.right - sheet.measure(number, sheet.em), y, number),
        ]
        sheet.rows.append(row)
        y += sheet.pitch


def index_page(sheet: Sheet) -> None:
    """Short entries of very different lengths in two or three columns, some going on in a second line."""
    rng = sheet.rng
    y = _title(sheet, sheet.top) if rng.random() < 0.5 else _head(sheet, sheet.top)
    for x, width in _columns(sheet, rng.choice((2, 3))):
        top = y
        while top < sheet.bottom:
            if rng.random() < 0.06:
                top += sheet.pitch
            entry = [
                *sheet.words(1, 3),
                *(f"{rng.randint(1, 400)}," for _ in range(rng.randint(0, 4))),
                str(rng.randint(1, 400)),
            ]
            for number, words in enumerate(sheet.break_lines(entry, width - 1.5 * sheet.em, sheet.em)):
                if top < sheet.bottom:
                    top = sheet.line(x + (1.5 * sheet.em if number else 0), top, words)


def letter(sheet: Sheet) -> None:
    """Sender on the right, receiver on the left below it, date, text, signature."""
    rng = sheet.rng
    y = sheet.top
    x = sheet.left + rng.uniform(0.55, 0.7) * (sheet.right - sheet.left)
    for _ in range(rng.randint(2, 4)):
        y = sheet.line(x, y, sheet.words(1, 3))
    y += sheet.pitch
    for _ in range(rng.randint(3, 5)):
        y = sheet.line(sheet.left, y, sheet.words(1, 3))
    y = sheet.line(x, y + sheet.pitch, _cell(sheet, "date")) + sheet.pitch
    sheet.fill(sheet.left, y, sheet.right - sheet.left, sheet.bottom - 6 * sheet.pitch, headings=False)
    y = sheet.bottom - 5 * sheet.pitch
    for _ in range(2):
        y = sheet.line(x, y, sheet.words(1, 2))


def _story(sheet: Sheet, columns: list[tuple[float, float]], y: float, bottom: float, em: float) -> None:
    """A heading across the columns of a story, perhaps a picture with a caption, and its text."""
    rng = sheet.rng
    x0, x1 = columns[0][0], columns[-1][0] + columns[-1][1]
    size = em * rng.uniform(1.5, 1.9 + 0.6 * len(columns))
    words = sheet.words(1, 1)
    while sheet.measure(words, size) < rng.uniform(0.75, 1.6) * (x1 - x0):
        words.append(sheet.word())
    y = sheet.paragraph(x0, y, x1 - x0, words, size, align=rng.choice(("left", "center")), justified=False)
    y += 0.4 * sheet.pitch
    first, span = 0, 0
    if bottom - y > 22 * em and rng.random() < 0.5:
        span = rng.randint(1, len(columns))
        first = rng.randint(0, len(columns) - span)
    picture = y + rng.uniform(6, 10) * em
    for i, (x, width) in enumerate(columns):
        top = y
        if first <= i < first + span:
            wide = columns[first + span - 1][0] + columns[first + span - 1][1] - columns[first][0]
            if i == first:
                caption = sheet.words(6, 16)
                sheet.paragraph(x, picture, wide, caption, 0.85 * em, justified=False)
                lines = len(sheet.break_lines(caption, wide, 0.85 * em))
                after = picture + lines * 0.85 * em * sheet.pitch / sheet.em + 0.8 * em
            top = after
        sheet.fill(x, top, width, bottom, em)


def newspaper(sheet: Sheet) -> None:
    """Masthead, four to six columns, stories side by side and one above the other, pictures with captions."""
    rng = sheet.rng
    sheet.width, sheet.height = 1800.0, 2500.0
    sheet.left, sheet.right, sheet.top, sheet.bottom = 60.0, 1740.0, 60.0, 2420.0
    count = rng.randint(4, 6)
    em = rng.uniform(13, 17)
    sheet.pitch *= em / sheet.em
    sheet.em = em
    columns = _columns(sheet, count, 1.0, 1.8)
    y = sheet.line(sheet.left, sheet.top, sheet.words(2, 3), 5 * em, width=1680, align="center")
    row = [sheet.piece(sheet.left, y, sheet.words(2, 3)), sheet.piece(1640, y, ["No.", "12"])]
    sheet.rows.append(row)
    y += 2 * sheet.pitch
    if rng.random() < 0.5:
        bottom = y + rng.uniform(400, 800)
        _story(sheet, columns, y, bottom, em)
        y = bottom + 1.5 * sheet.pitch
    foot = sheet.bottom - rng.choice((0.0, rng.uniform(300, 500)))
    start = 0
    while start < count:
        span = min(rng.randint(1, 3), count - start)
        group, top = columns[start : start + span], y
        while foot - top > 250:
            bottom = top + rng.uniform(300, 900)
            bottom = foot if foot - bottom < 300 else bottom
            _story(sheet, group, top, bottom, em)
            top = bottom + rng.uniform(1.0, 2.0) * sheet.pitch
        start += span
    if foot < sheet.bottom:
        _story(sheet, columns, foot + 1.5 * sheet.pitch, sheet.bottom, em)


def tiers(sheet: Sheet) -> None:
    """One to four tiers of text: columns where lines run across, tiers where they run down."""
    y = _title(sheet, sheet.top) if sheet.rng.random() < 0.3 else sheet.top
    _set_columns(sheet, y, sheet.rng.choice((1, 1, 2, 3, 4)), sheet.bottom)


LATIN_KINDS: dict[str, Callable[[Sheet], None]] = {
    "one column": one_column,
    "two columns": two_columns,
    "three columns": three_columns,
    "mixed columns": mixed_columns,
    "side notes": side_notes,
    "footnotes": footnotes,
    "tables": tables,
    "tables, cells of lines": cell_tables,
    "receipts": receipt,
    "forms": form,
    "contents": contents,
    "indexes": index_page,
    "letters": letter,
    "newspapers": newspaper,
}
OTHER_KINDS: dict[str, tuple[Callable[[Sheet], None], tuple[str, ...]]] = {
    "right to left": (one_column, ("hebrew", "arabic")),
    "right to left, columns": (mixed_columns, ("hebrew", "arabic")),
    "right to left, tables": (tables, ("hebrew", "arabic")),
    "right to left, forms": (form, ("hebrew", "arabic")),
    "Chinese, columns": (mixed_columns, ("han",)),
    "Japanese, tables": (cell_tables, ("kana",)),
    "vertical": (tiers, ("han", "kana")),
    "vertical, headings": (tiers, ("han", "kana")),
    "vertical beside lines": (one_column, ("han", "kana")),
}
KINDS = (*LATIN_KINDS, *OTHER_KINDS)


def printed(kind: str, seed: int, view: str) -> Printed:
    """The page of that kind and seed, seen in one of `VIEWS`."""
    rng = random.Random(f"{kind} {seed}")
    boxes = _vertical(kind, rng) if kind.startswith("vertical") else _across(kind, rng)
    noise = random.Random(f"{kind} {seed} {view}")
    rows = [[line for piece in row for line in _seen(piece, view, noise)] for row in boxes]
    if view in ("detector", "askew"):
        rows = [_run_together(row, noise) for row in rows]
    if view == "askew":
        angle = math.radians(noise.uniform(-2.2, 2.2))
        rows = [[replace(line, bbox=_turned(line.bbox, angle)) for line in row] for row in rows]
    return Printed([row for row in rows if row])


@dataclass(frozen=True, slots=True)
class _Set:
    """Words as they lie on the page: text and box of each, and whether they run down it."""

    words: tuple[tuple[str, tuple[float, float, float, float]], ...]
    down: bool


def _across(kind: str, rng: random.Random) -> list[list[_Set]]:
    script = "latin"
    layout = LATIN_KINDS.get(kind)
    if layout is None:
        layout, scripts = OTHER_KINDS[kind]
        script = rng.choice(scripts)
    sheet = Sheet(rng, script, (620.0, 1500.0) if kind == "receipts" else A4_PX)
    layout(sheet)
    mirror = sheet.width if script in ("hebrew", "arabic") else None
    return [[_laid(piece, mirror=mirror) for piece in row] for row in sheet.rows]


def _laid(piece: Piece, *, mirror: float | None = None) -> _Set:
    boxes = []
    for text, x0, x1 in piece.words:
        ends = (x0, x1) if mirror is None else (mirror - x1, mirror - x0)
        boxes.append((text, (ends[0], piece.y0, ends[1], piece.y1)))
    return _Set(tuple(boxes), down=False)


def _down(piece: Piece, right: float, top: float) -> _Set:
    """A line that runs down: what was its left end is at the top, what stood below stands to the left."""
    words = ((text, (right - piece.y1, top + x0, right - piece.y0, top + x1)) for text, x0, x1 in piece.words)
    return _Set(tuple(words), down=True)


def _vertical(kind: str, rng: random.Random) -> list[list[_Set]]:
    script = rng.choice(("han", "kana"))
    wide, high = A4_PX
    rows: list[list[_Set]] = []
    top, right, depth = 0.0, wide, high
    if kind == "vertical, headings":
        head = Sheet(rng, script)
        em = head.em * rng.uniform(1.0, 2.0)
        words = head.words(6, 14)
        y = head.line(head.left, 0.06 * high, words, em, width=head.right - head.left, align="center")
        rows += [[_laid(piece) for piece in row] for row in head.rows]
        top, depth = y, high - y
    if kind == "vertical beside lines":
        beside = Sheet(rng, script, (wide * rng.uniform(0.45, 0.6), high))
        one_column(beside)
        sheet = Sheet(rng, script, (high, wide - beside.width))
        sheet.left, sheet.right = max(sheet.left, beside.top), sheet.right
        tiers(sheet)
        rows += [[_down(piece, wide, 0.0) for piece in row] for row in sheet.rows]
        return rows + [[_laid(piece) for piece in row] for row in beside.rows]
    sheet = Sheet(rng, script, (depth, right))
    tiers(sheet)
    rows += [[_down(piece, right, top) for piece in row] for row in sheet.rows]
    if kind == "vertical, headings" and rng.random() < 0.6:
        tail = Sheet(rng, script)
        tail.line(0.0, high - 0.03 * high, [str(rng.randint(1, 300))], width=wide, align="center")
        rows += [[_laid(piece) for piece in row] for row in tail.rows]
    return rows


def _seen(piece: _Set, view: str, noise: random.Random) -> list[Line]:
    """The boxes that one printed piece comes in: whole, by words, or broken at random and out of true."""
    chance = {"lines": 0.0, "words": 1.0, "detector": 0.04, "askew": 0.04}[view]
    tight = _is_han(piece.words[0][0][0])
    groups: list[list[tuple[str, tuple[float, float, float, float]]]] = []
    for word in piece.words:
        if groups and not (noise.random() < (chance / 2 if tight else chance)):
            groups[-1].append(word)
        else:
            groups.append([word])
    lines = []
    for group in groups:
        boxes = [box for _, box in group]
        bbox = (min(b[0] for b in boxes), min(b[1] for b in boxes), max(b[2] for b in boxes), max(b[3] for b in boxes))
        text = group[0][0]
        for (before, _), (after, _) in pairwise(group):
            text += ("" if _is_han(before[-1]) and _is_han(after[0]) else " ") + after
        if view in ("detector", "askew"):
            bbox = _out_of_true(bbox, noise, piece.down)
        lines.append(Line(text, bbox, None if view in ("lines", "words") else 0.9))
    return lines


def _out_of_true(
    bbox: tuple[float, float, float, float], noise: random.Random, down: bool
) -> tuple[float, float, float, float]:
    """Whole pixels, each edge moved by some hundredths of the height, and a little larger, as detectors' boxes are."""
    high = bbox[2] - bbox[0] if down else bbox[3] - bbox[1]
    grown = noise.uniform(-0.02, 0.12) * high
    edges = [
        value + side * grown + max(-0.15, min(0.15, noise.gauss(0, 0.04))) * high
        for value, side in zip(bbox, (-1, -1, 1, 1), strict=True)
    ]
    x0, y0, x1, y1 = (float(round(value)) for value in edges)
    return x0, y0, max(x1, x0 + 1), max(y1, y0 + 1)


def _run_together(row: list[Line], noise: random.Random) -> list[Line]:
    """Neighbours of one row seen as one box, now and then."""
    found: list[Line] = []
    for line in row:
        before = found[-1] if found else None
        if (
            before
            and noise.random() < 0.05
            and line.bbox[0] > before.bbox[2]
            and line.bbox[0] - before.bbox[2] < 60
            and not _is_han(line.text[0])
        ):
            a, b = before.bbox, line.bbox
            found[-1] = Line(f"{before.text} {line.text}", (a[0], min(a[1], b[1]), b[2], max(a[3], b[3])), 0.9)
        else:
            found.append(line)
    return found


def _turned(bbox: tuple[float, float, float, float], angle: float) -> tuple[float, float, float, float]:
    """The upright box around a box turned about the page's corner."""
    cos, sin = math.cos(angle), math.sin(angle)
    x0, y0, x1, y1 = bbox
    xs = [x * cos - y * sin for x in (x0, x1) for y in (y0, y1)]
    ys = [x * sin + y * cos for x in (x0, x1) for y in (y0, y1)]
    return float(round(min(xs))), float(round(min(ys))), float(round(max(xs))), float(round(max(ys)))
