"""Where documents come from: every file once, in a stable order, and what was left out is left out for a reason."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.document import local_etag, path_of_uri
from pipeline.errors import ErrorCode, InputError
from pipeline.ignore import IGNORE_FILE
from pipeline.source import Discovery

needs_permissions = pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")


def _tree(root: Path, *names: str) -> Path:
    """Files of these names, and the folders that they need; a name that ends in a slash is an empty folder."""
    for name in names:
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
    return root


def _found(root: Path, inputs: Sequence[str] = ("",), **options: object) -> list[str]:
    """Paths found, relative to `root`; inputs are relative to it as well unless they are lists."""
    given = [i if i.startswith(("@", "/", "file:")) else str(root / i) for i in inputs]
    discovery = Discovery(given, **options)  # type: ignore[arg-type]
    discovery.check()
    return [os.path.relpath(path_of_uri(source.uri), root) for source in discovery.sources()]


def test_a_folder_is_walked_in_the_order_of_bytes(tmp_path: Path):
    names = ["b/2", "b/10", "a", "B", "c/d/e", "c/a", "ä", "z"]
    assert _found(_tree(tmp_path, *names)) == ["B", "a", "b/10", "b/2", "c/a", "c/d/e", "z", "ä"]


def test_a_source_says_how_its_file_looked(tmp_path: Path):
    _tree(tmp_path, "a", "b/c", "b/d")
    (tmp_path / "b" / "link").symlink_to("d")
    (tmp_path / "b" / "nowhere").symlink_to("nothing")
    os.mkfifo(tmp_path / "b" / "pipe")
    inputs = [str(tmp_path / "a"), str(tmp_path / "b")]
    found = {os.path.basename(source.uri): source.etag for source in Discovery(inputs).sources()}
    looked = {name: local_etag((tmp_path / path).stat()) for name, path in (("a", "a"), ("c", "b/c"), ("d", "b/d"))}
    assert found == {**looked, "link": looked["d"], "nowhere": None, "pipe": None}
    assert all(source.etag is None for source in Discovery(inputs, with_etags=False).sources())


def test_inputs_are_taken_in_the_order_given(tmp_path: Path):
    _tree(tmp_path, "a/1", "b/1", "c")
    assert _found(tmp_path, ["c", "b", "a"]) == ["c", "b/1", "a/1"]


def test_hidden_unfinished_and_litter_are_left_out_and_counted(tmp_path: Path):
    litter = [".DS_Store", "Thumbs.db", "desktop.ini", "~$letter.docx", "._scan.pdf", ".git/config"]
    unfinished = ["a.pdf.part", "a.crdownload", "a.TMP", "a.partial", "a.download"]
    _tree(tmp_path, *litter, *unfinished, "part.pdf", "x.part/inside.pdf", "thumbs.db.pdf")
    discovery = Discovery([str(tmp_path)])
    names = [os.path.relpath(path_of_uri(source.uri), tmp_path) for source in discovery.sources()]
    assert names == ["part.pdf", "thumbs.db.pdf", "x.part/inside.pdf"]
    assert discovery.num_ignored == len(litter) + len(unfinished)


@pytest.mark.parametrize("order", [[".hidden.pdf", ""], ["", ".hidden.pdf"]])
def test_a_file_named_on_its_own_is_always_taken_and_once(order: list[str], tmp_path: Path):
    _tree(tmp_path, ".hidden.pdf", "a.pdf")
    assert sorted(_found(tmp_path, order)) == [".hidden.pdf", "a.pdf"]


@pytest.mark.parametrize("order", [["a.pdf", ""], ["", "a.pdf"]])
def test_a_file_named_on_its_own_is_taken_though_its_folder_leaves_it_out(order: list[str], tmp_path: Path):
    _tree(tmp_path, "a.pdf", "b.pdf", "c.txt")
    assert sorted(_found(tmp_path, order, exclude=["*.pdf"])) == ["a.pdf", "c.txt"]


# patterns


@pytest.mark.parametrize(
    ("patterns", "left"),
    [
        (["*.bak"], ["a.pdf", "sub/b.pdf", "sub/deep/c.pdf", "tmp/d.pdf"]),
        (["tmp/"], ["a.bak", "a.pdf", "sub/b.pdf", "sub/deep/c.bak", "sub/deep/c.pdf"]),
        (["/a.pdf"], ["a.bak", "sub/b.pdf", "sub/deep/c.bak", "sub/deep/c.pdf", "tmp/d.pdf"]),
        (["sub/**/c.*"], ["a.bak", "a.pdf", "sub/b.pdf", "tmp/d.pdf"]),
        (["*", "!a.pdf"], ["a.pdf"]),
        (["*.pdf", "!b.pdf", "*.bak"], ["sub/b.pdf"]),
        (["# a comment", "", "deep"], ["a.bak", "a.pdf", "sub/b.pdf", "tmp/d.pdf"]),
    ],
)
def test_patterns_leave_out_what_git_would(patterns: list[str], left: list[str], tmp_path: Path):
    names = ["a.bak", "a.pdf", "sub/b.pdf", "sub/deep/c.bak", "sub/deep/c.pdf", "tmp/d.pdf"]
    _tree(tmp_path / "option", *names)
    _tree(tmp_path / "file", *names)
    (tmp_path / "file" / IGNORE_FILE).write_text("\n".join(patterns))
    assert _found(tmp_path / "option", exclude=patterns) == left
    assert _found(tmp_path / "file") == left


def test_an_ignore_file_counts_from_its_folder_downwards_only(tmp_path: Path):
    _tree(tmp_path, "a/x.pdf", "a/b/x.pdf", "x.pdf", "c/x.pdf")
    (tmp_path / "a" / IGNORE_FILE).write_text("x.pdf")
    assert _found(tmp_path) == ["c/x.pdf", "x.pdf"]
    (tmp_path / "a" / IGNORE_FILE).write_text("/x.pdf")
    assert _found(tmp_path) == ["a/b/x.pdf", "c/x.pdf", "x.pdf"]


def test_an_ignore_file_below_can_take_back_what_one_above_leaves_out(tmp_path: Path):
    _tree(tmp_path, "draft.pdf", "a/draft.pdf", "a/b/draft.pdf")
    (tmp_path / IGNORE_FILE).write_text("draft.pdf")
    (tmp_path / "a" / IGNORE_FILE).write_text("!draft.pdf")
    assert _found(tmp_path) == ["a/b/draft.pdf", "a/draft.pdf"]


def test_the_command_line_is_stronger_than_an_ignore_file(tmp_path: Path):
    _tree(tmp_path, "a/draft.pdf", "a/final.pdf")
    (tmp_path / "a" / IGNORE_FILE).write_text("!draft.pdf\nfinal.pdf")
    assert _found(tmp_path, exclude=["draft.pdf", "!final.pdf"]) == ["a/final.pdf"]


def test_an_ignore_file_written_by_windows_or_in_another_encoding_is_understood(tmp_path: Path):
    _tree(tmp_path, "a.pdf", "b.pdf", "c.txt")
    (tmp_path / IGNORE_FILE).write_bytes(b"a.pdf\r\n*.txt\r\n\xff\xfe\r\n")
    assert _found(tmp_path) == ["b.pdf"]


def test_a_pattern_that_makes_no_sense_is_told_before_the_start(tmp_path: Path):
    with pytest.raises(InputError, match=r"--exclude: .*'!'"):
        Discovery([str(tmp_path)], ["!"]).check()


def test_an_ignore_file_that_cannot_be_used_costs_its_own_folder_only(tmp_path: Path):
    _tree(tmp_path, "a/1.pdf", "b/2.pdf", f"c/{IGNORE_FILE}/")
    (tmp_path / "a" / IGNORE_FILE).write_text("!")
    found = list(Discovery([str(tmp_path)]).sources())
    assert [os.path.basename(path_of_uri(source.uri)) for source in found] == ["a", "2.pdf", "c"]
    assert [source.problem for source in found] == [ErrorCode.UNREADABLE, None, ErrorCode.UNREADABLE]
    assert IGNORE_FILE in found[0].detail


# links


def test_links_to_folders_are_not_followed_and_those_to_files_are(tmp_path: Path):
    _tree(tmp_path / "in", "real/a.pdf")
    _tree(tmp_path, "elsewhere/b.pdf")
    (tmp_path / "in" / "folder").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "in" / "loop").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "file.pdf").symlink_to(tmp_path / "elsewhere" / "b.pdf")
    (tmp_path / "in" / "broken.pdf").symlink_to(tmp_path / "nowhere")
    (tmp_path / "in" / "self").symlink_to("self")
    assert _found(tmp_path / "in") == ["broken.pdf", "file.pdf", "real/a.pdf", "self"]


def test_a_link_to_a_folder_named_as_input_is_walked(tmp_path: Path):
    _tree(tmp_path, "real/a.pdf")
    (tmp_path / "link").symlink_to("real")
    assert _found(tmp_path, ["link"]) == ["link/a.pdf"]


# the same twice


def test_the_same_input_twice_gives_each_file_once(tmp_path: Path):
    _tree(tmp_path, "a/1", "a/2")
    assert _found(tmp_path, ["a", "a", "a/1", "a/", "a/../a/2", "a/*"]) == ["a/1", "a/2"]


@pytest.mark.parametrize("order", [["", "a", "a/b"], ["a/b", "a", ""], ["a", "", "a/b"]])
def test_folders_within_each_other_give_each_file_once(order: list[str], tmp_path: Path):
    _tree(tmp_path, "1", "a/2", "a/b/3", "ab/4")
    assert sorted(_found(tmp_path, order)) == ["1", "a/2", "a/b/3", "ab/4"]


names = st.sampled_from(["a", "b", "a/x", "a/y", "b/x/z", "b/.h", "c*", "*/x", "@list", ""])


@settings(max_examples=60)
@given(st.lists(names, min_size=1, max_size=6))
def test_no_combination_of_inputs_gives_a_file_twice(tmp_path_factory: pytest.TempPathFactory, inputs: list[str]):
    root = _tree(tmp_path_factory.mktemp("tree"), "a/x", "a/y", "b/x/z", "b/.h", "c1", "c2")
    (root.parent / "list.txt").write_text(f"{root}/a/x\n{root}/b\n{root}/c2\n")
    given = [f"@{root.parent}/list.txt" if i == "@list" else i for i in inputs]
    found = _found(root, given)
    assert len(found) == len(set(found))
    everything = {"a/x", "a/y", "b/x/z", "c1", "c2"}
    assert set(found) >= (everything if "" in inputs else set())
    assert ("b/.h" in found) == ("b/.h" in inputs)


# the output


def test_the_output_folder_inside_the_input_is_left_out(tmp_path: Path):
    _tree(tmp_path, "a.pdf", "out/pages/x.parquet", "sub/out/b.pdf")
    assert _found(tmp_path, out=str(tmp_path / "out")) == ["a.pdf", "sub/out/b.pdf"]


# globs and lists


def test_a_pattern_gives_what_it_matches_in_order(tmp_path: Path):
    _tree(tmp_path, "2.pdf", "1.pdf", "1.txt", "a/3.pdf", "a/b/4.pdf", "[x].pdf")
    assert _found(tmp_path, ["*.pdf"]) == ["1.pdf", "2.pdf", "[x].pdf"]
    assert _found(tmp_path, ["**/*.pdf"]) == ["1.pdf", "2.pdf", "[x].pdf", "a/3.pdf", "a/b/4.pdf"]
    assert _found(tmp_path, ["[x].pdf"]) == ["[x].pdf"], "a name that exists is no pattern"


def test_stars_leave_hidden_names_out_unless_they_are_asked_for(tmp_path: Path):
    _tree(tmp_path, "a.pdf", ".b.pdf", ".hidden/c.pdf", "sub/.d.pdf", "sub/e.pdf", "sub/.deep/f.pdf")
    assert _found(tmp_path, ["**/*.pdf"]) == ["a.pdf", "sub/e.pdf"]
    assert _found(tmp_path, ["**/.*.pdf"]) == [".b.pdf", "sub/.d.pdf"]
    assert _found(tmp_path, [".hidden/**/*.pdf"]) == [".hidden/c.pdf"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("**", ["a/b/2.pdf", "a/1.pdf", "c/2.pdf"]),
        ("**/", ["a/b/2.pdf", "a/1.pdf", "c/2.pdf"]),
        ("**/2.pdf", ["a/b/2.pdf", "c/2.pdf"]),
        ("a/**", ["a/b/2.pdf", "a/1.pdf"]),
        ("a/**/*.pdf", ["a/1.pdf", "a/b/2.pdf"]),
        ("?/**/2.pdf", ["a/b/2.pdf", "c/2.pdf"]),
        ("**/b/**/*.pdf", ["a/b/2.pdf"]),
        ("**/b/", ["a/b/2.pdf"]),
        ("**/**/1.*", ["a/1.pdf"]),
        ("a**/1.pdf", ["a/1.pdf"]),
    ],
)
def test_stars_stand_for_any_folders_or_none(pattern: str, expected: list[str], tmp_path: Path):
    _tree(tmp_path, "a/1.pdf", "a/b/2.pdf", "c/2.pdf")
    assert sorted(_found(tmp_path, [pattern])) == sorted(expected)


def test_stars_start_where_the_command_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    _tree(tmp_path, "a/1.pdf", "2.pdf")
    monkeypatch.chdir(tmp_path)
    sources = Discovery(["**/*.pdf"]).sources()
    assert [path_of_uri(source.uri) for source in sources] == [f"{tmp_path}/2.pdf", f"{tmp_path}/a/1.pdf"]


@pytest.mark.parametrize("pattern", ["**/*", "**/*.pdf", "a/**/*.pdf", "**", "**/*/", "**/b/**/*.pdf"])
def test_stars_go_into_no_link_that_leads_back_up(pattern: str, tmp_path: Path):
    _tree(tmp_path, "a/b/1.pdf")
    (tmp_path / "a" / "b" / "up").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "self").symlink_to(".")
    (tmp_path / "a" / "nowhere").symlink_to("nowhere")
    names = [name for name in _found(tmp_path, [pattern]) if os.path.basename(name) != "nowhere"]
    assert names == ["a/b/1.pdf"]


def test_stars_match_names_that_are_no_text(tmp_path: Path):
    names = [b"\xff/\xfe.pdf", b"\xff/a.pdf", "ä/ö.pdf".encode()]
    for name in names:
        path = os.path.join(os.fsencode(tmp_path), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(os.fsdecode(path)).write_bytes(b"")
    found = _found(tmp_path, [os.fsdecode(b"**/*.pdf"), os.fsdecode(b"\xff/**")])
    assert [os.fsencode(name) for name in found] == sorted(names)


def test_a_folder_that_stars_cannot_look_into_is_one_source_with_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    _tree(tmp_path, "a/1.pdf", "closed/2.pdf", "z/3.pdf")
    listed = os.scandir

    def closed(path: str):
        if os.path.basename(path) == "closed":
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(os, "scandir", closed)
    sources = list(Discovery([f"{tmp_path}/**/*.pdf"]).sources())
    assert [os.path.basename(source.uri) for source in sources] == ["1.pdf", "closed", "3.pdf"]
    assert [source.problem for source in sources] == [None, ErrorCode.UNREADABLE, None]


def test_a_list_names_files_folders_and_uris(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    _tree(tmp_path, "a.pdf", "sub/b.pdf", "with blank ", "c.pdf", "#odd.pdf")
    lines = [
        "# a comment",
        "a.pdf",
        "",
        "sub",
        "with blank ",
        f"file://{tmp_path}/c.pdf",
        "a.pdf",
        "gone.pdf",
        "./#odd.pdf",
    ]
    (tmp_path / "list.txt").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    monkeypatch.chdir(tmp_path)
    expected = ["a.pdf", "sub/b.pdf", "with blank ", "c.pdf", "gone.pdf", "#odd.pdf"]
    assert _found(tmp_path, ["@list.txt"]) == expected


def test_a_list_may_be_a_pipe_as_a_shell_gives_it(tmp_path: Path):
    _tree(tmp_path, "a.pdf", "b.pdf")
    reading, writing = os.pipe()
    os.write(writing, f"{tmp_path}/a.pdf\n{tmp_path}/b.pdf\n".encode())
    os.close(writing)
    try:
        assert _found(tmp_path, [f"@/dev/fd/{reading}"]) == ["a.pdf", "b.pdf"]
    finally:
        os.close(reading)


# what is not there


@pytest.mark.parametrize("given", ["nowhere", "no*match", "a.pdf/below"])
def test_an_input_that_is_not_there_is_told_before_the_start(given: str, tmp_path: Path):
    _tree(tmp_path, "a.pdf")
    with pytest.raises(InputError, match="no such file or folder, and nothing matches"):
        Discovery([str(tmp_path / given)]).check()


def test_a_list_that_is_not_there_is_told_before_the_start(tmp_path: Path):
    with pytest.raises(InputError, match=r"list file .*nowhere: No such file"):
        Discovery([f"@{tmp_path}/nowhere"]).check()


@pytest.mark.parametrize("given", ["ftp://host/x", "https://example.org/a.pdf"])
def test_an_input_of_a_kind_that_is_not_known_is_told_before_the_start(given: str):
    with pytest.raises(InputError, match="only s3://, gs://, az:// and local files are known"):
        Discovery([given]).check()


def test_a_uri_is_as_good_as_a_path(tmp_path: Path):
    _tree(tmp_path, "ä b#1.pdf")
    assert _found(tmp_path, [f"file://{tmp_path}/ä%20b%231.pdf"]) == ["ä b#1.pdf"]


def test_home_is_where_the_shell_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    _tree(tmp_path, "a.pdf")
    monkeypatch.setenv("HOME", str(tmp_path))
    found = [source.uri for source in Discovery(["~/a.pdf"]).sources()]
    assert found == [f"file://{tmp_path}/a.pdf"]


def test_a_folder_that_vanishes_on_the_way_is_one_source_with_a_problem(tmp_path: Path):
    _tree(tmp_path, "a/1.pdf", "b/2.pdf", "c.pdf")
    found = []
    for source in Discovery([str(tmp_path)]).sources():
        found.append(source)
        if len(found) == 1:
            (tmp_path / "b" / "2.pdf").unlink()
            (tmp_path / "b").rmdir()
    assert [os.path.basename(source.uri) for source in found] == ["1.pdf", "b", "c.pdf"]
    assert [source.problem for source in found] == [None, ErrorCode.UNREADABLE, None]
    assert found[1].detail == "the folder cannot be listed: No such file or directory"


@needs_permissions
def test_a_folder_without_permission_is_one_source_with_a_problem(tmp_path: Path):
    _tree(tmp_path, "a/1.pdf", "b.pdf")
    (tmp_path / "a").chmod(0)
    found = list(Discovery([str(tmp_path)]).sources())
    (tmp_path / "a").chmod(0o700)
    assert [source.problem for source in found] == [ErrorCode.UNREADABLE, None]


# odd names

ODD = [
    b"\xff\xfe.pdf",
    b"new\nline.pdf",
    b"tab\t.pdf",
    b"hash#1.pdf",
    b"100%.pdf",
    b"%41.pdf",
    b"a+b.pdf",
    b"what?.pdf",
    b"trailing ",
    b" leading",
    b"back\\slash",
    b"quote'\".pdf",
    b"*.pdf",
    b"-n",
    b"@list",
    "e\u0301.pdf".encode(),
    "\u202etxt.pdf".encode(),
    b"x" * 255,
]


def test_every_name_that_the_system_allows_is_found(tmp_path: Path):
    for name in ODD:
        Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name))).write_bytes(b"")
    found = [os.fsencode(path_of_uri(source.uri)) for source in Discovery([str(tmp_path)]).sources()]
    assert found == sorted(os.path.join(os.fsencode(tmp_path), name) for name in ODD)


@pytest.mark.parametrize("name", ODD)
def test_every_name_can_be_named_as_input(name: bytes, tmp_path: Path):
    path = os.fsdecode(os.path.join(os.fsencode(tmp_path), name))
    Path(path).write_bytes(b"")
    discovery = Discovery([path])
    discovery.check()
    assert [path_of_uri(source.uri) for source in discovery.sources()] == [path]


def test_a_deep_folder_is_walked_to_its_end(tmp_path: Path):
    deep = "/".join(["d"] * 300)
    _tree(tmp_path, f"{deep}/a.pdf")
    assert _found(tmp_path) == [f"{deep}/a.pdf"]


def test_sources_come_one_by_one(tmp_path: Path):
    _tree(tmp_path, "a/1.pdf", "b/2.pdf")
    sources = Discovery([str(tmp_path)]).sources()
    next(sources)
    _tree(tmp_path, "b/3.pdf")
    assert [os.path.basename(source.uri) for source in sources] == ["2.pdf", "3.pdf"]


def test_an_input_that_is_the_output_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="is the output folder and an input at once"):
        Discovery([str(tmp_path)], out=str(tmp_path)).check()


def test_the_output_of_another_run_is_no_document(tmp_path: Path):
    _tree(tmp_path, "a.pdf", "old/_lease/00000001.released", "old/pages/x.parquet")
    assert _found(tmp_path) == ["a.pdf"]


def test_an_empty_input_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="an input is empty"):
        Discovery([""]).check()


def test_a_folder_of_deeds_and_leases_is_no_output(tmp_path: Path):
    _tree(tmp_path, "house/deed.pdf", "house/_lease/contract.pdf", "done/_lease/00000001.json", "done/pages/x.parquet")
    assert _found(tmp_path) == ["house/_lease/contract.pdf", "house/deed.pdf"]


def test_a_file_has_one_uri_however_its_path_is_written(tmp_path: Path):
    _tree(tmp_path, "a.pdf")
    ways = [
        f"/{tmp_path}/a.pdf",
        f"///{tmp_path}/./a.pdf",
        f"file://localhost{tmp_path}/a.pdf",
        f"file://{tmp_path}/a.pdf",
    ]
    found = [source.uri for source in Discovery([*ways, f"/{tmp_path}"]).sources()]
    assert found == [f"file://{tmp_path}/a.pdf"]


def test_an_input_that_names_no_file_is_not_the_folder_one_is_in(tmp_path: Path):
    (tmp_path / "list.txt").write_text("file://\n")
    for name in ("file://", f"@{tmp_path}/list.txt"):
        with pytest.raises(InputError, match="file:// names no file"):
            Discovery([name]).check()
