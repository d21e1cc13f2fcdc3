from __future__ import annotations

from types import ModuleType

import pytest
import tvm
from tvm import relay, tir

import tvm_fusionx as fx
from tests.benchmarks.scripts import script
from tests.relay_modules import TARGET, const, module, var
from tvm_fusionx.build.fused_build import BUILT_FROM
from tvm_fusionx.build.memory import memory_of_build


@pytest.fixture(scope="module", name="arenas")
def fixture_arenas() -> ModuleType:
    return script("arenas")


def _network() -> tvm.IRModule:
    hidden = relay.nn.conv2d(var("x", 1, 16, 32, 32), const(32, 16, 3, 3), padding=(1, 1))
    return module(relay.nn.global_avg_pool2d(relay.nn.relu(hidden)))


def test_kernels_without_bodies_have_the_plan_of_those_with(arenas: ModuleType) -> None:
    library = fx.build(_network(), TARGET)
    whole = memory_of_build(library, getattr(library, BUILT_FROM)[1])
    row = arenas.row_of("small", _network(), TARGET)
    assert whole.workspace > 0
    assert row["arena_bytes"] == whole.plan.arena_bytes
    assert row["workspace_bytes"] == whole.workspace
    assert row["tvm_bytes"] == whole.tvm_activations
    assert row["ours_without_workspaces_bytes"] < row["arena_bytes"] + whole.inputs + whole.outputs


def test_an_emptied_function_keeps_its_name(arenas: ModuleType) -> None:
    func = tir.PrimFunc([tir.Var("n", "int32")], tir.Evaluate(tir.Var("n", "int32")))
    emptied = arenas.emptied(tvm.IRModule({"kernel": func}))
    assert [variable.name_hint for variable in emptied.functions] == ["kernel"]
    assert len(emptied["kernel"].params) == 1
    assert not tir.analysis.undefined_vars(emptied["kernel"].body, [])


def test_growth_is_counted_by_run(arenas: ModuleType) -> None:
    log = "\n".join(
        [
            "Extended allocation by 5 bytes. (of weights)",
            f"{arenas.RESULTS} 1000",
            arenas.RUN,
            "x Extended allocation by 100 bytes.",
            "y Extended allocation by 28 bytes.",
            arenas.RUN,
            "Extended allocation by 64 bytes.",
            arenas.RUN,
        ]
    )
    assert arenas.read_ort_log(log) == {"ort_first_bytes": 1128, "ort_pattern_bytes": 1064}
