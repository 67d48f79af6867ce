"""Hook: who is told, with its totals as JSON, that a night is over. An address is never shown: it may hold a secret."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from jobs.nightly_file import Hook
from pipeline.result import one_line

_FIRST_PAUSE_S = 1.0


def tell(hook: Hook, totals: str, wait: Callable[[float], None] = time.sleep) -> list[str]:
    """Tell all that a hook names; what went wrong, one line for each that could not be told."""
    found = [_run(hook, totals) if hook.command else None, _post(hook, totals, wait) if hook.address() else None]
    return [problem for problem in found if problem is not None]


def _run(hook: Hook, totals: str) -> str | None:
    """Start the command, without a shell: totals on stdin and in the file that $PAGEMILL_TOTALS names."""
    name = os.path.basename(hook.command[0])
    with tempfile.TemporaryDirectory(prefix="pagemill-hook-") as folder:
        file = Path(folder) / "totals.json"
        file.write_text(totals, encoding="utf-8")
        environment = {**os.environ, "PAGEMILL_TOTALS": str(file)}
        try:
            done = subprocess.run(  # noqa: S603 (what the file of the night names is to be started)
                hook.command, input=totals.encode(), stdout=sys.stderr.fileno(), env=environment,
                timeout=hook.timeout_s, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"hook {name} was ended: it took longer than {hook.timeout_s:g} s"
        except (OSError, ValueError) as error:
            return f"hook {name} could not be started: {one_line(getattr(error, 'strerror', None) or str(error))}"
    return f"hook {name} ended with {done.returncode}" if done.returncode else None


def _post(hook: Hook, totals: str, wait: Callable[[float], None]) -> str | None:
    """Send the totals; again, after longer and longer pauses, where that may help."""
    address = hook.address()
    where = f"webhook at {urlsplit(address).hostname}"
    headers = {"Content-Type": "application/json", "User-Agent": "pagemill"}
    said = ""
    for attempt in range(hook.attempts):
        if attempt:
            wait(_FIRST_PAUSE_S * 2 ** (attempt - 1))
        try:
            request = Request(address, totals.encode(), headers, method="POST")  # noqa: S310 (http or https: checked)
            with urlopen(request, timeout=hook.timeout_s):  # noqa: S310
                return None
        except HTTPError as error:
            error.close()
            said = f"it answered {error.code}"
            if error.code < 500 and error.code != 429:
                break
        except (URLError, OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            said = type(error).__name__ if isinstance(reason, ValueError | HTTPException) else one_line(str(reason))
    return f"{where} was not told: {said}"
