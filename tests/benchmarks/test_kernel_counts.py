from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import tvm
from tvm import relay

from tests.relay_modules import const, module, var
from tvm_fusionx.schedules import resolve_target

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "kernel_counts.py"

FLOAT_BYTES = 4


@pytest.fixture(scope="module")
def counting() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kernel_counts", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    # A dataclass looks its module up.
    sys.modules["kernel_counts"] = found
    spec.loader.exec_module(found)
    return found


def _two_products() -> tvm.IRModule:
    """Return two products with an activation between them and a reshape at the end."""
    hidden = relay.nn.relu(relay.nn.dense(var("x", 64, 128), const(256, 128)))
    return module(relay.reshape(relay.nn.dense(hidden, const(512, 256)), (64, 16, 32)))


def test_a_result_is_no_intermediate_and_a_reshape_no_kernel(counting: ModuleType) -> None:
    ours, plan, seconds = counting.fused_by_us(_two_products(), resolve_target("llvm"))
    assert counting.count_kernels(ours) == (2, 64 * 256 * FLOAT_BYTES)
    assert plan.kernels == 2
    assert seconds > 0


def test_tvm_is_counted_without_a_build(counting: ModuleType) -> None:
    kernels, written = counting.count_kernels(
        counting.fused_by_tvm(_two_products(), resolve_target("llvm"))
    )
    assert kernels >= 2
    assert written >= 64 * 256 * FLOAT_BYTES


def test_a_tuple_of_results_is_no_intermediate(counting: ModuleType) -> None:
    x = var("x", 64, 128)
    both = module(relay.Tuple([relay.tanh(x), relay.cumsum(x, axis=1)]))
    ours, _, _ = counting.fused_by_us(both, resolve_target("llvm"))
    assert counting.count_kernels(ours) == (2, 0)


def test_counts_are_read_as_they_were_written(counting: ModuleType, tmp_path: Path) -> None:
    each = counting.Count("net", 9, 5, None, 4, 3, 3 << 20, 2 << 20, 1 << 20, 0.25, 1.5, "abc")
    path = tmp_path / "counts.json"
    counting.write(path, [each])
    assert counting.read(path) == {"net": each}
    assert counting.read(tmp_path / "other.json") == {}
    row = counting.table([each]).splitlines()[-1]
    assert row == "| net | 9 | 5 |  | 4 | 3 | 3.0 | 2.0 | 1.0 | 0.2 |"
