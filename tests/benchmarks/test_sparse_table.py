"""What is told of pruned layers and models."""

from __future__ import annotations

from typing import Any

from tests.benchmarks.scripts import script

table = script("sparse_table")


def a_row(name: str, kind: str, **more: Any) -> dict[str, Any]:
    ms = {"sparse": 1.0, "dense": 3.0, "OpenVINO": 2.0, "MNN": 0.5}
    return {
        "name": name,
        "kind": kind,
        "rate": 8.0,
        "ms": ms,
        "gain": 3.0,
        "best_other": 2.0,
        "difference": {**dict.fromkeys(ms, 1e-7), "MNN": 0.3},
        "device": "a processor",
        "threads": 2,
        "peak_gflops_per_second": 200.0,
        "weight_bytes": {"sparse": 10, "dense": 40},
        **more,
    }


def test_what_computed_something_else_is_marked_and_the_bars_stand_beside() -> None:
    rows = [a_row("one", "layer", share_of_peak=0.72), a_row("vgg16", "model")]
    rows.append({"name": "broken", "failed": "it took more than 1 seconds"})
    told = table.pruned_page(rows)
    assert told.startswith("Median milliseconds on a processor, 2 threads")
    assert "| one | 1.000 | 3.000 | 3.00 | - | 72% | - | 2.000 | 0.500† | - | 2.00 |" in told
    cells = "8x | 1.00 | 3.00 | 3.00 | 2.00 | 4.60 | 25%"
    assert f"| vgg16 | {cells} | - | 2.00 | 0.50† | - | 2.00 |" in told
    assert told.endswith("No result: broken (it took more than 1 seconds).")
