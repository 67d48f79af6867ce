"""Soundness: whether the text that a page holds itself may stand for what the page shows. Pure.

Wrong text is worse than a page read for nothing, so every doubt sends the page to the engine.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

SOUND, ABSENT = "sound", "absent"

MAX_STRANGE = 0.02
"""Share of characters that may have no Unicode (the bullets of symbol fonts have none), each standing alone."""
MAX_UNSEEN = 0.1
"""Share of letters that may be invisible or covered; they are left out."""
MAX_TURNED = 0.2
"""Share of letters that may run another way than across the page: labels of axes, a stamp."""
MAX_MIXED = 0.05
"""Share of words that may mix alphabets or have letters of one sort only that no word has."""
MAX_OUTSIDE, MAX_OUTSIDE_SHARE = 16, 0.01
"""Characters that can be read on the page outside of its text: the name in a logo has fewer, a stamp has more."""
MAX_PICTURED_LINES, MAX_PICTURED_INK = 5, 0.35
"""Lines that look like print in pictures and drawings, and the share of the ink there, if they cannot be read."""
MAX_CHARACTERS = 200_000
"""No page that a person reads has more."""
MIN_SIMILAR = 0.55
"""How much of a line, as the recognizer reads it from the pixels, has to be in its text."""

_CP1252 = "\u0080-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013-\u203a\u20ac\u2122"
_MOJIBAKE = re.compile(f"[ÂÃÅÐÑ][{_CP1252}]|â€|ï¿½")
"""UTF-8 taken for Latin-1 or Windows-1252: a lead byte and what a byte after it looks like."""
_BLANKS = re.compile(r"[ \n\t\r\u00a0]+")
"""What parts words; `str.split` would take some controls for blanks as well, which are glyphs here."""
_WORD = re.compile(r"[^\W\d_]+")
_BY_FREQUENCY: dict[str, tuple[float, tuple[str, ...]]] = {
    "CYRILLIC": (
        0.265,
        (
            "оеиатснрвмкплудызягьбчжхюцфшэщъ",
            "аиеотнрвскдлпмзябъучгфжцщшхюэ",
            "оаиінтврексмдулпязьбчгюцхжєфшщґ",
            "аиоернтсукмпдјвлзгцчњфшжћљхђбџ",
            "аиэлгнодртхуүсбмөвызжшечьцфкяюпъ",
        ),
    ),
    "GREEK": (0.36, ("αιεηυοωγτκσνρμπλξδζχςβφψθ",)),
    "ARABIC": (0.24, ("المنيروتبفةسقدعیهـحكجطصشزىذہکخےضثٱغءںپظگھچڑڈٹ",)),
    "HEBREW": (0.38, ("יוהלאמרתבשנעחדקפכטגצזסםןךףץ",)),
}
"""Letters of scripts that the recognizer cannot read, the most frequent first, accents apart: counted in Debian's
documentation in Russian, Bulgarian, Ukrainian, Serbian and Mongolian, in Greek, in Arabic, Persian and Urdu together;
for Hebrew as Wikipedia tells them. And what the mean rank of a long text, as a share of the alphabet, stays below."""
RANK_SPREAD, MIN_COUNTED = 0.36, 20
"""What is added to that over the root of the length of a shorter text; and the shortest one that says anything."""
_SCRIPTS = ("LATIN", "GREEK", "CYRILLIC", "HEBREW", "ARABIC", "ARMENIAN", "GEORGIAN", "DEVANAGARI")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was seen of a page and its text.

    `text` is the visible text; `num_unseen` counts letters that are invisible or covered, `num_turned` those that
    do not run across. `num_outside` are characters that could be read where there is no text, `num_pictured_lines`
    what looks like lines there whether or not it can be read, `pictured_ink` the share of the page's ink there.
    `similarities` say for lines in different fonts how much of their text can be read from their pixels, 0 to 1.
    `by_font` is the text of each font.
    """

    text: str
    num_unseen: int = 0
    num_turned: int = 0
    num_outside: int = 0
    num_pictured_lines: int = 0
    pictured_ink: float = 0.0
    similarities: Sequence[float] = ()
    by_font: Sequence[str] = ()


def verdict_on_text(evidence: Evidence) -> str:
    """What can be said of the letters alone: `SOUND`, or a word and after a colon the reason."""
    text = evidence.text
    num_letters = sum(not character.isspace() for character in text)
    if not num_letters:
        return f"hidden: {evidence.num_unseen} letters that are not to be seen" if evidence.num_unseen else ABSENT
    if num_letters > MAX_CHARACTERS:
        return f"garbled: {num_letters:,} characters on one page"
    if evidence.num_unseen > MAX_UNSEEN * (num_letters + evidence.num_unseen):
        return f"hidden: {evidence.num_unseen} of {num_letters + evidence.num_unseen} letters are not to be seen"
    if reason := _garbled(text, num_letters):
        return f"garbled: {reason}"
    if evidence.num_turned > MAX_TURNED * num_letters:
        return f"turned: {evidence.num_turned / num_letters:.0%} of the letters do not run across the page"
    return SOUND


def verdict_on_page(evidence: Evidence) -> str:
    """What can be said of a page whose letters are sound: whether they are what it shows, and all that it shows."""
    num_letters = max(1, sum(not character.isspace() for character in evidence.text))
    wrong = [similar for similar in evidence.similarities if similar < MIN_SIMILAR]
    if wrong:
        return f"garbled: a line reads otherwise on the page ({min(wrong):.0%} alike)"
    if script := next(filter(None, map(_unlikely, evidence.by_font)), None):
        return f"garbled: letters of a font in {script} are not as frequent as in any text"
    if evidence.num_outside > max(MAX_OUTSIDE, MAX_OUTSIDE_SHARE * num_letters):
        return f"sparse: {evidence.num_outside} characters can be read elsewhere on the page"
    if evidence.num_pictured_lines >= MAX_PICTURED_LINES and evidence.pictured_ink > MAX_PICTURED_INK:
        return f"sparse: {evidence.pictured_ink:.0%} of the ink, {evidence.num_pictured_lines} lines, is elsewhere"
    return SOUND


def is_strange(character: str) -> bool:
    """Whether a character stands for no letter that anybody could read: unmapped, private, or a control."""
    kind = unicodedata.category(character)
    return character == "\ufffd" or kind in ("Co", "Cn", "Cs") or (kind == "Cc" and character not in "\n\t\r")


def _garbled(text: str, num_letters: int) -> str | None:
    strange = sum(map(is_strange, text))
    if strange > MAX_STRANGE * num_letters and strange > 2:
        return f"{strange / num_letters:.0%} of the glyphs have no Unicode"
    within = sum(map(_num_strange_within, _BLANKS.split(text)))
    if within > 1:
        return f"{within} glyphs within words have no Unicode"
    broken = len(_MOJIBAKE.findall(text))
    if broken > max(2, 0.005 * num_letters):
        return f"{broken} letters in a wrong encoding"
    words = [word for word in _WORD.findall(text) if len(word) > 1]
    odd = sum(map(_is_no_word, words))
    if odd > max(2, MAX_MIXED * len(words)):
        return f"{odd / len(words):.0%} of the words are none"
    return None


def _unlikely(text: str) -> str | None:
    """The script of a text whose letters are taken for others, told by how often each of them comes."""
    counts = Counter(letter for letter in unicodedata.normalize("NFKD", text).lower() if letter >= "\u0370")
    for script, (limit, orders) in _BY_FREQUENCY.items():
        letters = [c for c in counts if c.isalpha() and unicodedata.name(c, "").startswith(script)]
        total = sum(counts[letter] for letter in letters)
        if total < MIN_COUNTED:
            continue
        means = [sum(order.find(c) % (len(order) + 1) * counts[c] for c in letters) / len(order) for order in orders]
        if min(means) / total > limit + RANK_SPREAD / math.sqrt(total):
            return script.capitalize()
    return None


def _num_strange_within(word: str) -> int:
    """Strange characters of a word, but for a bullet that stands before it, or a row of one ornament."""
    return sum(map(is_strange, word[1:])) if len(set(word)) > 1 else 0


def _is_no_word(word: str) -> bool:
    """Whether a word mixes alphabets, repeats one letter, or has capitals where no word has them."""
    scripts = {name for letter in set(word) for name in (_script(letter),) if name}
    if len(scripts) > 1:
        return True
    if len(word) > 4 and len(set(word.lower())) == 1:
        return True
    if scripts != {"LATIN"} or len(word) < 7 or not word.isascii():
        return False
    return not re.search("[aeiouyAEIOUY]", word) and not word.isupper()


def _script(letter: str) -> str | None:
    if letter.isascii():
        return "LATIN"
    name = unicodedata.name(letter, "")
    if letter in "µªº" or name.startswith(("MICRO", "MODIFIER", "MATHEMATICAL", "OHM", "KELVIN", "ANGSTROM")):
        return None
    return next((script for script in _SCRIPTS if name.startswith(script)), None)
