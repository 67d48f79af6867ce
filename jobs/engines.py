"""`pagemill engines`: which engines are usable here, and what each of the others lacks."""

from __future__ import annotations

import json
from typing import Any

from pipeline.engines import BEST_FIRST, ENGINES, load


def engines() -> list[dict[str, Any]]:
    """Every engine with what is known of it here; `lacks` is None for one that is usable."""
    found = []
    for name in ENGINES:
        engine = load(name)
        lacks = engine.missing()
        identity = engine.spec(engine.options_type()).identity if lacks is None else None
        found.append(
            {
                "engine": name,
                "usable": lacks is None,
                "lacks": lacks,
                "version": identity.version if identity else None,
                "model": identity.model if identity else None,
                "summary": engine.summary,
            }
        )
    return found


def as_json() -> str:
    """All engines for a program to read."""
    return json.dumps(engines())


def as_text() -> str:
    """All engines for a person to read."""
    found, lines = engines(), []
    automatic = next((entry["engine"] for entry in found if entry["usable"] and entry["engine"] in BEST_FIRST), None)
    for entry in found:
        state = "usable" if entry["usable"] else f"not usable: {entry['lacks']}"
        chosen = ", taken by 'auto'" if entry["engine"] == automatic else ""
        lines += [f"{entry['engine']:<10} {state}{chosen}", f"           {entry['summary']}"]
        if entry["usable"]:
            model = f", model {entry['model']}" if entry["model"] else ""
            lines.append(f"           version {entry['version']}{model}")
    return "\n".join(lines)
