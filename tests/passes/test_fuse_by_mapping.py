from __future__ import annotations

from tvm import relay

from tests.passes.assert_pass import assert_pass, assert_unchanged, block
from tests.relay_modules import EXACT, blocks_of, const, module, var
from tvm_fusionx.fusion import Limits, PlannerOptions
from tvm_fusionx.passes import FuseByMapping
from tvm_fusionx.passes.fuse_by_mapping import fuse_module

x, w, b = var("x", 4, 8), var("w", 6, 8), var("b", 6)


def _typed(name: str, *shape: int) -> relay.Var:
    return var(name, *shape)


def _separate() -> relay.Expr:
    """Return two kernels' worth of work: what a sort reads and gives cannot be fused."""
    return relay.exp(relay.argsort(relay.tanh(x), axis=1, dtype="float32"))


def test_a_product_takes_its_bias_and_activation() -> None:
    p, q, r = _typed("p", 4, 8), _typed("q", 6, 8), _typed("r", 6)
    func = block("dense_add_relu", [p, q, r], relay.nn.relu(relay.nn.dense(p, q) + r))
    assert_pass(
        FuseByMapping(),
        module(relay.nn.relu(relay.nn.dense(x, w) + b)),
        module(relay.Call(func, [x, w, b])),
    )


def test_a_scalar_is_written_into_its_block() -> None:
    p = _typed("p", 4, 8)
    func = block("multiply_exp", [p], relay.exp(p * relay.const(2.0)))
    assert_pass(
        FuseByMapping(),
        module(relay.exp(x * relay.const(2.0))),
        module(relay.Call(func, [x])),
        tolerance=EXACT,
    )


def test_a_reshape_at_the_border_is_a_block_without_a_kernel() -> None:
    p, q = _typed("p", 4, 8), _typed("q", 4, 8)
    first = relay.Call(block("exp", [p], relay.exp(p)), [x])
    func = block("reshape", [q], relay.reshape(q, (32,)), relay_reshape_only=1)
    assert_pass(
        FuseByMapping(),
        module(relay.reshape(relay.exp(x), (32,))),
        module(relay.Call(func, [first])),
        tolerance=EXACT,
    )


def test_blocks_with_several_results_return_tuples() -> None:
    p = _typed("p", 4, 8)
    func = block("split", [p], relay.split(p, 2, axis=1).astuple())
    call = relay.Call(func, [x])
    expected = module(relay.TupleGetItem(call, 0), relay.TupleGetItem(call, 1))
    before = module(*relay.split(x, 2, axis=1))
    found = FuseByMapping()(before)
    assert [str(item.attrs["fusionx.block"]) for item in blocks_of(found)] == ["split"]
    assert len(expected["main"].body.fields) == len(found["main"].body.fields)


def test_calls_of_constants_alone_are_folded_not_fused() -> None:
    p, q = _typed("p", 4, 8), _typed("q", 8)
    before = module(x + (const(8, seed=1) + const(8, seed=2)))
    folded = relay.const(
        const(8, seed=1).data.numpy() + const(8, seed=2).data.numpy(), dtype="float32"
    )
    expected = module(relay.Call(block("add", [p, q], p + q), [x, folded]))
    assert_pass(FuseByMapping(), before, expected, tolerance=EXACT)


def test_without_fusion_every_operator_is_its_own_block() -> None:
    found = FuseByMapping(fuse=False)(module(relay.nn.relu(relay.nn.dense(x, w) + b)))
    names = [str(item.attrs["fusionx.block"]) for item in blocks_of(found)]
    assert names == ["dense", "add", "relu"]


def test_the_size_of_blocks_is_bounded() -> None:
    expr: relay.Expr = x
    for _ in range(3):
        expr = relay.exp(relay.tanh(expr))
    assert len(blocks_of(FuseByMapping(max_ops_per_block=2)(module(expr)))) == 3
    assert len(blocks_of(FuseByMapping()(module(expr)))) == 1


def test_options_are_the_planners() -> None:
    expr: relay.Expr = x
    for _ in range(3):
        expr = relay.exp(relay.tanh(expr))
    few = PlannerOptions(Limits(operators=2))
    assert len(blocks_of(FuseByMapping(options=few)(module(expr)))) == 3
    assert len(blocks_of(FuseByMapping(max_ops_per_block=1, options=few)(module(expr)))) == 6
    denied = PlannerOptions(deny=frozenset(["tanh"]))
    assert len(blocks_of(FuseByMapping(options=denied)(module(expr)))) == 6
    assert len(blocks_of(FuseByMapping(options=PlannerOptions(fuse=False))(module(expr)))) == 6


def test_blocks_are_left_alone() -> None:
    p = _typed("p", 4, 8)
    func = block("mine", [p], relay.exp(p), nodes="a,b")
    assert_unchanged(
        FuseByMapping(), module(relay.Call(func, [x])), because="it is in blocks already"
    )


def test_a_function_for_another_compiler_is_left_alone() -> None:
    p = _typed("p", 4, 8)
    func = relay.Function([p], relay.exp(relay.tanh(p)))
    func = func.with_attr("Compiler", "dnnl").with_attr("global_symbol", "dnnl_0")
    found = FuseByMapping()(module(relay.exp(relay.Call(func, [relay.tanh(x)]))))
    inner = [item for item in blocks_of(found) if "Compiler" in item.attrs]
    assert [str(item.attrs["Compiler"]) for item in inner] == ["dnnl"]
    assert len(blocks_of(found)) == 3


def test_each_function_has_a_plan() -> None:
    mod, plans = fuse_module(module(_separate()), PlannerOptions())
    assert list(plans) == ["main"]
    names = [block_.name for block_ in plans["main"].blocks]
    assert [str(item.attrs["fusionx.block"]) for item in blocks_of(mod)] == names
    assert names == ["tanh", "argsort", "exp"]


def test_node_names_are_on_the_blocks() -> None:
    span = relay.Span(relay.SourceName("layer/exp"), 0, 0, 0, 0)
    call = relay.Call(relay.op.get("exp"), [x], None, None, span)
    (found,) = blocks_of(FuseByMapping()(module(relay.tanh(call))))
    assert str(found.attrs["fusionx.nodes"]) == "layer/exp"


def test_a_gpu_has_limits_of_its_own() -> None:
    options = FuseByMapping("opencl -max_function_args=31").planner_options()
    assert options.limits.arguments == 31
    assert not options.limits.rows_after_contraction
    assert not options.limits.results_before_pools
    assert options.limits.attention is None
    assert FuseByMapping("llvm").planner_options().limits.rows_after_contraction
