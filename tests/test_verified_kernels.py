"""The table of verified kernels: what makes an equal kernel, and which rows are kept."""

from __future__ import annotations

import linecache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay, te

from tests import verified_kernels
from tests.relay_modules import assert_close, inputs_of, module, var
from tests.verified_kernels import (
    TABLE,
    VerifiedKernels,
    assert_kernel,
    assert_same_numbers,
    digest_of,
    read_rows,
    write_rows,
)
from tvm_fusionx.expressions.round_even import ROUND_EVEN, register_rounding

TARGET = tvm.target.Target("llvm -mcpu=x86-64")
DATA = np.arange(8, dtype="float32")


def _kernel(factor: float = 2.0, lanes: int = 4, dtype: str = "float32") -> tvm.tir.PrimFunc:
    data = te.placeholder((8,), dtype, name="data")
    out = te.compute((8,), lambda i: data[i] * tvm.tir.const(factor, dtype), name="out")
    sch = tvm.tir.Schedule(te.create_prim_func([data, out]))
    _, lane = sch.split(sch.get_loops(sch.get_block("out"))[0], [None, lanes])
    sch.vectorize(lane)
    return sch.mod["main"]


FACTS: tuple[Any, ...] = (DATA, 1e-6, assert_close)
# Kernel, target, and question, each with one thing changed.
OTHERS: dict[str, tuple[Any, str, tuple[Any, ...]]] = {
    "arithmetic": (_kernel(3.0), "llvm -mcpu=x86-64", FACTS),
    "loops": (_kernel(lanes=8), "llvm -mcpu=x86-64", FACTS),
    "element type": (_kernel(dtype="float64"), "llvm -mcpu=x86-64", FACTS),
    "processor": (_kernel(), "llvm -mcpu=haswell", FACTS),
    "numbers": (_kernel(), "llvm -mcpu=x86-64", (DATA + 1, *FACTS[1:])),
    "shape of the numbers": (_kernel(), "llvm -mcpu=x86-64", (DATA.reshape(2, 4), *FACTS[1:])),
    "tolerance": (_kernel(), "llvm -mcpu=x86-64", (DATA, 1e-7, assert_close)),
    "comparison": (_kernel(), "llvm -mcpu=x86-64", (DATA, 1e-6, inputs_of)),
    "another fact": (_kernel(), "llvm -mcpu=x86-64", (*FACTS, 0)),
}


def test_an_equal_question_about_an_equal_kernel_has_the_same_row() -> None:
    assert digest_of(_kernel(), TARGET, FACTS) == digest_of(
        _kernel(), TARGET, (DATA.copy(), *FACTS[1:])
    )


@pytest.mark.parametrize("what", OTHERS)
def test_whatever_differs_has_another_row(what: str) -> None:
    func, target, facts = OTHERS[what]
    changed = digest_of(func, tvm.target.Target(target), facts)
    assert changed != digest_of(_kernel(), TARGET, FACTS)


def test_a_reference_that_computes_something_else_has_another_row() -> None:
    def made(term: str) -> Any:
        scope: dict[str, Any] = {}
        file = f"<reference {term}>"
        source = f"def reference(x):\n    return x + {term}\n"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        exec(compile(source, file, "exec"), scope)
        return scope["reference"]

    rows = [digest_of(_kernel(), TARGET, (made(term),)) for term in ("1", "2", "1  # one")]
    assert rows[0] == rows[2] != rows[1]


def test_a_pass_after_scheduling_that_changes_the_kernel_gives_another_row() -> None:
    @tvm.tir.transform.prim_func_pass(opt_level=0)
    def doubled(func: Any, mod: Any, context: Any) -> Any:
        def twice(store: Any) -> Any:
            return tvm.tir.BufferStore(store.buffer, store.value + store.value, store.indices)

        body = tvm.tir.stmt_functor.ir_transform(func.body, None, twice, ["tir.BufferStore"])
        return func.with_body(body)

    usual = digest_of(_kernel(), TARGET, FACTS)
    with tvm.transform.PassContext(config={"tir.add_lower_pass": [(3, doubled)]}):
        assert digest_of(_kernel(), TARGET, FACTS) != usual


def test_what_has_no_digest_is_refused() -> None:
    with pytest.raises(TypeError, match="made of numbers"):
        digest_of(_kernel(), TARGET, (object(),))


def _a_row(sampled: bool, facts: tuple[Any, ...] = FACTS) -> tuple[tvm.tir.PrimFunc, str]:
    """Return a kernel, and its digest, that is always compiled or is not."""
    for factor in range(2, 200):
        digest = digest_of(_kernel(float(factor)), TARGET, facts)
        if digest.startswith(verified_kernels.ALWAYS_COMPILED) == sampled:
            return _kernel(float(factor)), digest
    raise AssertionError("no such digest among 198")


def test_kernels_of_the_table_are_not_compiled_but_one_in_sixteen() -> None:
    func, digest = _a_row(sampled=False)
    sampled, always = _a_row(sampled=True)
    rows = {(digest, "x86-64", "a"), (always, "x86-64", "a")}
    known = VerifiedKernels(rows=rows)
    assert known.has(func, TARGET, FACTS)
    assert not known.has(sampled, TARGET, FACTS)
    assert not VerifiedKernels(compile_all=True, rows=rows).has(func, TARGET, FACTS)
    assert not VerifiedKernels().has(func, TARGET, FACTS)


@pytest.mark.parametrize("passed", [True, False])
def test_only_what_a_test_compiled_is_judged_by_its_outcome(passed: bool) -> None:
    followed = VerifiedKernels()
    followed.start("tests/a.py")
    assert not followed.has(_kernel(), TARGET, FACTS)
    followed.finish(passed)
    followed.start("tests/b.py")
    followed.finish(not passed)
    row = {(digest_of(_kernel(), TARGET, FACTS), "x86-64", "tests/a.py")}
    assert (followed.passed, followed.failed) == ((row, set()) if passed else (set(), row))


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    rows = {("b" * 16, "haswell", "tests/a.py"), ("a" * 16, "x86-64", "tests/a.py")}
    path = tmp_path / "rows.txt"
    assert read_rows(path) == set()
    write_rows(path, rows)
    assert read_rows(path) == rows
    assert path.read_text().splitlines()[0].startswith("b")


def test_the_table_is_in_order() -> None:
    """So that two runs that add rows change few lines."""
    rows = [tuple(line.split(" ")) for line in TABLE.read_text().splitlines()]
    assert rows == sorted(rows, key=lambda row: row[::-1])
    assert all(len(digest) == verified_kernels.DIGITS for digest, _, _ in rows)
    assert {file for _, _, file in rows} <= {
        path.relative_to(TABLE.parent.parent).as_posix() for path in TABLE.parent.rglob("*.py")
    }


@pytest.fixture
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> VerifiedKernels:
    """Let no row be known, and none be remembered."""
    fresh = VerifiedKernels()
    monkeypatch.setattr(verified_kernels, "kernels", fresh)
    return fresh


@pytest.mark.usefixtures("nothing_known")
def test_a_kernel_with_wrong_numbers_is_refused() -> None:
    assert_kernel(_kernel(), TARGET, [DATA], [2 * DATA], 0)
    with pytest.raises(AssertionError):
        assert_kernel(_kernel(3.0), TARGET, [DATA], [2 * DATA], 0)


@pytest.mark.usefixtures("nothing_known")
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_what_is_not_written_shows(dtype: str) -> None:
    data = te.placeholder((8,), dtype, name="data")
    zeros = te.compute((8,), lambda i: data[i] - data[i], name="out")
    sch = tvm.tir.Schedule(te.create_prim_func([data, zeros]))
    loop = sch.mod["main"].body.block.body
    shorter = tvm.tir.For(loop.loop_var, 0, 7, tvm.tir.ForKind.SERIAL, loop.body)
    root = sch.mod["main"].body
    block = tvm.tir.Block([], [], [], "root", shorter)
    func = sch.mod["main"].with_body(tvm.tir.BlockRealize([], root.predicate, block))
    with pytest.raises(AssertionError):
        assert_kernel(func, TARGET, [DATA.astype(dtype)], [np.zeros(8, dtype)], 0)


def test_a_known_kernel_is_not_run(nothing_known: VerifiedKernels) -> None:
    facts = ((DATA,), (DATA,), 0, assert_close, assert_kernel)
    func, digest = _a_row(sampled=False, facts=facts)
    with pytest.raises(AssertionError):
        assert_kernel(func, TARGET, [DATA], [DATA], 0)
    nothing_known.known = {digest}
    assert_kernel(func, TARGET, [DATA], [DATA], 0)


def _scaled(factor: float) -> tvm.IRModule:
    return module(var("x", 4) * relay.const(np.full(4, factor, "float32")))


def test_graphs_that_passed_are_not_run_again(nothing_known: VerifiedKernels) -> None:
    assert_same_numbers(_scaled(2), _scaled(2), 0)
    # Of the wrong ones the first few, so that one at least is not always compiled.
    for factor in (3, 4, 5):
        with pytest.raises(AssertionError):
            assert_same_numbers(_scaled(factor), _scaled(2), 0)
    nothing_known.known = {
        digest
        for digest, _, _ in nothing_known.asked
        if not digest.startswith(verified_kernels.ALWAYS_COMPILED)
    }
    nothing_known.asked.clear()
    skipped = 0
    for factor in (3, 4, 5):
        try:
            assert_same_numbers(_scaled(factor), _scaled(2), 0)
            skipped += 1
        except AssertionError:
            assert nothing_known.asked
    assert skipped
    # Another constant makes another graph.
    with pytest.raises(AssertionError):
        assert_same_numbers(_scaled(6), _scaled(2), 0)


def test_graphs_with_operators_of_our_own_always_run(nothing_known: VerifiedKernels) -> None:
    register_rounding()
    ours = module(relay.Call(relay.op.get(ROUND_EVEN), [var("x", 4)]))
    assert_same_numbers(ours, ours, 0)
    assert not nothing_known.asked
