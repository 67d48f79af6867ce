"""The command line: what it prints, what it refuses, and the code it ends with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import jobs.run
import pipeline.engines
from jobs.cli import main
from jobs.job_file import resolve
from pipeline import __version__
from pipeline.config import JobConfig, option_fields
from tests import documents

LOCAL = ("--engine", "fake", "--runner", "local", "--progress", "none", *documents.EVERY_PAGE_READ)


def _ends(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """The exit code, and what was printed on stdout and stderr."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


@pytest.fixture
def pdf(tmp_path: Path) -> Path:
    return documents.pdf(tmp_path / "a.pdf", 3)


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]):
    assert _ends(capsys, "--version") == (0, f"pagemill {__version__}\n", "")


def test_every_option_of_a_job_has_a_flag(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = _ends(capsys, "run", "--help")
    assert code == 0
    for item in option_fields():
        assert "--" + item.name.removesuffix("s").replace("_", "-") in out


def test_a_run_ends_with_0_and_a_second_one_too(pdf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ("run", str(pdf), str(tmp_path / "out"), *LOCAL)
    code, out, _ = _ends(capsys, *arguments)
    assert code == 0
    assert "3 ok" in out
    code, out, _ = _ends(capsys, *arguments)
    assert code == 0
    assert "(3 more were done before)" in out


def test_pages_that_failed_end_with_1(pdf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    code, out, _ = _ends(capsys, "run", str(pdf), str(tmp_path / "out"), *LOCAL, "--engine-option", "fail_pages=1")
    assert code == 1
    assert "1 engine_error" in out


def test_json_goes_to_stdout_and_words_to_stderr(pdf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    code, out, err = _ends(capsys, "run", str(pdf), str(tmp_path / "out"), *LOCAL, "--json")
    assert code == 0
    assert json.loads(out)["pages"] == 3
    assert "3 ok" in err


def test_an_output_that_fails_ends_with_3_and_says_how_to_go_on(
    pdf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "pages").write_bytes(b"")
    code, _, err = _ends(capsys, "run", str(pdf), str(tmp_path / "out"), *LOCAL)
    assert code == 3
    assert "the same command goes on from there" in err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run", "only_one"], "name the input and the output: pagemill run INPUT... OUT"),
        (["run", "/no/such/folder", "OUT"], "no such file or folder, and nothing matches: /no/such/folder"),
        (["run", "ftp://host/in", "OUT"], "only s3://, gs://, az:// and local files are known"),
        (["run", "IN", "https://host/out"], "only s3://, gs://, az:// and local files are known"),
        (["run", "IN", "OUT", "--engine", "faek"], "there is no engine 'faek'; did you mean 'fake'?"),
        (["run", "IN", "OUT", "--engine", "fake", "--engine-option", "raed=1"], "unknown; did you mean 'read'?"),
        (["run", "IN", "OUT", "--batch-size", "-1"], "--batch-size must be a number or 'auto', not '-1'"),
        (["run", "IN", "OUT", "--runner", "cloud"], "--runner must be one of ray, local, not 'cloud'"),
        (["run", "IN", "OUT", "--config", "/no/such.toml"], "job file /no/such.toml: No such file or directory"),
        (["run", "--engine", "fake"], "name at least one input and the output folder"),
        (["plan", "/no/such/folder", "--engine", "fake"], "no such file or folder"),
        (["plan", "--engine", "fake"], "name at least one input"),
    ],
)
def test_a_wrong_command_ends_with_2_and_one_line(
    arguments: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    places = {"IN": str(tmp_path), "OUT": str(tmp_path / "out")}
    code, out, err = _ends(capsys, *(places.get(argument, argument) for argument in arguments))
    assert code == 2
    assert out == ""
    assert err.startswith("pagemill: error: ")
    assert complaint in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "arguments", [["run", "a", "b", "--batchsize", "3"], ["fly"], ["run", "a", "b", "--window", "x"]]
)
def test_a_flag_that_is_unknown_or_no_number_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    code, out, err = _ends(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err


# job files


def _file(tmp_path: Path, text: str) -> str:
    (tmp_path / "job.toml").write_text(text)
    return str(tmp_path / "job.toml")


def test_an_unknown_key_in_a_job_file_ends_with_2_and_names_the_nearest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = _file(tmp_path, "batchsize = 8\n")
    code, _, err = _ends(capsys, "run", str(tmp_path), str(tmp_path / "out"), "--config", path)
    assert code == 2
    assert err == f"pagemill: error: job file {path}: unknown key 'batchsize'; did you mean 'batch_size'?\n"


@pytest.mark.parametrize("text", ["batch_size = ", "= 3", "[[[", "batch_size = 8.5", 'window = "8"', "x = 1979-05-27"])
def test_a_job_file_that_makes_no_sense_ends_with_2(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    code, _, err = _ends(capsys, "run", str(tmp_path), str(tmp_path / "out"), "--config", _file(tmp_path, text))
    assert code == 2
    assert "job file" in err


def test_a_job_file_that_is_no_text_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "job.toml").write_bytes(b"engine = '\xff'")
    code, _, _ = _ends(capsys, "run", str(tmp_path), str(tmp_path / "out"), "--config", str(tmp_path / "job.toml"))
    assert code == 2


def test_a_flag_beats_the_job_file_and_the_job_file_the_default(tmp_path: Path):
    path = _file(tmp_path, "batch_size = 3\nwindow = 10\nexclude = ['a']\n")
    config = resolve({"batch_size": 5, "window": None, "out": "there"}, path)
    assert (config.batch_size, config.window, config.exclude, config.out) == (5, 10, ("a",), "there")
    assert config.commit_pages == JobConfig().commit_pages


def test_a_job_may_be_told_all_in_its_file(pdf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text = f'inputs = ["{pdf}"]\nout = "{tmp_path}/out"\nengine = "fake"\nrunner = "local"\nprogress = "none"\n'
    code, out, _ = _ends(capsys, "run", "--config", _file(tmp_path, text))
    assert code == 0
    assert "3 text_layer" in out


def test_a_flag_that_is_given_counts_on_the_command_line(pdf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = _file(tmp_path, "batch_size = 1\n")
    for flags, num_batches in ((), 3), (("--batch-size", "3"), 1):
        out_folder = str(tmp_path / f"out{num_batches}")
        _, out, _ = _ends(capsys, "run", str(pdf), out_folder, *LOCAL, "--config", path, *flags, "--json")
        assert json.loads(out)["batches"] == num_batches


# plan, engines


def test_a_plan_is_told_to_a_person_or_to_a_program(pdf: Path, capsys: pytest.CaptureFixture[str]):
    main_arguments = ["plan", str(pdf), "--engine", "fake"]
    code, out, _ = _ends(capsys, *main_arguments)
    assert code == 0
    assert "pages      3" in out
    code, out, _ = _ends(capsys, *main_arguments, "--json")
    assert json.loads(out)["pages"] == 3


def test_leaving_out_and_looking_far_ahead_work_from_the_command_line(
    pdf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    documents.pdf(tmp_path / "b.pdf", 2)
    _, out, _ = _ends(
        capsys, "plan", str(tmp_path), "--engine", "fake", "--exclude", "a.*", "--exclude", "*.x", "--json"
    )
    assert json.loads(out)["pages"] == 2


def test_engines_are_listed_with_what_they_lack(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    places = {"absent": "tests.unit.test_engine_choice:_Absent", "fake": "pipeline.engines.fake:FakeEngine"}
    monkeypatch.setattr(pipeline.engines, "ENGINES", places)
    monkeypatch.setattr(pipeline.engines, "BEST_FIRST", ("absent", "fake"))
    code, out, _ = _ends(capsys, "engines")
    assert code == 0
    assert "absent     not usable: its library is not installed: pip install it" in out
    assert "fake       usable, taken by 'auto'" in out
    code, out, _ = _ends(capsys, "engines", "--json")
    assert [(entry["engine"], entry["usable"]) for entry in json.loads(out)] == [("absent", False), ("fake", True)]


def test_a_run_stopped_at_once_ends_with_130_and_says_what_stays(
    pdf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(jobs.run, "drive", interrupted)
    code, _, err = _ends(capsys, "run", str(pdf), str(tmp_path / "out"), *LOCAL)
    assert code == 130
    assert "pagemill: stopped; what was committed stays" in err
