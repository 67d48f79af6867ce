"""The census: new, changed, the same and missed, as they are counted by sets of names and contents."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.census import Census, Change, archive_of

names = st.sampled_from([f"file:///in/{name}" for name in ("a", "b", "sub/a", "sub/c", "z.zip!/a", "z.zip!/d/b")])
contents = st.sampled_from(["c" * 64, "d" * 64])


@given(st.dictionaries(names, contents), st.dictionaries(names, contents))
def test_each_document_is_new_changed_or_the_same_and_what_was_not_met_is_missed(
    before: dict[str, str], now: dict[str, str]
):
    census = Census()
    for uri, content in before.items():
        census.note(uri, content)
    for uri, content in now.items():
        census.meet(uri)
        wanted = Change.NEW if uri not in before else Change.SAME if before[uri] == content else Change.CHANGED
        assert census.tell(uri, content) is wanted
        assert census.tell(uri, content) is Change.SAME
    assert {uri for uri in before if census.is_missed(uri)} == before.keys() - now.keys()
    assert census.num_unmet == len(before.keys() - now.keys())


def test_what_cannot_be_read_for_once_is_held_to_be_what_it_was():
    census = Census()
    census.note("file:///a", "c" * 64)
    assert census.tell("file:///a", None) is Change.SAME
    assert census.tell("file:///a", "c" * 64) is Change.SAME
    assert census.tell("file:///a", "d" * 64) is Change.CHANGED
    assert census.tell("file:///b", None) is Change.NEW
    assert census.tell("file:///b", "d" * 64) is Change.CHANGED, "now it can be read"


def test_what_had_vanished_and_comes_back_is_new():
    census = Census()
    census.note("file:///a", "c" * 64)
    census.note("file:///a", None, vanished=True)
    assert census.num_unmet == 0
    assert census.tell("file:///a", "c" * 64) is Change.NEW
    census.note("file:///b", "c" * 64)
    census.forget("file:///b")
    assert not census.is_missed("file:///b")


def test_nothing_is_missed_in_what_could_not_be_looked_into():
    census = Census()
    known = ("file:///in/a", "file:///in/sub/b", "file:///in/sub/z.zip!/deep/c", "file:///in/y.zip!/d")
    for uri in known:
        census.note(uri, "c" * 64)
    census.doubt("file:///in/sub")
    census.doubt("file:///in/y.zip")
    assert [uri for uri in known if census.is_missed(uri)] == ["file:///in/a"]
    census.doubt("file:///i")
    assert census.is_missed("file:///in/a"), "the beginning of a name is no folder"


def test_an_archive_was_looked_into_if_it_was_read_or_is_a_document_by_now():
    census = Census()
    census.note("file:///y.zip", "c" * 64)
    census.note("file:///z.zip!/a", "c" * 64)
    assert not census.was_looked_into("file:///z.zip")
    assert not census.was_looked_into("file:///y.zip")
    census.look_into("file:///z.zip", ["file:///z.zip!/a"])
    census.tell("file:///y.zip", "d" * 64)
    assert census.was_looked_into("file:///z.zip")
    assert census.was_looked_into("file:///y.zip")
    assert not census.is_missed("file:///z.zip!/a")


def test_the_archive_of_a_member():
    assert archive_of("file:///in/a.zip!/b/c.pdf") == "file:///in/a.zip"
    assert archive_of("file:///in/a.zip") is None
