"""How long the same command takes once everything is committed, and how much memory.

    python benchmarks/rerun.py [--documents 100000] [--pages 1] [--characters 100 2000]

Makes a folder of documents and an output that says that all of them are done, once with little text and once with
much, then runs `run_batch.py` over it as a process of its own and shows the clock and its largest resident memory.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from jobs.prepare import prepare
from pipeline.commit import CommitLimits, Committer
from pipeline.config import JobConfig
from pipeline.document import Document, local_etag, uri_of_path
from pipeline.page import Page
from pipeline.result import PageResult, Recognition, Status
from pipeline.store import Store
from pipeline.table import RunKeys
from pipeline.task import FinishedDocument, Ready

ROOT = Path(__file__).parents[1]
FILES_PER_FOLDER = 1000
DICE = random.Random(1)
WORDS = [DICE.randbytes(4).hex() for _ in range(4096)]


def documents(root: Path, num: int) -> Iterator[Document]:
    """Small pictures, each with bytes of its own, and what a probe would find of them."""
    for number in range(num):
        path = root / f"{number // FILES_PER_FOLDER:04d}" / f"scan {number:06d}.pgm"
        path.parent.mkdir(parents=True, exist_ok=True)
        data = b"P5\n# %d\n1 1\n255\n\0" % number
        path.write_bytes(data)
        status = path.stat()
        modified_at = datetime.fromtimestamp(status.st_mtime, UTC)
        document_id = hashlib.sha256(data).hexdigest()
        kind = "image/x-portable-anymap"
        yield Document(
            uri_of_path(str(path)), document_id, len(data), modified_at, local_etag(status), kind, page_count=1
        )


def commit(out: Path, found: list[Document], pages: int, characters: int, config: JobConfig) -> None:
    """An output in which these documents are done, with so many pages and so much text each."""
    spec = prepare(config).spec
    now = datetime.now(UTC)
    keys = RunKeys("20240101T000000Z-000000", spec.fingerprint(), now, spec.identity)
    limits = CommitLimits(20_000, 1e9, 128 << 20)
    committer = Committer(Store.open(str(out)), keys, limits, time.monotonic, lambda: now)
    for document in (replace(document, page_count=pages) for document in found):
        ready = Ready(documents=[FinishedDocument(document, {"ok": pages})])
        for index in range(pages):
            text = " ".join(DICE.choices(WORDS, k=characters // 9))
            page = Page(document.uri, document.document_id or "", index, pages)
            ready.results.append(PageResult(document, page, Status.OK, Recognition(text), batch_id="0" * 16))
        committer.take(ready)
    committer.flush()


def rerun(command: list[str]) -> tuple[float, float, dict[str, object]]:
    """Seconds of the clock, largest resident memory of the process in MB, and its totals.

    The memory is asked for while it runs: what `wait` tells begins with that of the process which has started it.
    """
    started, largest = time.perf_counter(), 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        while process.poll() is None:
            status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii", errors="replace")
            largest = max([largest, *(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line)])
            time.sleep(0.02)
        seconds = time.perf_counter() - started
        return seconds, largest * 1024 / 1e6, json.loads(process.stdout.read() if process.stdout else "")


def main() -> None:
    """Make, run, show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--pages", type=int, default=1, help="pages of each document")
    parser.add_argument("--characters", type=int, nargs="+", default=[100, 2000], help="text of a page")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        found = list(documents(root / "in", given.documents))
        for characters in given.characters:
            out = root / f"out-{characters}"
            config = JobConfig(inputs=(str(root / "in"),), out=str(out), engine="fake")
            commit(out, found, given.pages, characters, config)
            size = sum(part.stat().st_size for part in out.glob("pages/*/*.parquet")) / 1e6
            command = [sys.executable, str(ROOT / "run_batch.py"), str(root / "in"), str(out), "--engine", "fake"]
            seconds, memory_mb, totals = rerun([*command, "--progress", "none", "--json"])
            assert totals["pages"] == 0, totals
            assert totals["documents_already_done"] == given.documents, totals
            print(
                f"{given.documents} documents of {given.pages} pages, {characters} characters a page "
                f"({size:.0f} MB of Parquet): {seconds:.1f} s, {memory_mb:.0f} MB"
            )


if __name__ == "__main__":
    main()
