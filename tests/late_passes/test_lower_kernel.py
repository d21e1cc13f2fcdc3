"""Kernels are lowered apart as TVM lowers them in a build, whatever the number of threads."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import te, tir

from tests.relay_modules import TARGET
from tvm_fusionx._tvm.cures import before_llvm
from tvm_fusionx.late_passes import lower_kernel as module
from tvm_fusionx.late_passes.context import pass_context
from tvm_fusionx.late_passes.lower_kernel import lower_kernel, lower_kernels
from tvm_fusionx.schedules import resolve_target

CPU = resolve_target(TARGET)


def block(rows: int) -> tir.PrimFunc:
    a = te.placeholder((rows, 20), name="a")
    b = te.compute((rows, 20), lambda i, j: te.exp(a[i, j]) + 1.0, name="b")
    schedule = tir.Schedule(te.create_prim_func([a, b]))
    i, j = schedule.get_loops("b")
    schedule.parallel(i)
    schedule.vectorize(j)
    return schedule.mod["main"]


def plain(func: Any) -> tir.PrimFunc:
    """Return a function without attributes."""
    return tir.PrimFunc(func.params, func.body, func.ret_type, func.buffer_map)


def test_a_kernel_is_what_tvm_makes_of_it_in_a_build() -> None:
    seen = []
    with pass_context(CPU, "flush"):
        own = lower_kernel(block(6), CPU, "kernel")
        with before_llvm(lambda mod: seen.append(mod) or mod):
            tvm.build(block(6), target=CPU, name="kernel")
    (theirs,) = seen[-1].functions.values()
    assert tvm.ir.structural_equal(plain(own), plain(theirs))


@pytest.mark.parametrize("cores", [1, 3])
def test_the_number_of_threads_changes_nothing(monkeypatch: Any, cores: int) -> None:
    monkeypatch.setattr(module, "_cores", lambda: cores)
    blocks = [(f"kernel_{rows}", block(rows)) for rows in range(2, 8)]
    told: list[tuple[int, int]] = []
    with pass_context(CPU, "flush"):
        alone = [lower_kernel(func, CPU, name) for name, func in blocks]
        together = lower_kernels(blocks, CPU, lambda done, count: told.append((done, count)))
    assert told == [(done, 6) for done in range(1, 7)]
    for (name, _), one, other in zip(blocks, alone, together, strict=True):
        assert str(other.attrs["global_symbol"]) == name
        assert tvm.ir.structural_equal(one, other)


@pytest.mark.parametrize("cores", [1, 2])
def test_an_error_ends_it_and_reaches_the_caller(monkeypatch: Any, cores: int) -> None:
    monkeypatch.setattr(module, "_cores", lambda: cores)

    @tir.transform.prim_func_pass(opt_level=0, name="Fails")
    def fails(func: Any, mod: Any, ctx: Any) -> Any:
        raise ValueError("no such thing")

    config = {"tir.add_lower_pass": [(3, fails)]}
    blocks = [(f"kernel_{rows}", block(rows)) for rows in (2, 3, 4)]
    with (
        tvm.transform.PassContext(opt_level=3, config=config),
        pytest.raises(Exception, match="no such thing"),
    ):
        lower_kernels(blocks, CPU, lambda done, count: None)


def test_no_two_kernels_share_a_context(monkeypatch: Any) -> None:
    """TVM writes what a pass has to say into its context: two threads would free it twice."""
    monkeypatch.setattr(module, "_cores", lambda: 3)
    contexts: list[tvm.transform.PassContext] = []

    @tir.transform.prim_func_pass(opt_level=0, name="Keeps")
    def keeps(func: Any, mod: Any, ctx: Any) -> Any:
        contexts.append(tvm.transform.PassContext.current())
        return func

    config = {"tir.add_lower_pass": [(3, keeps)], "tir.noalias": False}
    disabled = ["tir.NarrowDataType"]
    with tvm.transform.PassContext(opt_level=3, config=config, disabled_pass=disabled) as outer:
        blocks = [(f"kernel_{rows}", block(rows)) for rows in (2, 3, 4)]
        lower_kernels(blocks, CPU, lambda done, count: None)
    assert len({each.handle.value for each in [outer, *contexts]}) == 4
    for each in contexts:
        assert each.opt_level == 3
        assert list(each.disabled_pass) == disabled
        assert set(each.config) == set(config)


def test_instruments_see_every_pass_in_one_thread() -> None:
    @tvm.instrument.pass_instrument
    class Watch:
        def __init__(self) -> None:
            self.names: list[str] = []

        def run_before_pass(self, mod: Any, info: Any) -> None:
            self.names.append(str(info.name))

    watch = Watch()
    blocks = [("one", block(2)), ("two", block(3))]
    with tvm.transform.PassContext(opt_level=3, instruments=[watch]):
        lower_kernels(blocks, CPU, lambda done, count: None)
    assert watch.names.count("tir.MakePackedAPI") == 2
