from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_fusionx as fx
from tests.relay_modules import (
    REASSOCIATING,
    TARGET,
    assert_close,
    blocks_of,
    const,
    inputs_of,
    module,
    operator_names,
    run_plain,
    var,
)
from tvm_fusionx.build.kernels import KernelGraph
from tvm_fusionx.build.pipeline import planner_options
from tvm_fusionx.errors import ModelError, PhaseError, ShapeError, TargetError
from tvm_fusionx.fusion import PlannerOptions
from tvm_fusionx.fusion.device_costs import DeviceCosts
from tvm_fusionx.measuring import costs_path, setting_of
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.rewrite import ALL_RULES
from tvm_fusionx.schedules import resolve_target

PASSES = [
    "tvm_fusionx.OutlineStatic",
    "tvm_fusionx.RewriteQuantized",
    "tvm_fusionx.RewriteGraph",
    "tvm_fusionx.ReuseSimilar",
    "tvm_fusionx.PackSparse",
    "tvm_fusionx.PackLayouts",
    "tvm_fusionx.FuseByMapping",
    "tvm_fusionx.ComputeInFloat32",
    "tvm_fusionx.MultiplyBrains",
    "tvm_fusionx.MultiplyHalves",
]

x = var("x", 8, 16)


def _layer_norm(value: relay.Expr) -> relay.Expr:
    centred = value - relay.mean(value, axis=-1, keepdims=True)
    variance = relay.mean(centred * centred, axis=-1, keepdims=True)
    return centred / relay.sqrt(variance + relay.const(1e-5)) * const(16, seed=8) + const(
        16, seed=9
    )


def attention() -> tvm.IRModule:
    """Return one layer of two heads: query, key, value, scores, output, residual, norm."""
    heads = []
    for seed in range(3):
        projected = relay.nn.dense(x, const(16, 16, seed=seed)) + const(16, seed=4 + seed)
        heads.append(relay.transpose(relay.reshape(projected, (8, 2, 8)), [1, 0, 2]))
    query, key, value = heads
    scores = relay.nn.softmax(relay.nn.batch_matmul(query, key) / relay.const(8.0**0.5))
    mixed = relay.nn.batch_matmul(scores, value, transpose_b=False)
    joined = relay.reshape(relay.transpose(mixed, [1, 0, 2]), (8, 16))
    return module(_layer_norm(relay.nn.dense(joined, const(16, 16, seed=7)) + x))


def network() -> tvm.IRModule:
    """Return two convolutions with norms and a residual, pooled and classified."""
    image = var("image", 1, 3, 16, 16)
    features: relay.Expr = image
    for seed, channels in enumerate((3, 8)):
        kernel = const(8, channels, 3, 3, seed=seed)
        rows = [relay.abs(const(8, seed=10 + 4 * seed + row)) for row in range(4)]
        convolved = relay.nn.conv2d(features, kernel, padding=(1, 1))
        normed = relay.nn.relu(relay.nn.batch_norm(convolved, *rows)[0])
        features = normed if seed == 0 else normed + features
    pooled = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(features))
    return module(relay.nn.softmax(relay.nn.dense(pooled, const(4, 8, seed=5))))


MODULES = {"attention": attention, "network": network}


@pytest.mark.slow
@pytest.mark.parametrize("fuse", [True, False], ids=["fused", "unfused"])
@pytest.mark.parametrize("name", MODULES)
def test_numbers_are_plain_tvms(name: str, fuse: bool) -> None:
    mod = MODULES[name]()
    inputs = inputs_of(mod)
    found = run_once(fx.build(mod, TARGET, fuse=fuse), inputs)
    assert_close(found, run_plain(mod, inputs), REASSOCIATING)


@pytest.mark.parametrize("name", MODULES)
def test_every_operator_ends_up_in_one_block(name: str) -> None:
    fused = fx.pipeline(TARGET)(MODULES[name]())
    inside = Counter(op for block in blocks_of(fused) for op in operator_names(block.body))
    assert inside == Counter(operator_names(fused["main"]))
    names = [str(block.attrs["fusionx.block"]) for block in blocks_of(fused)]
    assert len(set(names)) == len(names)


def test_without_fusion_every_block_has_one_operator() -> None:
    fused = fx.pipeline(TARGET, fuse=False)(attention())
    assert {len(operator_names(block.body)) for block in blocks_of(fused)} == {1}


@pytest.mark.slow
def test_fusion_leaves_fewer_kernels() -> None:
    counts = [
        len(
            KernelGraph.from_json(fx.build(attention(), TARGET, fuse=fuse).get_graph_json()).kernels
        )
        for fuse in (True, False)
    ]
    assert counts[0] < counts[1]


def test_the_module_given_is_not_changed() -> None:
    mod = attention()
    text = mod.astext(show_meta_data=False)
    fx.build(mod, TARGET)
    assert mod.astext(show_meta_data=False) == text


def test_denormals_are_zero_in_constants_and_kernels_unless_they_are_kept() -> None:
    worn = relay.const(np.full((4, 8), 1e-39, "float32"))
    mod = module(relay.nn.relu(var("x", 4, 8) * relay.const(np.float32(1e-3)) + worn))
    inputs = {"x": np.full((4, 8), 1e-36, "float32")}
    plain = run_plain(mod, inputs)[0]
    assert plain.min() > 0
    (flushed,) = run_once(fx.build(mod, TARGET), inputs)
    np.testing.assert_array_equal(flushed, 0)
    (kept,) = run_once(fx.build(mod, TARGET, denormals="keep"), inputs)
    np.testing.assert_allclose(kept, plain, rtol=0, atol=2e-45)
    with pytest.raises(ValueError, match="denormals: expected 'flush' or 'keep'; found 'zero'"):
        fx.build(mod, TARGET, denormals="zero")  # type: ignore[arg-type]


def _worn_weights() -> tvm.IRModule:
    """Return a layer of whose weights six of ten are denormal, as training leaves them."""
    draw = np.random.default_rng(4)
    kernel = draw.standard_normal((24, 32, 1, 1))
    worn = draw.random(kernel.shape) < 0.6
    kernel[worn] = draw.standard_normal(int(worn.sum())) * 4e-39
    layer = relay.nn.conv2d(var("x", 1, 32, 6, 6), relay.const(kernel.astype("float32")))
    return module(relay.nn.relu(layer))


def _fading() -> tvm.IRModule:
    """Return layers that scale what they read down until it is denormal, and add it to the rest."""
    x = var("x", 1, 32, 6, 6)
    small = x
    for seed in range(3):
        kernel = relay.const(const(32, 32, 1, 1, seed=seed).data.numpy() * np.float32(1e-14))
        small = relay.nn.relu(relay.nn.conv2d(small, kernel))
    return module(small + x, small)


@pytest.mark.parametrize("make", [_worn_weights, _fading])
def test_denormals_make_no_difference_to_what_is_normal(make: Callable[[], tvm.IRModule]) -> None:
    mod = make()
    inputs = inputs_of(mod)
    first, *rest = run_plain(mod, inputs)
    for denormals in ("flush", "keep"):
        found = run_once(fx.build(mod, TARGET, denormals=denormals), inputs)  # type: ignore[arg-type]
        assert_close(found[:1], [first], REASSOCIATING)
        for each, expected in zip(found[1:], rest, strict=True):
            assert 0 < expected.max() < np.finfo("float32").tiny
            assert (each.max() == 0) == (denormals == "flush")


def test_the_pipeline_is_passes_in_a_sequential() -> None:
    sequence = fx.pipeline(TARGET)
    assert isinstance(sequence, tvm.transform.Sequential)
    assert [str(step.info.name) for step in sequence.passes] == PASSES


def test_passes_of_the_users_stand_where_they_say_and_phases_can_be_left_out() -> None:
    mine, last = relay.transform.SimplifyExpr(), relay.transform.DefuseOps()
    sequence = fx.pipeline(TARGET, before={"fuse": mine}, after={"fuse": [last, mine]})
    names = [str(step.info.name) for step in sequence.passes]
    place = names.index("tvm_fusionx.FuseByMapping")
    assert names[place - 1 : place + 3 : 2] == ["SimplifyExpr", "DefuseOps"]
    assert [name for name in names if name in PASSES] == PASSES
    left = [str(step.info.name) for step in fx.pipeline(TARGET, without=["layout"]).passes]
    assert left == [name for name in PASSES if "Pack" not in name and "Reuse" not in name]
    with pytest.raises(PhaseError, match="one of outline, quantized, rewrite"):
        fx.pipeline(TARGET, without=["colour"])


def test_the_passes_work_in_a_sequential_of_the_users() -> None:
    mod = attention()
    sequence = tvm.transform.Sequential(
        [
            relay.transform.InferType(),
            fx.passes.RewriteGraph(),
            fx.passes.FuseByMapping(TARGET),
        ]
    )
    with fx.lowering(TARGET):
        library = relay.build(sequence(mod), resolve_target(TARGET))
    inputs = inputs_of(mod)
    assert_close(run_once(library, inputs), run_plain(mod, inputs), REASSOCIATING)


@tvm.instrument.pass_instrument
class _Seen:
    """Notes the names of the passes that run."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def run_after_pass(self, mod: tvm.IRModule, info: tvm.transform.PassInfo) -> None:
        self.names.append(str(info.name))


def test_instruments_see_the_passes_in_order() -> None:
    seen = _Seen()
    with tvm.transform.PassContext(instruments=[seen]):
        fx.pipeline(TARGET)(attention())
    assert [name for name in seen.names if name in PASSES] == PASSES


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_can_be_disabled_by_name(name: str) -> None:
    seen = _Seen()
    with tvm.transform.PassContext(instruments=[seen], disabled_pass=[name]):
        fx.pipeline(TARGET)(attention())
    assert [found for found in seen.names if found in PASSES] == [
        other for other in PASSES if other != name
    ]


@pytest.mark.slow
def test_bounds_that_tvm_cannot_tell_do_not_stop_a_build() -> None:
    source = var("source", 1, 3)
    padded = relay.nn.pad(source, ((0, 1), (1, 1)))
    joined = relay.concatenate([padded, relay.sigmoid(padded)], axis=0)
    part = relay.split(joined, 2, axis=0)[0]
    lowest = relay.minimum(part, relay.tanh(relay.mean(part, axis=0, keepdims=True)))
    mod = module(source + const(3), lowest, part)
    inputs = inputs_of(mod)
    assert_close(run_once(fx.build(mod, TARGET), inputs), run_plain(mod, inputs), REASSOCIATING)


# ---- parameters -------------------------------------------------------------------------------


def _unbound() -> tuple[tvm.IRModule, dict[str, np.ndarray]]:
    weights = {
        "w": const(8, 16, seed=1).data.numpy(),
        "b": const(8, seed=2).data.numpy(),
    }
    mod = module(relay.nn.relu(relay.nn.dense(x, var("w", 8, 16)) + var("b", 8)))
    return mod, weights


def test_parameters_that_are_not_bound_yet_are_given_to_the_build() -> None:
    mod, weights = _unbound()
    inputs = {"x": inputs_of(mod)["x"]}
    found = run_once(fx.build(mod, TARGET, params=weights), inputs)
    assert_close(found, run_plain(mod, {**inputs, **weights}), REASSOCIATING)


@pytest.mark.slow
def test_parameters_that_nobody_gives_stay_inputs() -> None:
    mod, weights = _unbound()
    inputs = {"x": inputs_of(mod)["x"], **weights}
    found = run_once(fx.build(mod, TARGET), inputs)
    assert_close(found, run_plain(mod, inputs), REASSOCIATING)


# ---- what is not ours -------------------------------------------------------------------------


def test_a_module_with_control_flow_stays_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    condition = var("condition", dtype="bool")
    mod = module(relay.If(condition, relay.exp(x), x), params=[condition, x])
    found = fx.pipeline(TARGET)(mod)
    assert operator_names(found["main"]) == ["exp"]
    assert blocks_of(found) == []
    assert "main stays as it is: If is not a data-flow expression" in caplog.text


def test_blocks_that_a_user_made_are_left_alone() -> None:
    p = var("p", 8, 16)
    mine = relay.Function([p], relay.tanh(relay.exp(p)))
    mine = mine.with_attr("Primitive", tvm.tir.IntImm("int32", 1))
    mod = module(relay.nn.relu(relay.Call(mine, [relay.abs(x)])))
    fused = fx.pipeline(TARGET)(mod)
    contents = [operator_names(block.body) for block in blocks_of(fused)]
    assert contents == [["abs"], ["exp", "tanh"], ["nn.relu"]]
    assert "fusionx.block" not in blocks_of(fused)[1].attrs


def test_functions_for_other_compilers_are_left_alone() -> None:
    p = var("p", 8, 16)
    theirs = relay.Function([p], relay.tanh(relay.exp(p)))
    theirs = theirs.with_attr("Compiler", "dnnl").with_attr("global_symbol", "dnnl_0")
    fused = fx.pipeline(TARGET)(module(relay.nn.relu(relay.Call(theirs, [relay.abs(x)]))))
    kept = [block for block in blocks_of(fused) if "Compiler" in block.attrs]
    assert [operator_names(block.body) for block in kept] == [["exp", "tanh"]]


def test_rules_may_be_left_out() -> None:
    mod = attention()
    roots = []
    for rules in (ALL_RULES, ()):
        blocks = blocks_of(fx.pipeline(TARGET, rules=rules)(mod))
        roots.append({"sqrt", "rsqrt"} & {name for b in blocks for name in operator_names(b.body)})
    assert roots == [{"rsqrt"}, {"sqrt"}]


def test_an_unknown_target_is_a_typed_error() -> None:
    with pytest.raises(TargetError, match="toaster"):
        fx.pipeline("toaster")


@pytest.mark.slow
def test_a_plan_may_be_optimal_or_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_FUSIONX_DATA", str(tmp_path / "data"))
    costs = costs_path(setting_of(TARGET))
    costs.parent.mkdir(parents=True)
    DeviceCosts(launch_us=3.0).save(costs)
    database = tmp_path / "profiles.sqlite"
    mod = attention()
    inputs = inputs_of(mod)
    library = fx.build(mod, TARGET, planner="optimal", measure=database)
    assert_close(run_once(library, inputs), run_plain(mod, inputs), REASSOCIATING)
    options = planner_options(TARGET, planner="optimal", measure=True)
    assert options.costs == DeviceCosts(launch_us=3.0)
    assert options.measure is not None
    # What asks the templates is another function each time.
    assert replace(planner_options(TARGET), why_unserved=None) == PlannerOptions()


def test_only_this_machine_is_measured() -> None:
    with pytest.raises(TargetError, match="this machine"):
        planner_options("llvm -mtriple=aarch64-linux-gnu", measure=True)


@pytest.mark.parametrize("entry", [fx.build, fx.explain])
@pytest.mark.parametrize("mod", ["model.onnx", (tvm.IRModule(), {})])
def test_what_is_no_module_is_refused_by_name(entry: Callable[..., Any], mod: Any) -> None:
    with pytest.raises(ModelError, match=f"Relay module; found {type(mod).__name__}.*from_onnx"):
        entry(mod, TARGET)


def _dynamic_input() -> tvm.IRModule:
    value = relay.var("rows", shape=(relay.Any(), 16))
    return tvm.IRModule.from_expr(relay.Function([value], relay.nn.relu(value)))


def _dynamic_result() -> tvm.IRModule:
    value = relay.var("x", shape=(16,))
    places = relay.argwhere(value > relay.const(0.0))
    return tvm.IRModule.from_expr(relay.Function([value], places))


@pytest.mark.parametrize(
    ("mod", "said"),
    [
        (_dynamic_input(), r"input 'rows': .*\(\?, 16\).*shape="),
        (_dynamic_result(), r"operator argwhere: .*does not depend on the data"),
    ],
    ids=["input", "result"],
)
def test_an_unknown_extent_is_one_typed_error(mod: tvm.IRModule, said: str) -> None:
    inputs = {"rows": np.ones((4, 16), "float32"), "x": np.ones(16, "float32")}
    name = mod["main"].params[0].name_hint
    with pytest.raises(ShapeError, match=said):
        fx.build(mod, TARGET, executor="graph")
    if name == "rows":
        # What the data decides is left to the virtual machine, unless it is an input.
        with pytest.raises(ShapeError, match=said):
            fx.verify(mod, {}, {name: inputs[name]}, TARGET)
