from __future__ import annotations

from tests.benchmarks.scripts import script

under_load = script("under_load")


def runs(median: float, cpu_ms: float = 2.0) -> dict[str, float]:
    return {
        "median": median,
        "p90": 2 * median,
        "p99": 3 * median,
        "cpu_ms": cpu_ms,
        "switches": 0.5,
        "n": 9,
    }


def test_the_table_tells_all_sides_and_compares_with_other_runtimes_only() -> None:
    result = {
        "model": "m",
        "device": "a processor",
        "threads": 2,
        "versions": {"ort": "1"},
        "loaded_ms": {
            "0": {"fusionx": runs(2), "fusionx-tvm-pool": runs(1, 1.0), "ort": runs(3, 4.0)},
            "2": {"fusionx": runs(4)},
        },
    }
    lines = under_load.table([result]).splitlines()
    assert lines[2] == (
        "| m | 0 | 2.0 (4.0; 6.0) | 1.0 (2.0; 3.0) | 3.0 (6.0; 9.0) | 2.0 / 4.0 | 0.5 / 0.5 "
        "| 1.50 | 1.50 |"
    )
    assert lines[3] == "| m | 2 | 4.0 (8.0; 12.0) | - | - | 2.0 | 0.5 | - | - |"
    assert "a processor, 2 threads" in lines[-1]


def test_the_models_are_of_the_zoo() -> None:
    from tvm_fusionx import zoo

    assert len(set(under_load.NAMES)) == 10
    assert set(under_load.NAMES) <= set(zoo.names())
