"""Places in an object store: how they are written and read, and what a pattern matches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.location import Location, is_remote, location_of_uri
from pipeline.pattern import Pattern, is_pattern

KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)


@given(KEYS)
def test_a_key_comes_back_from_its_uri_letter_for_letter(key: str):
    where = Location("s3", "bucket", key)
    assert Location.parse(where.uri) == where
    assert location_of_uri(where.uri) == where
    assert location_of_uri(f"{where.uri}!/member.pdf") == where


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("s3://bucket", Location("s3", "bucket", "")),
        ("S3a://bucket/a b+c#d?e.pdf", Location("s3", "bucket", "a b+c#d?e.pdf")),
        ("gcs://bucket/a%20b", Location("gs", "bucket", "a b")),
        ("azure://box/100%/x", Location("az", "box", "100%/x")),
    ],
)
def test_what_people_type_is_understood(text: str, location: Location):
    assert Location.parse(text) == location


@pytest.mark.parametrize("text", ["s3://", "s3:///a", "ftp://h/a", "s3://b/%ff", "nothing", "s3://my bucket/a"])
def test_what_is_no_place_is_told(text: str):
    with pytest.raises(InputError):
        Location.parse(text)


def test_a_folder_ends_with_a_slash_unless_it_is_the_bucket():
    assert [Location("s3", "b", key).as_folder().key for key in ("", "a", "a/", "/")] == ["", "a/", "a/", ""]


def test_only_urls_of_other_things_than_files_are_remote():
    assert [is_remote(text) for text in ("s3://b", "https://h/a", "file:///a", "/a/b", "a://", "@s3://b")] == [
        *(True, True, False, False, True, False)
    ]


@pytest.mark.parametrize(
    ("key", "folder", "matching", "others"),
    [
        ("a/*.pdf", "a/", ["a/x.pdf"], ["a/b/x.pdf", "a/.x.pdf", "x.pdf", "a/x.pdfs"]),
        ("**/x.pdf", "", ["x.pdf", "a/b/x.pdf"], [".a/x.pdf", "a/xx.pdf"]),
        ("a/**", "a/", ["a/x", "a/b/x"], ["a/.x", "ab/x"]),
        ("a?[!b]", "", ["axc"], ["axb", "a/c", "ax/"]),
        ("[]x]", "", ["]", "x"], ["y"]),
        ("a[", "", ["a["], ["a"]),
    ],
)
def test_a_pattern_matches_as_in_a_shell(key: str, folder: str, matching: list[str], others: list[str]):
    pattern = Pattern.of_key(key)
    assert is_pattern(key)
    assert pattern.folder == folder
    assert all(map(pattern.matches, matching))
    assert not any(map(pattern.matches, others))
