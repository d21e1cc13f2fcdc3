"""The context that kernels are compiled in."""

from __future__ import annotations

from typing import Any

import tvm

from tests.tiny_models import TARGET
from tvm_fusionx.late_passes.context import ADD_LOWER_PASS, BEFORE_VECTORS, OPT_LEVEL, pass_context
from tvm_fusionx.schedules import resolve_target


def _phases(context: Any) -> list[int]:
    return [int(phase) for phase, _ in context.config[ADD_LOWER_PASS]]


def test_the_outer_context_is_kept() -> None:
    @tvm.tir.transform.prim_func_pass(opt_level=0, name="theirs")
    def theirs(func: Any, mod: Any, ctx: Any) -> Any:
        return func

    config = {"tir.disable_assert": True, ADD_LOWER_PASS: [(0, theirs)]}
    with (
        tvm.transform.PassContext(opt_level=1, config=config, disabled_pass=["FastMath"]),
        pass_context(resolve_target(TARGET)),
    ):
        current = tvm.transform.PassContext.current()
        assert current.opt_level == OPT_LEVEL
        assert bool(current.config["tir.disable_assert"])
        assert "FastMath" in list(map(str, current.disabled_pass))
        assert _phases(current)[0] == 0


def test_passes_for_vectors_are_for_processors_alone() -> None:
    assert BEFORE_VECTORS in _phases(pass_context(resolve_target(TARGET)))
    opencl = tvm.target.Target("opencl", host="llvm")
    assert BEFORE_VECTORS not in _phases(pass_context(opencl))
