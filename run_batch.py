#!/usr/bin/env python3
"""Run a job from a checkout: ``python run_batch.py INPUT... OUT [options]`` is ``pagemill run INPUT... OUT``."""

import sys

from jobs.cli import main

if __name__ == "__main__":
    main(["run", *sys.argv[1:]])
