"""A night as a file describes it: alone, in time, told to whoever asks, and tidy afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import duckdb
import pytest

from jobs.nightly_file import read_night
from tests import documents

ROOT = Path(__file__).parents[2]
SECRET = "T0K3N"

JOB = """
inputs = ["{folder}"]
out = "{out}"
engine = "fake"
runner = "local"
progress = "none"
text_layer = "never"
orientation = "keep"
read_blank = true
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a.pdf", "b.pdf"):
        documents.pdf(folder / name, 3)
    return folder


def command(*arguments: str | Path) -> list[str]:
    main = "import sys; from jobs.cli import main; main(sys.argv[1:])"
    return [sys.executable, "-c", main, *map(str, arguments)]


def night_file(folder: Path, more: str = "") -> Path:
    file = folder.parent / "night.toml"
    file.write_text(JOB.format(folder=folder, out=folder.parent / "out") + more)
    return file


def nightly(file: Path, *flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
    words = command("nightly", file, *flags)
    told = {**os.environ, "PAGEMILL_TUNING": str(file.parent / "tuning.json"), **environment}
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False, env=told)


class Receiver(BaseHTTPRequestHandler):
    """Keeps what it is sent; refuses as often as it is told to."""

    bodies: list[dict[str, Any]]
    answers: list[int]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        code = self.answers.pop(0) if self.answers else 204
        if code == 204:
            self.bodies.append({"path": self.path, "type": self.headers["Content-Type"], **json.loads(body)})
        self.send_response(code)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[tuple[str, type[Receiver]]]:
    kind = type("Mine", (Receiver,), {"bodies": [], "answers": []})
    server = HTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook?token={SECRET}", kind
    server.shutdown()
    server.server_close()


def test_a_night_reads_tidies_up_and_tells(folder: Path, tmp_path: Path, receiver: tuple[str, type[Receiver]]):
    address, kind = receiver
    kind.answers.append(503)
    told = tmp_path / "told.json"
    script = "import os, shutil, sys; shutil.copy(os.environ['PAGEMILL_TOTALS'], sys.argv[1] + '.file'); "
    script += "open(sys.argv[1], 'w').write(sys.stdin.read()); print('the hook was here')"
    hook = f'[hook]\ncommand = ["{sys.executable}", "-c", "{script}", "{told}"]\nwebhook = "{address}"\n'
    file = night_file(folder, f"commit_pages = 1\n[compact]\n[retention]\nsuperseded_days = 30\n{hook}")
    done = nightly(file, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["outcome"], report["pages"], report["documents_new"], report["problems"]) == ("done", 6, 2, [])
    assert report["upkeep"]["parts_after"] == 4 < report["upkeep"]["parts_before"]
    assert json.loads(told.read_text()) == json.loads((tmp_path / "told.json.file").read_text()) == report
    (body,) = kind.bodies  # sent at the second try
    assert {key: value for key, value in body.items() if key not in ("path", "type")} == report, (
        "told at the second try"
    )
    assert (body["type"], body["path"]) == ("application/json", f"/hook?token={SECRET}")
    assert "the hook was here" in done.stderr
    everything = (
        done.stdout + done.stderr + str(duckdb.sql(f"SELECT * FROM '{tmp_path}/out/runs/*/*.parquet'").fetchall())
    )
    assert SECRET not in everything
    assert ".pdf    3 p.  ok          page " in done.stderr, "the first rows, read back before they were put elsewhere"
    again = json.loads(nightly(file, "--json").stdout)
    assert (again["pages"], again["documents_new"], again["upkeep"]["parts_after"]) == (0, 0, 4)


def test_a_second_night_is_told_that_the_first_is_not_over(folder: Path, tmp_path: Path):
    slow = 'engine_options = ["delay_s=0.5", "batch_size=1"]\n'
    told = tmp_path / "told.json"
    script = "import sys; open(sys.argv[1], 'w').write(sys.stdin.read())"
    hook = f'[hook]\nwhen = "failure"\ncommand = ["{sys.executable}", "-c", "{script}", "{told}"]\n'
    file = night_file(folder, slow + hook)
    first = subprocess.Popen(command("nightly", file), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    give_up = time.monotonic() + 30
    while not list(tmp_path.glob("out/_lease/*.alive")) and time.monotonic() < give_up:
        time.sleep(0.02)
    second = nightly(file)
    assert second.returncode == 3
    assert "the night before is not over, and this one is left out: " in second.stderr
    assert "is in use by run 2" in second.stderr
    assert f"process {first.pid}" in second.stderr
    assert "Traceback" not in second.stderr
    found = json.loads(told.read_text())
    assert (found["outcome"], found["exit_code"]) == ("not_run", 3)
    told.unlink()
    first.communicate(timeout=60)
    assert first.returncode == 0
    assert not told.exists(), "nothing had failed"


def test_a_night_that_is_stopped_leaves_the_rest_and_does_not_tidy_up(folder: Path, tmp_path: Path):
    slow = 'engine_options = ["delay_s=0.3", "batch_size=1"]\ncommit_pages = 1\n'
    file = night_file(folder, f"{slow}[compact]\n")
    running = subprocess.Popen(command("nightly", file, "--json"), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    give_up = time.monotonic() + 30
    while not list(tmp_path.glob("out/pages/*/*")) and time.monotonic() < give_up:
        time.sleep(0.02)
    running.send_signal(signal.SIGTERM)
    out, _ = running.communicate(timeout=60)
    report = json.loads(out)
    assert (running.returncode, report["outcome"], report["upkeep"]) == (130, "interrupted", None)
    assert 0 < report["committed"] < 6


def test_batch_sizes_are_measured_once_a_week(folder: Path, tmp_path: Path):
    file = night_file(folder, "[tune]\nminutes = 0.05\n")
    tuning = tmp_path / "tuning.json"
    first = nightly(file, "--json")
    assert (first.returncode, json.loads(first.stdout)["tuned"]) == (0, True), first.stderr
    measured = json.loads(tuning.read_text())
    again = json.loads(nightly(file, "--json").stdout)
    assert (again["tuned"], again["notes"]) == (False, []), "it is not a week old"
    for tuned in measured["tunings"]:
        tuned["measured_at"] = "2026-01-01T00:00:00+00:00"
    tuning.write_text(json.dumps(measured))
    assert json.loads(nightly(file, "--json").stdout)["tuned"] is True
    tuning.unlink()
    soon = time.strftime("%H:%M", time.localtime(time.time() + 120))
    late = json.loads(nightly(night_file(folder, "[tune]\n"), "--json", "--stop-at", soon).stdout)
    assert (late["tuned"], late["outcome"]) == (False, "done")
    assert late["notes"] == ["batch sizes are not measured: too little time is left until it is time to stop"]


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        ('command = ["/no/such/program"]', "hook program could not be started: No such file or directory"),
        ('command = ["false"]', "hook false ended with 1"),
        ('command = ["sleep", "9"]\ntimeout_s = 0.2', "hook sleep was ended: it took longer than 0.2 s"),
        (f'webhook = "http://127.0.0.1:9/{SECRET}"\nattempts = 1', "webhook at 127.0.0.1 was not told: "),
    ],
)
def test_a_hook_that_fails_is_told_and_the_night_counts_as_unfinished(folder: Path, hook: str, words: str):
    done = nightly(night_file(folder, f"[hook]\n{hook}\n"), "--json")
    assert done.returncode == 3, done.stderr
    assert words in done.stderr
    assert SECRET not in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    report = json.loads(done.stdout)
    assert (report["pages"], report["outcome"], len(report["problems"])) == (6, "done", 1), "the work is done"


def test_an_address_can_come_from_the_environment(folder: Path, receiver: tuple[str, type[Receiver]]):
    address, kind = receiver
    file = night_file(folder, '[hook]\nwebhook_env = "MY_HOOK"\n')
    done = nightly(file)
    assert (done.returncode, "'webhook_env' names MY_HOOK, which is not set" in done.stderr) == (2, True)
    kind.answers += [404]
    gone = nightly(file, MY_HOOK=address)
    assert (gone.returncode, "webhook at 127.0.0.1 was not told: it answered 404" in gone.stderr) == (3, True)
    assert nightly(file, MY_HOOK=address).returncode == 0
    assert len(kind.bodies) == 1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("[hok]\n", "unknown table [hok]; did you mean 'hook'?"),
        ("[hook]\ncomand = []\n", "[hook] unknown key 'comand'; did you mean 'command'?"),
        ("[hook]\nwhen = 'never'\n", "[hook] 'when' must be 'always' or 'failure', not 'never'"),
        ("[hook]\nwebhook = 'ftp://x/y'\n", "[hook] the webhook is no http:// or https:// address"),
        ("[compact]\ntarget_mb = 'big'\n", "[compact] 'target_mb' must be of type int, not 'big'"),
        ("[compact]\ntarget_mb = 0\n", "--target-mb must be at least 1"),
        ("[retention]\nvanished_days = 0\n", "vanished days to keep must be a whole number from 1"),
        ("[tune]\nevery_days = 0\n", "[tune] 'every_days' must be at least 1"),
        ("tune = 7\n", "'tune' is a table: write [tune]"),
        ("stop_at = '6 am'\n", "--stop-at is a time of day such as 06:00, not '6 am'"),
        ("stop_at = [\n", "night.toml: "),
        ("inputz = ['a']\n", "unknown key 'inputz'; did you mean 'inputs'?"),
    ],
)
def test_a_file_that_makes_no_sense_is_one_line_and_starts_nothing(folder: Path, more: str, words: str):
    done = nightly(night_file(folder, more))
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (folder.parent / "out").exists()


def test_flags_beat_the_file_and_a_time_to_stop_brings_the_oldest_first(folder: Path):
    file = night_file(folder, 'stop_at = "05:00"\n')
    assert read_night(str(file), {}).config.order == "oldest"
    flags = {"stop_at": "04:00", "order": "listed", "max_failed_pages": None}
    config = read_night(str(file), flags).config
    assert (config.stop_at, config.order, config.max_failed_pages) == ("04:00", "listed", "")
    assert read_night(str(night_file(folder)), {}).config.order == "listed"
    assert read_night(str(night_file(folder)), {}).upkeep is None


def test_the_sample_is_a_night_with_everything(folder: Path):
    night = read_night(str(ROOT / "jobs" / "nightly.toml"), {})
    assert None not in (night.hook, night.compact, night.retention, night.tune, night.upkeep)
    assert (night.config.stop_at, night.config.order) == ("06:00", "oldest")
