from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper
from tvm import relay

from tests.frontend.onnx_nodes import run
from tests.frontend.small_models import calls, dynamic_model, model, operator_names, value
from tvm_fusionx.errors import ModelError, ShapeError, UnsupportedOperatorError
from tvm_fusionx.frontend import from_onnx

STATIC = {"x": (2, 3, 5), "bias": (5,)}


def test_a_path_bytes_or_a_model_give_the_same_module(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(dynamic_model(), path)
    sources = [path, str(path), path.read_bytes(), dynamic_model()]
    modules = [from_onnx(source, shape=STATIC)[0] for source in sources]
    assert all(tvm.ir.structural_equal(modules[0], other) for other in modules[1:])


def test_the_model_given_is_left_as_it_was() -> None:
    given = dynamic_model()
    before = given.SerializeToString()
    from_onnx(given, shape=STATIC)
    assert given.SerializeToString() == before


def test_types_are_inferred_and_weights_are_constants() -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    mod, params = from_onnx(
        model([node], [value("x", [2, 3])], ["y"], {"w": np.ones((3, 4), "f4")})
    )
    assert params == {}
    assert [p.name_hint for p in mod["main"].params] == ["x"]
    assert mod["main"].checked_type.ret_type == relay.TensorType((2, 4), "float32")


def test_every_call_bears_the_name_of_its_node() -> None:
    mod, _ = from_onnx(dynamic_model(), shape=STATIC)
    assert [call.span.source_name.name for call in calls(mod)] == ["rectify", "shift"]


def test_names_are_made_unique_and_never_empty() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="same"),
        helper.make_node("Neg", ["a"], ["b"], name="same"),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    mod, _ = from_onnx(model(nodes, [value("x", [2])], ["y"]))
    names = [call.span.source_name.name for call in calls(mod)]
    assert names == ["same", "same_0", "Relu_0", "Relu_1"]


def test_an_operator_of_several_calls_names_all_of_them() -> None:
    node = helper.make_node("LayerNormalization", ["x", "scale"], ["y"], name="norm")
    mod, _ = from_onnx(model([node], [value("x", [2, 3]), value("scale", [3])], ["y"]))
    assert len(calls(mod)) > 4
    assert {call.span.source_name.name for call in calls(mod)} == {"norm"}


def test_a_shape_may_be_decided_by_a_given_constant() -> None:
    node = helper.make_node("Reshape", ["x", "to"], ["y"], name="view")
    given = model([node], [value("x", [2, 3]), value("to", [1], TensorProto.INT64)], ["y"])
    mod, _ = from_onnx(given, constants={"to": np.array([6], "int64")})
    assert [p.name_hint for p in mod["main"].params] == ["x"]
    assert mod["main"].body.checked_type.shape[0] == 6


def test_what_an_input_decides_is_left_to_the_run_time_where_that_serves(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = helper.make_node("Reshape", ["x", "to"], ["y"], name="view")
    inputs = [value("x", [2, 3]), value("to", [2], TensorProto.INT64)]
    mod, _ = from_onnx(model([node], inputs, ["y"]))
    assert "'view' is left to the run time. Bind 'to': --constants to=[N,N]" in caplog.text
    assert isinstance(mod["main"].body.checked_type.shape[0], tvm.tir.Any)
    # What follows needs the shape: the first sentence says how to give it.
    behind = helper.make_node("Resize", ["y", "", "", "sizes"], ["z"])
    sizes = {"sizes": np.array([4, 6], "int64")}
    with pytest.raises(UnsupportedOperatorError, match=r"view.*'to'.*while compiling.*constants="):
        from_onnx(model([node, behind], inputs, ["z"], sizes))


def test_outputs_may_be_inputs_constants_or_empty() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["dims"]),
        helper.make_node("Slice", ["x", "at", "at"], ["nothing"]),
        helper.make_node("Identity", ["x"], ["same"]),
    ]
    given = model(nodes, [value("x", [2, 3])], ["dims", "same", "nothing"], {"at": np.array([1])})
    x = np.arange(6, dtype="float32").reshape(2, 3)
    mod, _ = from_onnx(given)
    assert operator_names(mod) == []
    fields = mod["main"].body.fields
    assert fields[0].data.numpy().tolist() == [2, 3]
    assert fields[2].data.numpy().shape == (0, 3)
    assert run(model(nodes[:1], [value("x", [2, 3])], ["dims"]), {"x": x})[0].tolist() == [2, 3]


def test_open_dimensions_are_all_listed_with_the_flag() -> None:
    with pytest.raises(ShapeError) as caught:
        from_onnx(dynamic_model())
    message = str(caught.value)
    assert "input 'x' [batch,3,?]" in message
    assert "dimension 0 (batch), dimension 2 (?)" in message
    assert "input 'bias' [length]" in message
    assert '--input-shapes "x:[1,3,1] bias:[1]"' in message
    assert "shape={'x': (1, 3, 1,), 'bias': (1,)}" in message


def test_unsupported_operators_are_all_listed_with_their_nodes() -> None:
    nodes = [
        helper.make_node("Mystery", ["x"], ["a"], name="first", domain="com.example"),
        helper.make_node("StringNormalizer", ["a"], ["b"], name="second"),
        helper.make_node("StringNormalizer", ["b"], ["y"], name="third"),
    ]
    given = model(nodes, [value("x", [2])], ["y"], domains=["com.example"])
    with pytest.raises(UnsupportedOperatorError) as caught:
        from_onnx(given)
    message = str(caught.value)
    assert "com.example.Mystery in first" in message
    assert "StringNormalizer-10 in second, third" in message


def test_an_optional_without_content_is_no_output() -> None:
    node = helper.make_node("Optional", [], ["y"])
    with pytest.raises(ModelError, match="optional without content"):
        from_onnx(model([node], [value("x", [1])], ["y"]))


def test_imports_in_threads_do_not_disturb_each_other() -> None:
    results: dict[int, object] = {}

    def work(number: int) -> None:
        mod, _ = from_onnx(dynamic_model(), shape={"x": (number, 3, 5), "bias": (5,)})
        results[number] = mod["main"].body.checked_type.shape[0]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {n: int(size) for n, size in results.items()} == {1: 1, 2: 2, 3: 3, 4: 4}


@pytest.mark.slow
def test_a_chain_of_thousands_of_nodes_is_imported() -> None:
    count = 3000
    nodes = [helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(count)]
    mod, _ = from_onnx(model(nodes, [value("v0", [2])], [f"v{count}"]))
    assert len(calls(mod)) == count
