"""Products that are reused in a module: numpy's numbers end to end, and what is left alone."""

from __future__ import annotations

import logging

import pytest
import tvm
from tvm import relay

import tvm_fusionx as fx
from tests.relay_modules import REASSOCIATING, assert_close, operator_names
from tests.reuse_models import CHOICES, expected, images, network
from tvm_fusionx.errors import ModelError
from tvm_fusionx.expressions.similar_products import REUSE
from tvm_fusionx.passes import ReuseSimilar
from tvm_fusionx.reuse.choice import ATTRIBUTE
from tvm_fusionx.schedules.lowering_log import TOPI_TEMPLATE

TARGET = "llvm -mcpu=native"


def test_a_file_with_choices_is_built_as_they_tell() -> None:
    mod, params = fx.from_onnx(network(CHOICES))
    target = fx.schedules.resolve_target(TARGET)
    with fx.lowering(target) as log:
        lib = relay.build(fx.pipeline(target)(mod), target, params=params)
    templates = [entry.template for entry in log.entries]
    assert templates.count("reuse") == len(CHOICES)
    assert TOPI_TEMPLATE not in templates
    executor = tvm.contrib.graph_executor.GraphModule(lib["default"](tvm.cpu()))
    x = images()
    executor.set_input("x", x)
    executor.run()
    assert_close([executor.get_output(0).numpy()], [expected(x)], REASSOCIATING)


def test_a_module_without_choices_is_left_alone() -> None:
    mod, _ = fx.from_onnx(network())
    tvm.ir.assert_structural_equal(ReuseSimilar(TARGET)(mod), mod)


def test_another_target_keeps_what_it_has() -> None:
    mod, _ = fx.from_onnx(network(CHOICES))
    tvm.ir.assert_structural_equal(ReuseSimilar("opencl")(mod), mod)


def test_choices_may_be_given(caplog: pytest.LogCaptureFixture) -> None:
    mod, _ = fx.from_onnx(network())
    mod = fx.passes.RewriteGraph()(mod)
    choices = {"conv1": CHOICES["conv2"], "conv2": CHOICES["conv2"], "gone": CHOICES["fc"]}
    with caplog.at_level(logging.WARNING):
        found = ReuseSimilar(TARGET, choices)(mod)
    assert operator_names(found["main"]).count(REUSE) == 1
    assert "conv1 computes all of its products: it was chosen for another layer" in caplog.text
    assert "gone computes all of its products: there is no such layer" in caplog.text


def test_a_damaged_property_is_refused() -> None:
    mod, _ = fx.from_onnx(network())
    with pytest.raises(ModelError, match=r"fusionx\.reuse"):
        ReuseSimilar(TARGET)(mod.with_attr(ATTRIBUTE, "{"))


def test_the_importer_keeps_the_property_and_no_other() -> None:
    model = network(CHOICES)
    model.metadata_props.add(key="author", value="somebody")
    mod, _ = fx.from_onnx(model)
    assert list(mod.attrs.keys()) == [ATTRIBUTE]
