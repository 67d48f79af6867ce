"""What all tests share: the checkout can be imported without being installed, and how hypothesis searches.

The profile `steady` is the default: the same examples every time, so that a red test stays red. Look for new
examples with ``pytest --hypothesis-profile=search``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

_SLOW_MACHINES = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "steady", derandomize=True, deadline=None, database=None, suppress_health_check=_SLOW_MACHINES
)
settings.register_profile(
    "search", max_examples=2000, deadline=None, print_blob=True, suppress_health_check=_SLOW_MACHINES
)
settings.load_profile("steady")
