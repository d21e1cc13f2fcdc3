from __future__ import annotations

from tvm_fusionx.cli.time_line import time_line


class _Counting:
    runs = 0

    def run(self) -> None:
        self.runs += 1


def test_each_measurement_is_of_as_many_runs_as_asked_for() -> None:
    executor = _Counting()
    line = time_line(executor, None, 0.001, 0.002, repeat=4, number=3, warmup=2)
    assert executor.runs == 4 * 3 + 2
    assert [part.split(":")[0] for part in line.split(", ")] == [
        *("Init", "First", "Warm-up", "Avg", "Median", "p10", "p90")
    ]
    assert "Warm-up" not in time_line(executor, None, 0.0, 0.0, 1, 1, 0)
