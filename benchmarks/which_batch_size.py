"""The README's section on batch sizes, made from what `pagemill tune` has measured.

    python benchmarks/which_batch_size.py [TUNING.json ...] [--profile balanced] [--max-latency S] [--readme README.md]

Prints the section for every tuning in the files (by default the one that runs use), or with --readme puts it between
the markers there: a table of each, made from the file and from nothing else.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from jobs.tune_table import section
from pipeline.tuning.figures import PROFILES
from pipeline.tuning.file import default_path, read

BEGIN, END = "<!-- tune-table -->", "<!-- end -->"


def put(readme: str, text: str) -> str:
    """The README with the text between its markers."""
    pattern = re.compile(re.escape(BEGIN) + r".*?" + re.escape(END), flags=re.DOTALL)
    if not pattern.search(readme):
        raise SystemExit(f"there is no {BEGIN} ... {END}")
    return pattern.sub(lambda _: f"{BEGIN}\n{text}\n{END}", readme, count=1)


def main() -> None:
    """Read the files, and print the section or put it into its place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, default=[default_path()], metavar="TUNING.json")
    parser.add_argument("--profile", choices=PROFILES, default="balanced")
    parser.add_argument("--max-latency", type=float, default=None)
    parser.add_argument("--readme", type=Path)
    told = parser.parse_args()
    tunings = [tuning for path in told.files for tuning in read(path)]
    if not tunings:
        raise SystemExit(f"nothing was measured yet in {', '.join(map(str, told.files))}: pagemill tune")
    text = "\n\n".join(section(tuning, told.profile, told.max_latency) for tuning in tunings)
    if told.readme is None:
        print(text)
        return
    told.readme.write_text(put(told.readme.read_text(encoding="utf-8"), text), encoding="utf-8")


if __name__ == "__main__":
    main()
