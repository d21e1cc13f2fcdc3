"""Every iteration of a parallel loop runs once, on whichever thread is free."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import tvm
from tvm import tir

from tvm_fusionx.late_passes.small_buffers_on_stack import keep_small_buffers_on_stack
from tvm_fusionx.late_passes.steal_work import (
    IS_TAKEN,
    PIECES_A_CORE,
    TAKE,
    can_be_shared,
    pieces_of,
    steal_work,
)

CORES = 2
AFTER_LOWERING = 3
MOST = PIECES_A_CORE * CORES
# Around the number of cores, of pieces, and where the last piece is shorter.
EXTENTS = (1, 2, 3, MOST - 1, MOST, MOST + 1, 2 * MOST, 3 * MOST + 5, 1000)

TRIPLES = ("x86_64-linux-gnu", "aarch64-linux-android", "armv7a-linux-androideabi")


def _counting(extent: int, dtype: str = "int32") -> tir.PrimFunc:
    """Return a function whose parallel loop counts in each place how often it ran there."""
    numbers = tir.decl_buffer((extent,), "int32", "numbers")
    i = tir.Var("i", dtype)
    more = tir.BufferStore(numbers, tir.BufferLoad(numbers, [i]) + i.astype("int32") + 1, [i])
    loop = tir.For(i, tir.const(0, dtype), tir.const(extent, dtype), tir.ForKind.PARALLEL, more)
    handle = tir.Var("handle", "handle")
    function = tir.PrimFunc([handle], loop, buffer_map={handle: numbers})
    return function.with_attr("global_symbol", "main")


def _built(function: tir.PrimFunc, target: str = "llvm", cores: int = CORES) -> tvm.runtime.Module:
    passes = [steal_work(cores), keep_small_buffers_on_stack()]
    config = {"tir.add_lower_pass": [(AFTER_LOWERING, each) for each in passes]}
    with tvm.transform.PassContext(opt_level=3, config=config):
        return tvm.build(function, tvm.target.Target(target))


def _is_shared(function: tir.PrimFunc, cores: int = CORES) -> bool:
    changed = steal_work(cores)(tvm.IRModule({"main": function}))
    return TAKE in changed["main"].script() and IS_TAKEN in changed["main"].script()


def test_a_changed_loop_is_read_backwards() -> None:
    function = _counting(1000)
    changed = steal_work(CORES)(tvm.IRModule({"main": function}))["main"]
    loops: list[tir.For] = []

    def visit(node: object) -> None:
        if isinstance(node, tir.For):
            loops.append(node)

    tir.stmt_functor.post_order_visit(changed.body, visit)
    (found,) = [pieces for loop in loops if (pieces := pieces_of(loop)) is not None]
    variable, count, body = found
    assert (variable.name, count) == ("piece", MOST)
    assert isinstance(body, tir.For)
    assert pieces_of(function.body) is None


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("extent", EXTENTS)
def test_every_iteration_runs_once(extent: int, dtype: str) -> None:
    numbers = tvm.nd.array(np.zeros(extent, "int32"))
    run = _built(_counting(extent, dtype))
    for turn in range(1, 4):
        run(numbers)
        np.testing.assert_array_equal(numbers.numpy(), turn * np.arange(1, extent + 1))


@pytest.mark.parametrize("cores", [1, 2, 7, 64])
def test_other_numbers_of_cores_than_threads_compute_the_same(cores: int) -> None:
    numbers = tvm.nd.array(np.zeros(777, "int32"))
    _built(_counting(777), cores=cores)(numbers)
    np.testing.assert_array_equal(numbers.numpy(), np.arange(1, 778))


@pytest.mark.parametrize(("extent", "expected"), [(1, False), (2, False), (3, True), (99, True)])
def test_loops_of_no_more_iterations_than_cores_stay(extent: int, expected: bool) -> None:
    assert _is_shared(_counting(extent)) == expected


def test_only_parallel_loops_from_zero_of_known_length_can_be_shared() -> None:
    length = tir.Var("length", "int32")

    def loop(start: int, extent: object, kind: tir.ForKind) -> tir.For:
        return tir.For(tir.Var("i", "int32"), start, extent, kind, tir.Evaluate(0))

    assert can_be_shared(loop(0, 9, tir.ForKind.PARALLEL))
    assert not can_be_shared(loop(0, 9, tir.ForKind.SERIAL))
    assert not can_be_shared(loop(3, 9, tir.ForKind.PARALLEL))
    assert not can_be_shared(loop(0, length, tir.ForKind.PARALLEL))


def _nested() -> tir.PrimFunc:
    """Return a function that runs two parallel loops five times."""
    numbers = tir.decl_buffer((5, 50), "int32", "numbers")
    turn = tir.Var("turn", "int32")

    def loop(i: tir.Var, added: tir.PrimExpr) -> tir.For:
        more = tir.BufferStore(numbers, tir.BufferLoad(numbers, [turn, i]) + added, [turn, i])
        return tir.For(i, 0, 50, tir.ForKind.PARALLEL, more)

    i, j = tir.Var("i", "int32"), tir.Var("j", "int32")
    turns = tir.For(turn, 0, 5, tir.ForKind.SERIAL, tir.SeqStmt([loop(i, i), loop(j, turn)]))
    handle = tir.Var("handle", "handle")
    function = tir.PrimFunc([handle], turns, buffer_map={handle: numbers})
    return function.with_attr("global_symbol", "main")


def test_loops_one_after_the_other_within_a_loop_are_each_shared() -> None:
    numbers = tvm.nd.array(np.zeros((5, 50), "int32"))
    _built(_nested())(numbers)
    np.testing.assert_array_equal(numbers.numpy(), np.add.outer(np.arange(5), np.arange(50)))


@pytest.mark.parametrize("triple", TRIPLES)
def test_marks_need_no_library(triple: str) -> None:
    assembly = _built(_counting(99), f"llvm -mtriple={triple}").get_source("asm")
    assert not [name for name in ("__sync_", "__atomic_", "__aarch64_", TAKE) if name in assembly]


# A process of its own: how many threads TVM's pool has is settled when it is made.
WHO_RAN = """
import json
import numpy as np
import tvm
from tvm import tir
from tests.late_passes.test_steal_work import _built, _sleeping
import tvm_fusionx as fx

fx.threads(2)
ran = tvm.nd.array(np.zeros(32, "int64"))
_built(_sleeping())(ran)
print(json.dumps(ran.numpy().tolist()))
"""


def _sleeping(microseconds: int = 1_000_000) -> tir.PrimFunc:
    """Return a function whose first iteration lasts a second; each writes the thread it is on."""
    threads = tir.decl_buffer((32,), "int64", "threads")
    i = tir.Var("i", "int32")
    sleep = tir.Evaluate(tir.call_extern("int32", "usleep", microseconds))
    told = tir.BufferStore(threads, tir.call_extern("int64", "pthread_self"), [i])
    body = tir.SeqStmt([tir.IfThenElse(i == 0, sleep, None), told])
    handle = tir.Var("handle", "handle")
    loop = tir.For(i, 0, 32, tir.ForKind.PARALLEL, body)
    function = tir.PrimFunc([handle], loop, buffer_map={handle: threads})
    return function.with_attr("global_symbol", "main")


def test_a_thread_that_is_held_up_loses_what_it_has_not_begun() -> None:
    told = subprocess.run(
        [sys.executable, "-c", WHO_RAN], capture_output=True, text=True, check=True
    )
    ran = json.loads(told.stdout.splitlines()[-1])
    # TVM alone would leave it half of them.
    assert ran.count(ran[0]) <= 2
    assert len(set(ran)) == 2
