"""What all tests share: the checkout can be imported without being installed, how hypothesis searches, and no tuning.

Batch sizes that were measured on the machine of whoever runs the tests are not used.

The profile `steady` is the default: the same examples every time, so that a red test stays red; `short` takes fewer of
them, enough to see which lines are run. Look for new examples with ``pytest --hypothesis-profile=search``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

os.environ["PAGEMILL_TUNING"] = str(ROOT / "tests" / "no-tuning.json")

_SLOW_MACHINES = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "steady", derandomize=True, deadline=None, database=None, suppress_health_check=_SLOW_MACHINES
)
settings.register_profile(
    "search", max_examples=2000, deadline=None, print_blob=True, suppress_health_check=_SLOW_MACHINES
)
settings.register_profile(
    "short", max_examples=40, derandomize=True, deadline=None, database=None, suppress_health_check=_SLOW_MACHINES
)
settings.load_profile("steady")
