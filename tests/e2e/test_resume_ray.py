"""The driver of a run on Ray is killed again and again: the rows are those of one quiet run without Ray."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

from tests import documents
from tests.e2e.test_resume import QUICK, command, rows, run_batch

ON_RAY = ("--engine", "fake", "--runner", "ray", "--progress", "none", "--actors", "1", "--rasterizers", "2")
ON_RAY += documents.EVERY_PAGE_READ
SLOW = ("--engine-option", "delay_s=0.05", "--engine-option", "batch_size=4", "--commit-seconds", "0.5")


def test_a_driver_on_ray_that_is_killed_at_random_moments_loses_and_doubles_nothing(tmp_path: Path) -> None:
    folder, out = documents.strangers_folder(tmp_path / "in"), tmp_path / "out"
    documents.pdf(folder / "long.pdf", 240)
    run_batch(folder, tmp_path / "quiet", *QUICK)
    chooser = random.Random(5)
    for _ in range(4):
        before = len(list(out.glob("pages/*/*.parquet")))
        running = subprocess.Popen(command(folder, out, *ON_RAY, *SLOW), stderr=subprocess.DEVNULL)
        give_up = time.monotonic() + 60
        while len(list(out.glob("pages/*/*.parquet"))) == before and time.monotonic() < give_up:
            time.sleep(0.05)
        time.sleep(chooser.uniform(0, 2.0))
        assert running.poll() is None, "it ended before it was killed: the test shows nothing"
        running.send_signal(signal.SIGKILL)
        running.wait()
    assert 0 < len(rows(out)) < documents.ROWS_OF_STRANGERS_FOLDER + 240
    done = run_batch(folder, out, *ON_RAY, *SLOW)
    assert done.returncode == 1, done.stderr
    assert rows(out) == rows(tmp_path / "quiet")
    assert len({run_id for (run_id,) in rows(out, "run_id")}) == 5
