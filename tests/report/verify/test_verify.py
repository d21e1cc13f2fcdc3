from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_fusionx as fx
from tests.random_graphs import generate
from tests.relay_modules import const, module, var
from tests.sampled import few_fast, few_fast_rows
from tests.schedules.winograd_convolution import filtered
from tests.tiny_models import FEATURES, ROWS, TARGET, lookup, perceptron
from tvm_fusionx.errors import InputError, OutputFileError, TargetError, WrongResultError
from tvm_fusionx.report.verify.reference import run_onnxruntime
from tvm_fusionx.report.verify.verdict import VerifyReport

INPUTS = {"x": np.random.default_rng(3).standard_normal((ROWS, FEATURES)).astype("float32")}

# The package's attribute of this name is the function.
BY_RECORD = sys.modules["tvm_fusionx.blocks.by_record"]


@pytest.fixture(scope="module")
def perceptron_module() -> Any:
    return fx.from_onnx(perceptron())


@pytest.fixture(scope="module")
def right_report(perceptron_module: Any) -> VerifyReport:
    return fx.verify(*perceptron_module, INPUTS, TARGET)


@pytest.fixture
def exponential_off_by_a_percent() -> Iterator[None]:
    """Plant a wrong schedule: every block's exponentials are taken of 1.01 times their argument."""

    def spoil(call: Any) -> Any:
        if call.op.same_as(tvm.ir.Op.get("tir.exp")):
            return tvm.tir.exp(call.args[0] * tvm.tir.const(1.01, call.dtype))
        return None

    def wrong(func: Any, *args: Any, **kwargs: Any) -> Any:
        body = tvm.tir.stmt_functor.ir_transform(func.body, None, spoil, ["tir.Call"])
        return right(func.with_body(body), *args, **kwargs)

    right = BY_RECORD.schedule
    BY_RECORD.schedule = wrong
    yield
    BY_RECORD.schedule = right


def test_a_right_model_is_ok_against_onnx_runtime_and_tvm(
    perceptron_module: Any, right_report: VerifyReport
) -> None:
    told: list[str] = []
    onnx_report = fx.verify(*perceptron_module, INPUTS, TARGET, perceptron(), on_stage=told.append)
    count = len(onnx_report.blocks)
    running = [f"running block {step} of {count}" for step in range(1, count + 1)]
    assert [stage for stage in told if stage.startswith("running block ")] == running
    assert any(stage.startswith("scheduling kernel ") for stage in told)
    for report in (right_report, onnx_report):
        assert report.ok, report.text()
        assert report.first_wrong is None
        assert report.worst_end_to_end.max_rel <= 1e-5
        assert report.worst_end_to_end.cosine == pytest.approx(1.0)
        report.raise_if_wrong()


def test_every_block_has_a_verdict_with_the_models_node_names(right_report: VerifyReport) -> None:
    operators = [name for block in right_report.blocks for name in block.operators]
    assert set(operators) == {"fc1", "act", "fc2", "prob"}
    assert len({block.name for block in right_report.blocks}) == len(right_report.blocks)


@pytest.mark.slow
def test_integer_inputs_and_several_outputs_are_verified() -> None:
    mod, params = fx.from_onnx(lookup())
    inputs = {"ids": np.array([4, 0, 2]), "scale": np.full((3, 6), 2, "float32")}
    report = fx.verify(mod, params, inputs, TARGET, reference=lookup())
    assert report.ok, report.text()
    assert len(report.end_to_end) == 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", [8, 35, 1088], ids=["scalar", "quantised", "only scalars"])
def test_random_graphs_with_scalars_and_quantised_operators_are_verified(seed: int) -> None:
    drawn = generate(seed)
    mod, params = fx.from_onnx(drawn.model)
    report = fx.verify(mod, params, drawn.inputs, TARGET, bisect=True)
    assert report.ok, report.text()


# What is rounded right may be either of two neighbours.
STEPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}


def _attention(dtype: str = "float32") -> tvm.IRModule:
    """Return attention with an additive mask, whose last columns float32's least number closes."""
    mask = np.zeros((1, 1, 24), "float32")
    mask[..., 16:] = np.finfo(np.float32).min if dtype == "float32" else np.finfo(np.float16).min
    x = var("x", 2, 24, 32, dtype=dtype)
    given = var("mask", 1, 1, 24, dtype=dtype)
    weights = [
        relay.const(const(32, 32, seed=seed).data.numpy().astype(dtype) / 8) for seed in range(3)
    ]
    flat = relay.reshape(x, (48, 32))
    q, k, v = (
        relay.reshape(relay.nn.dense(flat, each, out_dtype=dtype), (2, 24, 32)) for each in weights
    )
    scores = relay.nn.batch_matmul(q, k, out_dtype=dtype) * relay.const(32**-0.5, dtype)
    # As exporters write it: (1 - given) times the least number, here a constant besides.
    closed = (relay.const(1.0, dtype) - given) * relay.const(mask.min(), dtype)
    weighed = relay.nn.softmax(scores + relay.const(mask.astype(dtype)) + closed)
    made = relay.nn.batch_matmul(weighed, v, transpose_b=False, out_dtype=dtype)
    return module(made, params=[x, given])


def _attention_inputs(dtype: str) -> dict[str, np.ndarray]:
    given = np.ones((1, 1, 24), dtype)
    given[..., 12:] = 0
    draw = np.random.default_rng(5).standard_normal((2, 24, 32))
    return {"x": draw.astype(dtype), "mask": given}


def _attention_by_numpy(inputs: dict[str, np.ndarray]) -> np.ndarray:
    """Return attention over the columns that neither mask closes."""
    is_open = inputs["mask"][0, 0] * (np.arange(24) < 16)
    q, k, v = (inputs["x"] @ const(32, 32, seed=seed).data.numpy().T / 8 for seed in range(3))
    powers = np.exp(q @ k.transpose(0, 2, 1) * 32**-0.5) * is_open
    weighed: np.ndarray = powers / powers.sum(axis=2, keepdims=True) @ v
    return weighed


def test_sums_of_halves_are_not_held_to_a_step() -> None:
    with pytest.raises(TargetError, match=r"precision: expected float16 or bfloat16.*error_bound"):
        fx.verify(_attention(), {}, {}, TARGET, precision="float16-sums")


@pytest.mark.parametrize("precision", few_fast(["float16", "bfloat16"], 1))
def test_masks_of_float32s_least_number_stay_numbers(precision: str) -> None:
    inputs = _attention_inputs("float32")
    report = fx.verify(_attention(), {}, inputs, TARGET, precision=precision)
    assert report.ok, report.text()
    wanted = _attention_by_numpy(inputs)
    error = np.abs(report.outputs[0] - wanted).max()
    # Of scores, weights and values: each is rounded.
    assert error <= 3 * STEPS[precision] * np.abs(wanted).max()


def test_a_block_whose_results_are_beyond_a_half_is_named() -> None:
    x, weights = var("x", 4, 64), relay.const(np.full((8, 64), 64, "float32"))
    large = relay.nn.dense(x, weights)
    # Two readers, so that what is too large lies in memory.
    rows = relay.nn.softmax(relay.nn.dense(large, const(5, 8)) * relay.const(1e-6))
    mod = module(relay.tanh(large * relay.const(1e-5)), rows)
    inputs = {"x": np.full((4, 64), 40, "float32")}
    report = fx.verify(mod, {}, inputs, TARGET, precision="float16")
    assert not report.ok
    assert report.first_wrong is None
    assert report.first_saturated is not None
    assert report.first_saturated.saturated == 4 * 8
    text = rf"Block {report.first_saturated.name} .*beyond float16: 32 numbers.*\"bfloat16\""
    with pytest.raises(WrongResultError, match=text):
        report.raise_if_wrong()
    assert fx.verify(mod, {}, inputs, TARGET, precision="bfloat16").first_saturated is None


@pytest.mark.slow
def test_a_model_in_halves_is_held_to_the_same_in_float32() -> None:
    inputs = _attention_inputs("float16")
    report = fx.verify(_attention("float16"), {}, inputs, TARGET)
    assert report.ok, report.text()
    assert report.allowance.startswith("tensors in float16 are held to one step")
    assert {block.tolerance for block in report.blocks} == {STEPS["float16"]}


@pytest.mark.slow
@pytest.mark.usefixtures("exponential_off_by_a_percent")
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_wrong_kernel_of_halves_is_found(dtype: str, tmp_path: Path) -> None:
    report = fx.verify(
        _attention(dtype),
        {},
        _attention_inputs(dtype),
        TARGET,
        precision=None if dtype == "float16" else "float16",
        bisect=True,
        reproduction=tmp_path / "wrong",
    )
    assert not report.ok
    assert report.first_wrong is not None
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(tmp_path / "wrong" / "reproduce.py"), run_name="__main__")
    assert ended.value.code == 1


def test_float32_results_of_a_block_of_halves_are_held_to_float32() -> None:
    """A result in 16 bits gives those beside it in float32 no more room."""
    from tvm_fusionx.report.verify.verify import _BlockRun, _verdict

    x = np.ones(4, np.float32)
    node = SimpleNamespace(name="two", operators=())
    p = var("p", 4)
    function = module(relay.Tuple([relay.cast(p, "float16"), p]))["main"]
    off = [x.astype(np.float16), x * np.float32(1 + 1e-4)]
    right = [x.astype(np.float16), x]
    steps = [STEPS["float16"], 0.0]
    wrong = _verdict(_BlockRun(node, [x], off, right, steps), function, TARGET, 1e-5)
    assert not wrong.ok
    assert _verdict(_BlockRun(node, [x], right, right, steps), function, TARGET, 1e-5).ok
    near = [np.float16([1, 1, 1, 1 + 2.0**-10]), x]
    assert _verdict(_BlockRun(node, [x], near, right, steps), function, TARGET, 1e-5).ok


@pytest.mark.usefixtures("exponential_off_by_a_percent")
def test_bisection_names_the_planted_block_and_its_reproduction_shows_it(
    perceptron_module: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "wrong"
    report = fx.verify(
        *perceptron_module, INPUTS, TARGET, reference=perceptron(), bisect=True, reproduction=folder
    )
    assert not report.ok
    assert report.first_wrong is not None
    assert "prob" in report.first_wrong.operators
    assert [block.name for block in report.blocks if not block.ok] == [report.first_wrong.name]
    assert not report.end_to_end[0].is_within(report.tolerance)
    assert report.first_wrong.name in report.summary()
    with pytest.raises(WrongResultError, match=report.first_wrong.name):
        report.raise_if_wrong()

    assert report.reproduction == folder
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(folder / "reproduce.py"), run_name="__main__")
    assert ended.value.code == 1
    assert "WRONG" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.usefixtures("exponential_off_by_a_percent")
def test_a_reproduction_that_cannot_be_written_is_an_error(
    perceptron_module: Any, tmp_path: Path
) -> None:
    with pytest.raises(OutputFileError, match="missing"):
        fx.verify(
            *perceptron_module,
            INPUTS,
            TARGET,
            bisect=True,
            reproduction=tmp_path / "missing" / "folder",
        )


@pytest.mark.parametrize(
    ("change", "said"),
    few_fast_rows(
        [(lambda y: [2 * y], "before fusion"), (lambda y: [], "1 outputs instead of 0")], 1
    ),
    ids=["other numbers", "another number of outputs"],
)
def test_a_wrong_reference_is_not_blamed_on_a_block(
    perceptron_module: Any, right_report: VerifyReport, change: Any, said: str
) -> None:
    reference = change(right_report.outputs[0])
    report = fx.verify(*perceptron_module, INPUTS, TARGET, reference=reference)
    assert not report.ok
    assert report.first_wrong is None
    assert said in report.summary()


@pytest.mark.slow
def test_nan_is_counted_and_wrong_only_where_the_reference_has_none() -> None:
    module = fx.from_onnx(lookup())
    inputs = {"ids": np.array([4, 0, 2]), "scale": np.ones((3, 6), "float32")}
    clean = run_onnxruntime(lookup().SerializeToString(), inputs)
    inputs["scale"][0, 0] = np.nan
    report = fx.verify(*module, inputs, TARGET, reference=lookup())
    assert report.ok, report.text()
    assert [difference.nans for difference in report.end_to_end] == [1, 1]
    assert not fx.verify(*module, inputs, TARGET, reference=clean).ok


@pytest.mark.parametrize(
    ("moves", "ok"), few_fast_rows([(0.0, False), (4e-4, False), (6e-4, True)], 1)
)
def test_an_output_is_held_to_what_the_model_knows_of_it(
    perceptron_module: Any,
    right_report: VerifyReport,
    monkeypatch: pytest.MonkeyPatch,
    moves: float,
    ok: bool,
) -> None:
    off = right_report.outputs[0] + np.float32(5e-4) * right_report.outputs[0].max()
    monkeypatch.setattr("tvm_fusionx.report.verify.verify.library_conditioning", lambda *_: moves)
    report = fx.verify(*perceptron_module, INPUTS, TARGET, reference=[off])
    assert report.ok is ok
    assert report.end_to_end_tolerance == max(report.tolerance, moves)
    assert f"move by {moves:.2g}" in report.summary()
    assert report.to_json()["allowance"] == report.allowance


@pytest.mark.slow
def test_a_well_conditioned_model_has_no_excuse(
    perceptron_module: Any, right_report: VerifyReport
) -> None:
    off = right_report.outputs[0] + np.float32(5e-5) * right_report.outputs[0].max()
    report = fx.verify(*perceptron_module, INPUTS, TARGET, reference=[off])
    assert not report.ok
    assert report.end_to_end_tolerance == report.tolerance
    assert right_report.allowance == ""


@pytest.mark.slow
@pytest.mark.parametrize(("distance", "ok"), [(5e-5, True), (5e-4, False)])
def test_winograds_convolutions_are_held_to_their_own_tolerance(
    monkeypatch: pytest.MonkeyPatch, distance: float, ok: bool
) -> None:
    mod = module(filtered((1, 16, 12, 12), 16, (1, 1, 1, 1)))
    inputs = {"x": np.random.default_rng(5).standard_normal((1, 2, 12, 12, 8)).astype("float32")}
    monkeypatch.setattr("tvm_fusionx.report.verify.verify.library_conditioning", lambda *_: 0.0)
    right = fx.verify(mod, None, inputs, TARGET)
    off = right.outputs[0] + np.float32(distance) * right.outputs[0].max()
    report = fx.verify(mod, None, inputs, TARGET, reference=[off])
    assert report.ok is ok
    assert report.end_to_end_tolerance == pytest.approx(1e-4)
    assert ("Winograd" in report.summary()) is ok


def test_a_wrong_input_is_refused_before_anything_is_built(perceptron_module: Any) -> None:
    with pytest.raises(InputError, match="'y'"):
        fx.verify(*perceptron_module, {"y": INPUTS["x"]}, TARGET)


def test_a_block_that_plain_tvm_computes_worse_is_judged_by_float64() -> None:
    # Beside one large probability TVM's sequential sum loses the two thousand small ones.
    x = relay.var("x", shape=(1, 2000))
    module = tvm.IRModule.from_expr(relay.Function([x], relay.nn.softmax(x)))
    logits = np.full((1, 2000), -17.0, np.float32)
    logits[0, 0] = 0
    exact = np.exp(logits.astype(np.float64))
    exact /= exact.sum()
    wanted = exact.astype(np.float32)
    report = fx.verify(module, {}, {"x": logits}, TARGET, reference=[wanted])
    assert report.ok, report.text()
    assert report.blocks[0].reference == "float64"
    assert report.blocks[0].difference.max_rel <= report.tolerance
