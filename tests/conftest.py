"""What holds for every test: no network, and the same random cases on every run."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Read by TVM when it is imported, so it must be set before any test module is.
os.environ["TOPHUB_LOCATION"] = "NONE"

# Compiling one example takes as long as the machine needs, and a failure must come back on the
# next run.
settings.register_profile(
    "fusionx",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fusionx")
