"""The schedules that are shipped: each is read by the tool it is for where that is installed, each command by ours."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer
import yaml

from jobs.cli import app
from jobs.nightly_file import read_night

SCHEDULES = Path(__file__).parents[2] / "jobs" / "schedules"
NEEDLESS = re.compile(r"\|\||&&|>>|;|&(?= )")


def _text(name: str) -> str:
    return (SCHEDULES / name).read_text(encoding="utf-8")


def _manifests(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(_text(name)))


def _container(name: str) -> dict[str, Any]:
    (cron_job,) = (found for found in _manifests(name) if found["kind"] == "CronJob")
    found: dict[str, Any] = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
    return found


def _commands() -> Iterator[tuple[str, str]]:
    """All commands of ours in these files and in the page on sizing, without what a shell does with them."""
    for path in (*sorted(SCHEDULES.iterdir()), SCHEDULES.parents[1] / "docs" / "sizing.md"):
        code = "\n".join(line.partition("# ")[0] for line in path.read_text(encoding="utf-8").splitlines())
        for command in re.findall(
            r"(?:bin/)?\bpagemill ((?:nightly|verify|run|compact|query|plan|tune)\b[^\n'\"`]*)", code
        ):
            if path.name != "README.md" and " " in command.strip():
                yield path.name, NEEDLESS.split(command)[0].replace("{NIGHT}", "night.toml").strip()


@pytest.mark.parametrize(("name", "command"), list(_commands()))
def test_a_command_in_a_schedule_is_one_that_there_is(name: str, command: str):
    root = typer.main.get_command(app)
    assert isinstance(root, click.Group) or hasattr(root, "commands")
    words = shlex.split(command)
    root.commands[words[0]].make_context(f"pagemill {words[0]}", words[1:])  # type: ignore[attr-defined]


def test_each_schedule_starts_a_night():
    names = {name for name, command in _commands() if command.startswith("nightly ")}
    assert names == {
        "airflow_dag.py",
        "crontab",
        "kubernetes-cronjob.yaml",
        "pagemill-nightly.service",
        "rayjob.yaml",
    }


# cron

FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


def test_each_line_of_the_crontab_is_a_comment_a_setting_or_five_times_and_a_command():
    jobs = [line for line in _text("crontab").splitlines() if line and not re.match(r"#|[A-Z]+=", line)]
    assert len(jobs) == 2
    for line in jobs:
        *times, command = line.split(None, 5)
        assert all(t == "*" or low <= int(t) <= high for t, (low, high) in zip(times, FIELDS, strict=True))
        assert "%" not in command, "cron takes it for a new line"
        assert subprocess.run(["sh", "-n", "-c", command], check=False).returncode == 0


def test_cron_takes_the_crontab(tmp_path: Path):
    if shutil.which("crontab") is None:
        pytest.skip("cron is not installed")
    told = subprocess.run(["crontab", "-h"], capture_output=True, text=True, check=False)
    if "dry run" not in told.stdout + told.stderr:
        pytest.skip("this cron has no dry run")
    assert subprocess.run(["crontab", "-n", SCHEDULES / "crontab"], check=False).returncode == 0
    (tmp_path / "wrong").write_text(_text("crontab").replace("0 23 ", "0 25 "))
    assert subprocess.run(["crontab", "-n", tmp_path / "wrong"], capture_output=True, check=False).returncode == 1


# systemd


def _units(folder: Path, *, change: tuple[str, str] = ("", "")) -> list[str]:
    """The units as they are but for the path of the program, which is not installed here."""
    for name in ("pagemill-nightly.service", "pagemill-nightly.timer"):
        text = _text(name).replace("/opt/pagemill/.venv/bin/pagemill", "/bin/true")
        (folder / name).write_text(text.replace(*change) if change[0] else text)
    return [str(folder / name) for name in ("pagemill-nightly.service", "pagemill-nightly.timer")]


def test_systemd_takes_the_units(tmp_path: Path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    words = ["systemd-analyze", "verify", "--man=no"]
    done = subprocess.run([*words, *_units(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    wrong = _units(tmp_path, change=("KillMode=mixed", "KillMod=mixed"))
    assert "KillMod" in subprocess.run([*words, *wrong], capture_output=True, text=True, check=False).stderr
    calendar = re.findall(r"OnCalendar=(.*)", _text("pagemill-nightly.timer"))
    assert subprocess.run(["systemd-analyze", "calendar", *calendar], capture_output=True, check=False).returncode == 0


# Kubernetes


def _validate(manifest: dict[str, Any]) -> None:
    library = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    library.validate(manifest, library.latest_version(), strict=True)


def test_the_cron_job_is_one_by_the_schema_of_the_api():
    manifests = _manifests("kubernetes-cronjob.yaml")
    assert [manifest["kind"] for manifest in manifests] == ["ConfigMap", "CronJob"]
    for manifest in manifests:
        _validate(manifest)
    wrong = _manifests("kubernetes-cronjob.yaml")[1]
    wrong["spec"]["concurencyPolicy"] = "Forbid"
    with pytest.raises(Exception, match="concurencyPolicy"):
        _validate(wrong)


def test_the_night_in_the_manifest_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PAGEMILL_WEBHOOK", "https://hooks.example.org/x")
    (tmp_path / "night.toml").write_text(_manifests("kubernetes-cronjob.yaml")[0]["data"]["nightly.toml"])
    night = read_night(str(tmp_path / "night.toml"), {})
    assert None not in (night.hook, night.compact, night.retention, night.tune)
    mounts = [mount["mountPath"] for mount in _container("kubernetes-cronjob.yaml")["volumeMounts"]]
    for path in (*night.config.inputs, night.config.out, night.config.model):
        assert any(path.startswith(mount) for mount in mounts), f"{path} is on no volume"


RAY_JOB = {
    *("entrypoint", "submissionMode", "backoffLimit", "activeDeadlineSeconds", "shutdownAfterJobFinishes"),
    *("ttlSecondsAfterFinished", "rayClusterSpec", "runtimeEnvYAML", "entrypointNumCpus", "suspend", "metadata"),
}
RAY_CLUSTER = {"rayVersion", "headGroupSpec", "workerGroupSpecs", "enableInTreeAutoscaling", "autoscalerOptions"}
HEAD = {"serviceType", "rayStartParams", "template"}
WORKERS = {"groupName", "replicas", "minReplicas", "maxReplicas", "numOfHosts", "rayStartParams", "template"}
"""Fields of ray.io/v1, by KubeRay's API reference (apis/ray/v1/rayjob_types.go and raycluster_types.go)."""


def test_the_ray_job_has_the_fields_of_its_api_and_its_pods_are_pods():
    (job,) = _manifests("rayjob.yaml")
    spec = job["spec"]
    cluster = spec["rayClusterSpec"]
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    assert job["metadata"].keys() == {"generateName"}
    assert spec.keys() <= RAY_JOB
    assert spec["submissionMode"] in ("K8sJobMode", "HTTPMode")
    assert cluster.keys() <= RAY_CLUSTER
    assert cluster["headGroupSpec"].keys() <= HEAD
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    for group in groups[1:]:
        assert {"groupName", "minReplicas", "maxReplicas"} <= group.keys() <= WORKERS
    for group in groups:
        assert all(isinstance(value, str) for value in group["rayStartParams"].values()), "Ray's flags are texts"
        _validate({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, **group["template"]})
    assert re.fullmatch(r"\d+\.\d+\.\d+", cluster["rayVersion"])


# what the shells around the command do


def _stand_in(folder: Path, script: str) -> dict[str, str]:
    """The environment in which `pagemill` is this script."""
    (folder / "pagemill").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "pagemill").chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder)}


def _wrapped() -> dict[str, str]:
    cron = next(line for line in _text("crontab").splitlines() if "nightly.toml" in line).split(None, 5)[5]
    dag = re.search(r'COMMAND = f"(.*)"', _text("airflow_dag.py"))
    assert dag is not None
    (pod,) = _container("kubernetes-cronjob.yaml")["args"]
    (ray,) = _manifests("rayjob.yaml")
    entrypoint = shlex.split(ray["spec"]["entrypoint"])
    assert entrypoint[:2] == ["/bin/sh", "-c"]
    return {"cron": cron, "airflow": dag[1].replace("{NIGHT}", "x"), "pod": pod, "ray": entrypoint[2]}


@pytest.mark.parametrize("where", ["cron", "airflow", "pod", "ray"])
@pytest.mark.parametrize("code", [0, 1, 3, 4])
def test_out_of_time_is_a_success_and_all_else_is_what_it_is(where: str, code: int, tmp_path: Path):
    environment = _stand_in(tmp_path, f"echo the night has gone like this; exit {code}")
    words = ["sh", "-c", _wrapped()[where]]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=20, check=False)
    if where == "cron":  # which mails what is printed
        assert ("gone like this" in done.stdout) == (code in (1, 3))
    else:
        assert bool(done.returncode) == (code in (1, 3))
    if where == "pod":
        assert done.returncode == (0 if code == 4 else code), "podFailurePolicy goes by it"


def test_a_pod_that_is_asked_to_go_passes_it_on_and_waits(tmp_path: Path):
    script = f"trap 'sleep 0.5; touch {tmp_path}/committed; exit 130' TERM; touch {tmp_path}/begun\n"
    script += "while :; do sleep 0.05; done"
    words = ["sh", "-c", _wrapped()["pod"]]
    running = subprocess.Popen(words, env=_stand_in(tmp_path, script))
    give_up = time.monotonic() + 20
    while not (tmp_path / "begun").exists() and time.monotonic() < give_up:
        time.sleep(0.02)
    running.send_signal(signal.SIGTERM)
    assert running.wait(timeout=20) == 130
    assert (tmp_path / "committed").exists()


# Airflow and the image


def test_airflow_takes_the_dag(tmp_path: Path):
    if importlib.util.find_spec("airflow") is None:
        pytest.skip("Airflow is not installed; it is as large as all else together")
    script = "from airflow_dag import COMMAND, dag; print(dag.dag_id, [t.bash_command == COMMAND for t in dag.tasks])"
    folders = os.pathsep.join([str(SCHEDULES), *filter(None, sys.path)])
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": folders}
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.stdout.strip().endswith("pagemill_nightly [True]"), done.stderr


def test_hadolint_takes_the_dockerfile(tmp_path: Path):
    program = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if program is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run([program, SCHEDULES / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_what_the_image_is_built_of_is_there_and_sent():
    root = SCHEDULES.parents[1]
    copied = [
        name for line in re.findall(r"^COPY (?!--from)(.*)", _text("Dockerfile"), re.MULTILINE) for name in line.split()
    ]
    sources = [name for name in copied if not name.startswith("./")]
    sent = {line[1:] for line in _text("Dockerfile.dockerignore").splitlines() if line.startswith("!")}
    assert len(sources) > 4
    assert all((root / name).exists() for name in sources)
    assert set(sources) == sent


def test_the_page_tells_of_every_file():
    page = _text("README.md")
    told = {re.sub(r"^pagemill-nightly\.service", "", name) for name in re.findall(r"\]\(([^)/]+)\)", page)}
    there = {path.name for path in SCHEDULES.iterdir() if path.is_file()}
    assert there - {"README.md", "Dockerfile.dockerignore"} <= {*told, "pagemill-nightly.service"}
    for target in re.findall(r"\]\((\.\./[^)]+)\)", page):
        assert (SCHEDULES / target).exists()
