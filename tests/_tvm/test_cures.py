from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest
import tvm
from tvm import relay, te, tir, topi
from tvm.relay.backend import te_compiler

from tvm_fusionx._tvm import cures
from tvm_fusionx._tvm.cures import (
    PASS_THAT_FORGETS_NAMES,
    PASSES_THAT_UNDO_BLOCKS,
    build_config,
    concatenation_as_expression,
    drop_lets,
    let_cure,
    simplification_passes,
)


def _cured(func: tir.PrimFunc) -> tir.PrimFunc:
    return drop_lets()(tvm.IRModule({"main": func}))["main"]


def _nodes(func: tir.PrimFunc, kinds: tuple[type, ...]) -> list[object]:
    found: list[object] = []
    tir.stmt_functor.post_order_visit(
        func.body, lambda node: found.append(node) if isinstance(node, kinds) else None
    )
    return found


def _with_let(dtype: str) -> tir.PrimFunc:
    """Return out[i] = (let v = in[i] in v * v), of 8 elements."""
    source, target = (tir.decl_buffer((8,), dtype, name) for name in ("source", "target"))
    index, value = tir.Var("i", "int32"), tir.Var("v", dtype)
    let = tir.Let(value, tir.BufferLoad(source, [index]), value * value)
    store = tir.BufferStore(target, let, [index])
    loop = tir.For(index, 0, 8, tir.ForKind.SERIAL, store)
    return tir.PrimFunc([source, target], loop).with_attr("global_symbol", "main")


def test_float_lets_are_replaced_by_their_values() -> None:
    func = _cured(_with_let("float32"))
    assert _nodes(func, (tir.Let,)) == []
    values = np.arange(8, dtype="float32")
    source, target = tvm.nd.array(values), tvm.nd.empty((8,), "float32")
    tvm.build(func, target="llvm")(source, target)
    np.testing.assert_array_equal(target.numpy(), values * values)


def test_integer_lets_stay() -> None:
    assert len(_nodes(_cured(_with_let("int32")), (tir.Let,))) == 1


def test_let_statements_of_floats_are_replaced() -> None:
    target = tir.decl_buffer((1,), "float32", "target")
    value = tir.Var("v", "float32")
    body = tir.LetStmt(value, tir.const(3.0), tir.BufferStore(target, value, [0]))
    func = _cured(tir.PrimFunc([target], body))
    assert _nodes(func, (tir.LetStmt,)) == []


@pytest.mark.parametrize("operator", [te.floordiv, te.floormod], ids=["floordiv", "floormod"])
def test_floor_division_by_a_variable_rounds_down_without_a_let(operator: object) -> None:
    pairs = [(a, b) for a in (-7, -6, 0, 6, 7) for b in (-3, -1, 2, 4)]
    left, right = (np.array(side, "int64") for side in zip(*pairs, strict=True))
    a, b = (te.placeholder((len(pairs),), "int64", name) for name in "ab")
    c = te.compute((len(pairs),), lambda i: operator(a[i], b[i]))  # type: ignore[operator]
    func = _cured(te.create_prim_func([a, b, c]))
    assert _nodes(func, (tir.FloorDiv, tir.FloorMod)) == []
    result = tvm.nd.empty((len(pairs),), "int64")
    tvm.build(func, target="llvm")(tvm.nd.array(left), tvm.nd.array(right), result)
    expected = left // right if operator is te.floordiv else left % right
    np.testing.assert_array_equal(result.numpy(), expected)


def test_floor_division_by_a_constant_is_left_to_tvm() -> None:
    a = te.placeholder((8,), "int64", "a")
    func = _cured(te.create_prim_func([a, te.compute((8,), lambda i: te.floordiv(a[i], 3))]))
    assert len(_nodes(func, (tir.FloorDiv,))) == 1


# ---- scopes -----------------------------------------------------------------------------------


def test_the_cure_holds_until_the_last_scope_ends() -> None:
    calls: list[int] = []
    with let_cure():
        with let_cure():
            calls.append(cures._let_cure_depth)
        calls.append(cures._let_cure_depth)
    assert calls == [2, 1]
    assert cures._let_cure_depth == 0


def test_the_cure_ends_with_an_error() -> None:
    with pytest.raises(RuntimeError, match="inside"), let_cure():
        raise RuntimeError("inside")
    assert cures._let_cure_depth == 0


def test_the_cure_reaches_functions_that_are_built_to_be_folded() -> None:
    # FoldConstant builds with a configuration of its own: only the global build can be cured.
    seen: list[str] = []
    original = cures.drop_lets

    def spy() -> object:
        cure = original()

        def run(mod: tvm.IRModule) -> tvm.IRModule:
            seen.extend(variable.name_hint for variable in mod.functions)
            return cure(mod)

        return run

    expr = relay.exp(relay.const(np.ones(3, "float32")))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(expr))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cures, "drop_lets", spy)
        with let_cure():
            relay.transform.FoldConstant()(mod)
    assert any("exp" in name for name in seen)
    seen.clear()
    relay.transform.FoldConstant()(mod)
    assert seen == []


def test_scopes_of_several_threads_do_not_end_each_other() -> None:
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with let_cure():
            entered.set()
            leave.wait(timeout=60)

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait(timeout=60)
    with let_cure():
        pass
    assert cures._let_cure_depth == 1
    leave.set()
    thread.join()
    assert cures._let_cure_depth == 0


def test_concatenation_is_an_expression_in_its_scope_only() -> None:
    before = topi.x86.concatenate
    a = te.placeholder((2, 3), "float32", "a")
    with concatenation_as_expression():
        with concatenation_as_expression():
            pass
        inside = topi.x86.concatenate([a, a], 0)
    assert isinstance(inside.op, te.ComputeOp)
    assert topi.x86.concatenate is before
    assert isinstance(topi.x86.concatenate([a, a], 0).op, te.ExternOp)


# ---- configuration ----------------------------------------------------------------------------


def test_tvm_takes_the_configuration() -> None:
    with tvm.transform.PassContext(config=build_config()) as context:
        assert context.config["relay.backend.tir_converter"] == cures.TIR_CONVERTER_NAME


def test_simplification_leaves_out_what_undoes_blocks_and_forgets_names() -> None:
    names = [str(step.info.name) for step in simplification_passes()]
    assert "SimplifyInference" in names
    assert not {*PASSES_THAT_UNDO_BLOCKS, PASS_THAT_FORGETS_NAMES} & set(names)


def test_the_passes_left_out_are_passes_that_tvm_runs() -> None:
    prefix = tvm.get_global_func("relay.backend.GetPassPrefixSeq")(True, False)
    names = {str(step.info.name) for step in prefix.passes}
    # The others run later in the build; a name that nothing bears would switch nothing off.
    assert {"FoldConstant", "SimplifyExpr", PASS_THAT_FORGETS_NAMES} <= names


def test_build_flags_are_asked_for_once_and_the_scope_is_undone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[None] = []

    def ask() -> dict[str, str]:
        asked.append(None)
        return {"INDEX_DEFAULT_I64": "ON"}

    # Apart from the scope that the tests themselves run in.
    monkeypatch.setattr(cures, "_library_information_depth", 0)
    monkeypatch.setattr(cures, "_original_libinfo", ask)
    monkeypatch.setattr(te_compiler, "libinfo", ask)
    cures._information.cache_clear()
    for _ in range(2):
        with cures.remembered_library_information(), cures.remembered_library_information():
            assert [te_compiler.libinfo()] * 2 == [{"INDEX_DEFAULT_I64": "ON"}] * 2
        assert te_compiler.libinfo is ask
    assert len(asked) == 1
    cures._information.cache_clear()


def test_modules_pass_through_the_change_before_llvm_in_the_scope_only() -> None:
    seen: list[tvm.IRModule] = []

    def look(mod: tvm.IRModule) -> tvm.IRModule:
        seen.append(mod)
        return mod

    func = te.create_prim_func([te.placeholder((4,), name="x")])
    with cures.before_llvm(look):
        tvm.build(func, "llvm")
    tvm.build(func, "llvm")
    assert len(seen) >= 1
    count = len(seen)
    tvm.build(func, "llvm")
    assert len(seen) == count


def test_convolutions_for_opencl_are_their_definition_in_the_scope() -> None:
    x = relay.nn.conv2d(
        relay.var("x", shape=(1, 16, 12, 24)),
        relay.var("w", shape=(32, 16, 3, 3)),
        padding=(1, 1),
    )
    target = tvm.target.Target("opencl", host="llvm")
    call = relay.transform.InferType()(tvm.IRModule.from_expr(x))["main"].body
    inputs = [
        tvm.te.placeholder(list(map(int, each.checked_type.shape)), name="p") for each in call.args
    ]
    original = te_compiler.select_implementation
    with cures.direct_expressions(), target:
        inside = te_compiler.lower_call(call, inputs, target)
    assert [output.op.name for output in inside.outputs] == ["conv2d_nchw"]
    assert te_compiler.select_implementation is original


@pytest.mark.slow
def test_a_plain_build_before_leaves_opencl_its_definitions() -> None:
    # TVM remembers what lowers a call from the first build of a process on.
    script = (
        "from tvm import relay, IRModule; import numpy as np\n"
        "x = relay.var('x', shape=(1, 8, 9, 9))\n"
        "relay.build(IRModule.from_expr(relay.nn.relu(x)), 'llvm')\n"
        "import tvm_fusionx as fx\n"
        "w = relay.const(np.ones((8, 1, 3, 3), 'float32'))\n"
        "conv = relay.nn.conv2d(x, w, groups=8, padding=(1, 1))\n"
        "print(fx.build(IRModule.from_expr(conv), 'opencl').get_lib().type_key)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
