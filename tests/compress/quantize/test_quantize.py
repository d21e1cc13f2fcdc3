from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import tvm_fusionx as fx
from tests.compress.quantize.small_networks import (
    operators,
    pictures,
    residual,
    sentences,
    transformer_layer,
)
from tests.quantized_models import Layers, on_integers
from tvm_fusionx.compress.quantize.quantize import activation_type
from tvm_fusionx.errors import InputError, ModelError, RecordError, TargetError

VNNI, ARM = "llvm -mcpu=icelake-server", "llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+dotprod"


def test_a_model_that_stays_near_is_all_integers() -> None:
    result = fx.quantize(residual(), pictures())
    assert not result.kept
    assert 0 < result.drop < 0.01
    assert result.score == result.full_score
    assert result.trials == 1
    assert result.judged_by == "output divergence on the calibration set"
    assert "No metric was given: only how far outputs move was held." in result.notes
    assert {row.method for row in result.layers} - {"minmax", "percentile", "entropy", "mse"} <= {
        ""
    }


def test_the_guard_keeps_to_its_bound() -> None:
    full = fx.quantize(residual(), pictures(), guarded=False)
    bound = full.drop / 3
    result = fx.quantize(residual(), pictures(), max_drop=bound)
    assert result.drop <= bound < full.drop
    assert 0 < len(result.kept) < len(result.layers)
    assert all("kept by the guard" in row.reason for row in result.kept)
    assert result.curve[-1] == (len(result.layers), pytest.approx(full.drop))


def _agreement(wanted: list[int]) -> Any:
    def agreement(run: Any, validation: Any) -> float:
        return float(
            np.mean([run(x)[0].argmax() == y for x, y in zip(validation, wanted, strict=True)])
        )

    return agreement


def test_a_metric_is_held() -> None:
    from tvm_fusionx.compress.quantize.runner import runner

    inputs = pictures(6, 8)
    wanted = [int(runner(residual(), "onnxruntime")(x)[0].argmax()) for x in inputs]
    result = fx.quantize(
        residual(), pictures(), metric=_agreement(wanted), validation=inputs, max_drop=0.0
    )
    assert (result.judged_by, result.float_score) == ("agreement", 1)
    assert result.score == 1
    assert not any("No metric" in note for note in result.notes)


def test_a_run_that_was_stopped_goes_on(tmp_path: Path) -> None:
    journal = tmp_path / "trials.jsonl"
    options: dict[str, Any] = {"max_drop": 1e-7, "journal": journal, "method": "minmax"}
    fx.quantize(residual(), pictures(), **options)
    lines = journal.read_text().splitlines(keepends=True)
    assert len(lines) > 4
    journal.write_text("".join(lines[:3]))
    result = fx.quantize(residual(), pictures(), resume=True, **options)
    assert journal.read_text().splitlines(keepends=True) == lines
    assert result.trials == len(lines) - 1
    with pytest.raises(RecordError, match="another model"):
        fx.quantize(residual(), pictures(seed=5), resume=True, **options)


def test_a_budget_that_is_spent_is_told() -> None:
    result = fx.quantize(residual(), pictures(), max_drop=0, budget_seconds=0.0)
    assert len(result.kept) == len(result.layers)
    assert result.drop == 0
    assert "QuantizeLinear" not in operators(result.model)
    assert any("budget ended" in note for note in result.notes)


def test_a_layer_that_is_slower_in_integers_stays_float() -> None:
    taken = iter([1.0, 2.0, 1.0, 0.5])
    options: dict[str, Any] = {"measure": True, "timer": lambda model, target: next(taken)}
    result = fx.quantize(residual(), pictures(), smoothing=False, **options)
    (slow,) = result.kept
    assert slow.reason == "integers take 2.000 ms, floats 1.000"
    assert result.layers[1].int8_ms == 0.5
    assert "float ms" in result.text()


def _with_rare_outliers() -> tuple[Any, list[Any]]:
    """Return two products, and inputs in which one value of 32,768 decides most."""
    layers = Layers(1, 2048, 16)
    hidden = layers.add("Relu", layers.add("MatMul", "x", layers.weights(16, 16)))
    samples = pictures(4, 4, (1, 2048, 16))
    for sample in samples:
        sample["x"][0, 0, 3] = 400
    return layers.model(layers.add("MatMul", hidden, layers.weights(16, 8))), samples


def test_histograms_do_not_ruin_a_model_whose_outliers_matter() -> None:
    # As in onnxruntime#10571: F1 92 to 6 by percentile and entropy on a BERT.
    model, samples = _with_rare_outliers()
    plain = {"guarded": False, "smoothing": False}
    drops = {
        method: fx.quantize(model, samples, method=method, **plain).drop
        for method in ("minmax", "percentile", "entropy", "mse", "auto")
    }
    assert drops["percentile"] > 0.5
    assert drops["auto"] < drops["percentile"] / 8
    assert drops["auto"] <= 1.05 * min(drops.values())


def test_masks_and_outliers_of_a_transformer() -> None:
    model, samples = transformer_layer(), sentences()
    plain = fx.quantize(model, samples, guarded=False, smoothing=False)
    smooth = fx.quantize(model, samples, guarded=False)
    # The scores with their mask of -10,000 and the softmax are floats.
    softmax = next(n for n in smooth.model.graph.node if n.op_type == "Softmax")
    made = {name: node for node in smooth.model.graph.node for name in node.output}
    assert made[softmax.input[0]].op_type == "Add"
    assert smooth.drop < plain.drop / 2
    assert any("smoothed" in note for note in smooth.notes)


def test_products_of_activations_are_quantised_where_wanted() -> None:
    few = fx.quantize(transformer_layer(), sentences(), guarded=False)
    many = fx.quantize(transformer_layer(), sentences(), guarded=False, products=True)
    counts = [operators(each.model).count("QuantizeLinear") for each in (few, many)]
    assert counts[1] > counts[0]


def test_signs_are_what_the_instruction_wants() -> None:
    assert activation_type(VNNI) == "uint8"
    assert activation_type(ARM) == "int8"
    assert activation_type("llvm -mcpu=haswell") == "uint8"
    result = fx.quantize(residual(), pictures(), target=ARM, guarded=False)
    kinds = {t.data_type for t in result.model.graph.initializer if t.name.endswith(".zero")}
    assert kinds == {TensorProto.INT8}


def test_bad_input_is_told() -> None:
    with pytest.raises(InputError, match="method 'best'"):
        fx.quantize(residual(), pictures(), method="best")
    with pytest.raises(TargetError):
        fx.quantize(residual(), pictures(), target="abacus")
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "g", info[:1], info[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(ModelError, match="nothing to quantise"):
        fx.quantize(model, [np.ones(2, "float32")])


@pytest.mark.slow
def test_ours_and_onnx_runtime_agree_on_what_was_written() -> None:
    result = fx.quantize(residual(), pictures(), target="llvm -mcpu=native")
    mod, params = fx.from_onnx(result.model)
    text = on_integers("llvm -mcpu=native")(mod)["main"].astext(show_meta_data=False)
    assert text.count('out_dtype="int32"') == 4
    report = fx.verify(mod, params, pictures(1, 6)[0], "llvm -mcpu=native", reference=result.model)
    assert report.ok, report
