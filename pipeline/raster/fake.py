"""The fake decoder: a document that says what each of its pages does to the process that decodes it.

It is read only where `RasterLimits.fake_decoder` is on, and stands for what real decoders do with hostile files,
on demand: the file is `MAGIC` and a JSON list with one of `ok`, `raise`, `abort`, `exit`, `hang`, `spin`, `eat`
for each page; `probe-abort` and `probe-hang` do it as soon as the document is opened.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import ErrorCode, PageFault
from pipeline.page import Page, RasterRule, SizedPage

MAGIC = b"%PAGEMILL-FAKE\n"
MEDIA_TYPE = "application/x-pagemill-fake"
_SIDE_PX = 64


class FakeReader:
    """One opened fake document."""

    def __init__(self, path: str) -> None:
        self._acts: list[str] = json.loads(Path(path).read_bytes().removeprefix(MAGIC))
        self.page_count = len(self._acts)
        for act in self._acts:
            if act.startswith("probe-"):
                _act(act.removeprefix("probe-"))

    def size(self, page: Page, rule: RasterRule) -> SizedPage:
        """Every page is a square."""
        length = rule.length(_SIDE_PX, _SIDE_PX)
        return SizedPage(page, _SIDE_PX, _SIDE_PX, 1, dpi=None, rotation=0, length=length)

    def layer(self, page: Page, rule: RasterRule) -> None:
        """There is none."""

    def render(self, page: Page, rule: RasterRule) -> tuple[SizedPage, NDArray[Any]]:
        """Do what the page says, and if the process outlives it give a square with two bars, gray by its number."""
        _act(self._acts[page.page_index])
        pixels = np.full((_SIDE_PX, _SIDE_PX), 255, np.uint8)
        pixels[16:24, 8:56] = pixels[40:48, 8:48] = page.page_index % 128
        return self.size(page, rule), pixels

    def close(self) -> None:
        """Nothing is open."""


def _act(act: str) -> None:
    match act:
        case "raise":
            raise PageFault(ErrorCode.BROKEN_PAGE, "the fake decoder was told to fail")
        case "abort":
            os.kill(os.getpid(), signal.SIGABRT)
        case "exit":
            os._exit(3)
        case "hang":
            time.sleep(3600)
        case "spin":
            # Native code that never returns and never lets another Python thread run.
            ctypes.PyDLL(None).sleep(3600)
        case "eat":
            eaten = [np.ones(1 << 27, np.uint8) for _ in range(1 << 12)]
            raise PageFault(ErrorCode.BROKEN_PAGE, f"{len(eaten)} pieces of 128 MiB were not enough")
