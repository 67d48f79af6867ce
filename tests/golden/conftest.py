"""The switch that records the golden figures anew."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record-golden",
        action="store_true",
        help="write the error rates and versions of this run to tests/golden/sample_docs.json",
    )
