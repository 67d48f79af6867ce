"""Quarantine: probe or render alone in a process that may die, hang or run out of memory without harm.

Ray says that a worker has died, not of what. What was in a task when its process died is done again here, one
page in one process, and the process says: its exit code or signal, the clock, or its own error. Runs in a
rasterizing process; the child is a fresh interpreter, since a fork would inherit a broken state.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from pipeline.document import Document, Source
from pipeline.errors import ErrorCode, MachineError
from pipeline.page import Page, Raster, RasterLimits, RasterRule, SizedPage
from pipeline.raster import probe, render_pages
from pipeline.raster.guard import limit_memory
from pipeline.result import Failure, Probe, Settled, Stage, Unrendered, one_line

_STARTUP_S = 30.0
"""Allowed on top of the page's own time for an interpreter to start and import the decoders."""


def probe_alone(source: Source, limits: RasterLimits) -> Probe:
    """`probe` in a process of its own; how that ended is the failure if it gave no answer."""
    answer = _ask(("probe", source, limits), limits, Stage.DISCOVER)
    return Probe(Document(source.uri), answer) if isinstance(answer, Failure) else pickle.loads(answer)  # noqa: S301


def render_alone(
    document: Document, index: int, rule: RasterRule, limits: RasterLimits
) -> Raster | Settled | Unrendered:
    """One page in a process of its own; how that ended is the failure if it gave no raster."""
    answer = _ask(("render", document, index, rule, limits), limits, Stage.RASTERIZE)
    if isinstance(answer, Failure):
        page = Page(document.uri, document.document_id or "", index, document.page_count or 0)
        return Unrendered(page, answer)
    header, _, pixels = answer.partition(b"\n")
    made: SizedPage | Settled | Unrendered = pickle.loads(bytes.fromhex(header.decode()))  # noqa: S301 (from our child)
    if not isinstance(made, SizedPage):
        return made
    shape = (made.height_px, made.width_px) + ((3,) if made.channels == 3 else ())
    return Raster(made, np.frombuffer(pixels, np.uint8).reshape(shape))


def _ask(question: tuple[Any, ...], limits: RasterLimits, stage: Stage) -> bytes | Failure:
    """Run a child on the question: its answer, or how it ended."""
    command = [sys.executable, "-m", "pipeline.raster.quarantine"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(  # noqa: S603 (our own module)
            command,
            input=pickle.dumps(question),
            capture_output=True,
            timeout=limits.page_timeout_s + _STARTUP_S,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _timed_out(stage, limits)
    if done.returncode == 0:
        return done.stdout
    if done.returncode == -signal.SIGALRM:
        return _timed_out(stage, limits)
    if done.returncode == os.EX_TEMPFAIL:
        raise MachineError(done.stderr.decode(errors="replace").strip())
    how = f"exit code {done.returncode}"
    if done.returncode < 0:
        how = signal.strsignal(-done.returncode) or f"signal {-done.returncode}"
    said = one_line(done.stderr.decode(errors="replace").strip().rpartition("\n")[2], 200)
    message = f"the decoder's process died: {how}" + (f" ({said})" if said else "")
    return Failure(stage, ErrorCode.RASTERIZER_CRASHED, message)


def _timed_out(stage: Stage, limits: RasterLimits) -> Failure:
    return Failure(stage, ErrorCode.PAGE_TIMEOUT, f"not done within {limits.page_timeout_s:g} s")


def _answer(question: tuple[Any, ...]) -> bytes:
    """In the child: the raster as a hexadecimal header, a newline and the pixels; or the pickled probe."""
    if question[0] == "probe":
        return pickle.dumps(probe(question[1], limits=question[2]))
    _, document, index, rule, limits = question
    made = next(iter(render_pages(document, index, index + 1, rule, limits)))
    if not isinstance(made, Raster):
        return pickle.dumps(made).hex().encode() + b"\n"
    header = pickle.dumps(made.sized).hex().encode()
    return header + b"\n" + np.ascontiguousarray(made.pixels).tobytes()


def _main(read: Callable[[], bytes], write: Callable[[bytes], Any]) -> None:
    question = pickle.loads(read())  # noqa: S301 (from the process that started this one)
    limits: RasterLimits = question[-1]
    limit_memory(limits)
    # The default action of SIGALRM ends the process even inside a decoder that never returns to Python.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, limits.page_timeout_s)
    try:
        write(_answer(question))
    except MachineError as error:
        sys.stderr.write(str(error))
        sys.exit(os.EX_TEMPFAIL)


if __name__ == "__main__":
    _main(sys.stdin.buffer.read, sys.stdout.buffer.write)
