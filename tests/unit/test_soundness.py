"""Whether a page's own text may be taken: each doubt that the letters or the page can raise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.soundness import Evidence, is_strange, verdict_on_page, verdict_on_text

LETTER = "Dear Sir, the river rose in the night and took the lower bridge with it before anyone had closed the road. "


@pytest.mark.parametrize(
    "text",
    [
        LETTER * 5,
        "Straße, naïve, Łódź, Übergrößenträger, ﬁne",
        "Съешь же ещё этих мягких французских булок, да выпей чаю",
        "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία",
        "שלום עולם וברוכים הבאים",
        "الحروف العربية على الصفحة",
        "我们都是黑体字，日本語の文章です。한국어 텍스트",
        "α-particles of 5 µm and 3 Ω; x² + ½; ﬁve ®",
        "12,345.67  8,901.23  (4,567.89)",
        "• first\n\uf0e0 second\n• third " + LETTER,
        f"{LETTER * 9}\n\uf0e0\nnext\n\ufffd\nlast\n\uf0e1word",
        "XXVIII HTTPS JPEG crwth rhythm",
        "งานLATEX และenumitem ในไทย",
        "a",
    ],
)
def test_text_of_any_language_is_sound(text: str):
    assert verdict_on_text(Evidence(text)) == "sound"


@pytest.mark.parametrize(
    ("evidence", "verdict"),
    [
        (Evidence(""), "absent"),
        (Evidence(" \n\t"), "absent"),
        (Evidence("", num_unseen=40), "hidden: 40 letters that are not to be seen"),
        (Evidence("header " * 5, num_unseen=900), "hidden: 900 of 930 letters are not to be seen"),
        (Evidence("a b" * 100_001), "garbled: 200,002 characters on one page"),
        (Evidence("\ufffd" * 30 + "a" * 70), "garbled: 30% of the glyphs have no Unicode"),
        (Evidence("\ue001\ue002\ue003\ue004 x"), "garbled: 80% of the glyphs have no Unicode"),
        (Evidence("\x01\x02\x03\x04\x05"), "garbled: 100% of the glyphs have no Unicode"),
        (Evidence(LETTER * 9 + "o\ue0ffice e\ufffdect"), "garbled: 2 glyphs within words have no Unicode"),
        (Evidence(f"{LETTER * 9}\n\uffff\x14\x11\x0c\x03<28\x03$5("), "garbled: 5 glyphs within words have no Unicode"),
        (Evidence("fÃ¼r die GrÃ¶ÃŸe der BÃ¤ume"), "garbled: 4 letters in a wrong encoding"),
        (Evidence("pаypаl Тhe quісk brоwn fоx jumрs оver"), "garbled: 100% of the words are none"),
        (Evidence("aaaaaa bbbbbbb cccccc dddddd"), "garbled: 100% of the words are none"),
        (Evidence("Gur dhvpxw sqrtzkl prwnbtq zxcvbnm tssggb"), "garbled: 50% of the words are none"),
        (Evidence(LETTER, num_turned=80), "turned: 93% of the letters do not run across the page"),
    ],
)
def test_a_doubt_about_the_letters_has_a_reason(evidence: Evidence, verdict: str):
    assert verdict_on_text(evidence) == verdict


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        ({}, "sound"),
        ({"similarities": (0.9, 0.56, 1.0)}, "sound"),
        ({"similarities": (0.9, 0.2)}, "garbled: a line reads otherwise on the page (20% alike)"),
        ({"num_outside": 16}, "sound"),
        ({"num_outside": 17}, "sparse: 17 characters can be read elsewhere on the page"),
        ({"num_pictured_lines": 30, "pictured_ink": 0.3}, "sound"),
        ({"num_pictured_lines": 4, "pictured_ink": 0.9}, "sound"),
        ({"num_pictured_lines": 5, "pictured_ink": 0.4}, "sparse: 40% of the ink, 5 lines, is elsewhere"),
    ],
)
def test_a_doubt_about_the_page_has_a_reason(seen: dict[str, object], verdict: str):
    assert verdict_on_page(Evidence(LETTER, **seen)) == verdict  # type: ignore[arg-type]


OTHER_SCRIPTS = (
    "Река поднялась ночью и унесла нижний мост прежде чем кто-нибудь подумал закрыть дорогу",
    "Ріка піднялася вночі й знесла нижній міст перш ніж хтось подумав закрити дорогу",
    "Реката придойде през нощта и отнесе долния мост преди някой да се сети да затвори пътя",
    "Ο ποταμός φούσκωσε τη νύχτα και πήρε μαζί του την κάτω γέφυρα πριν σκεφτεί κανείς να κλείσει τον δρόμο",
    "ارتفع النهر في الليل وحمل الجسر السفلي معه قبل أن يفكر أحد في إغلاق الطريق",
    "رودخانه در شب بالا آمد و پل پایینی را با خود برد پیش از آنکه کسی به فکر بستن جاده بیفتد",
    "הנהר עלה בלילה וסחף את הגשר התחתון לפני שמישהו חשב לסגור את הדרך",
)


@pytest.mark.parametrize("text", OTHER_SCRIPTS)
def test_letters_that_are_taken_for_the_next_ones_are_found_by_how_often_they_come(text: str):
    assert verdict_on_page(Evidence(text, by_font=[LETTER, text])) == "sound"
    spoiled = "".join(chr(ord(letter) + 1) if letter.isalpha() else letter for letter in text)
    said = verdict_on_page(Evidence(text, by_font=[LETTER, spoiled]))
    assert said.startswith("garbled: letters of a font in ")
    assert verdict_on_page(Evidence(text, by_font=[spoiled[:12]])) == "sound", "too few to tell"


def test_on_a_full_page_more_may_stand_in_pictures():
    assert verdict_on_page(Evidence(LETTER * 40, num_outside=30)) == "sound"


@given(st.text())
def test_every_text_has_a_verdict_of_known_words(text: str):
    word = verdict_on_text(Evidence(text)).partition(":")[0]
    assert word in {"sound", "absent", "garbled", "hidden", "turned"}


def test_what_no_one_can_read_is_strange():
    assert all(map(is_strange, "\ufffd\ue000\x00\x1b\ud800\uffff"))
    assert not any(map(is_strange, "a é漢\n\t\u200b\u00a0•"))
