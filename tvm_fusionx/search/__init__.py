"""Architecture search with the compiler in the loop: spaces, latencies, controllers, journals.

A candidate is plain data. What trains it and what times it are made of the same description, and
its latency is that of the kernels that this compiler makes of it. :func:`parse_space` reads a
space, :class:`LatencyEstimator` tells latencies, :func:`run_search` searches.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvm_fusionx.search.clocks import clock_of
    from tvm_fusionx.search.executor import Ended
    from tvm_fusionx.search.latency import LatencyEstimator
    from tvm_fusionx.search.reward import Reward
    from tvm_fusionx.search.search import SearchSettings
    from tvm_fusionx.search.session import SearchTask, run_search
    from tvm_fusionx.search.space import candidate_text
    from tvm_fusionx.search.space_file import parse_space

__all__ = [
    "Ended",
    "LatencyEstimator",
    "Reward",
    "SearchSettings",
    "SearchTask",
    "candidate_text",
    "clock_of",
    "parse_space",
    "run_search",
]

# Loaded when asked for: a process that trains one network needs none of them.
_MODULES = {
    "Ended": "executor",
    "LatencyEstimator": "latency",
    "Reward": "reward",
    "SearchSettings": "search",
    "SearchTask": "session",
    "candidate_text": "space",
    "clock_of": "clocks",
    "parse_space": "space_file",
    "run_search": "session",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
