from __future__ import annotations

import json
from pathlib import Path

import pytest

from tvm_fusionx.errors import OutputFileError
from tvm_fusionx.report.bench.bench_result import BenchResult
from tvm_fusionx.report.bench.loaded_runs import LoadedRuns
from tvm_fusionx.report.bench.sustained import Sustained
from tvm_fusionx.report.bench.timing import Latency


@pytest.fixture
def result() -> BenchResult:
    return BenchResult(
        model="net",
        target="llvm",
        threads=1,
        device="a processor",
        versions={},
        ops=2,
        kernels={"fusionx": 1},
        intermediate_bytes={"fusionx": 0},
        weight_bytes=8,
        max_rel_err=0.0,
        cosine=1.0,
        import_s=0.5,
        build_s=1.5,
        latency_ms={"fusionx": Latency(2, 2, 2, 1), "tvm": Latency(5, 5, 5, 1)},
        loaded_ms={"2": {"fusionx": LoadedRuns(2, 3, 4, 5, 0.5, 9)}},
        sustained_ms={"fusionx": Sustained.of([0.002, 0.002, 0.003])},
    )


def test_the_result_is_written_as_json(result: BenchResult, tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    result.save_json(path)
    written = json.loads(path.read_text())
    assert set(written) == set(BenchResult.__dataclass_fields__)
    assert written["latency_ms"]["tvm"] == {"median": 5, "p10": 5, "p90": 5, "n": 1}
    assert written["loaded_ms"]["2"]["fusionx"]["switches"] == 0.5
    assert written["sustained_ms"]["fusionx"]["n"] == 3
    with pytest.raises(OutputFileError):
        result.save_json(tmp_path / "missing" / "bench.json")


def test_the_ratio_is_how_many_times_faster_ours_is(result: BenchResult) -> None:
    assert result.speedup_over("tvm") == 2.5
    assert result.speedup_over("ort") is None
