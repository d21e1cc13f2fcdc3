from __future__ import annotations

import pytest
from onnx import helper

from tests.frontend.small_models import model, value
from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend.converters import CONVERTERS
from tvm_fusionx.frontend.support import (
    TVM_CONVERTERS,
    check_operators,
    how_translated,
    qualified_name,
)


def test_ours_come_first_then_definitions_then_tvm() -> None:
    assert how_translated(helper.make_node("LayerNormalization", [], []), 17) == "converter"
    assert how_translated(helper.make_node("CenterCropPad", [], []), 18) == "function"
    foreign = helper.make_node("BiasGelu", [], [], domain="com.microsoft")
    assert how_translated(foreign, 1) == "converter"
    assert how_translated(helper.make_node("ReverseSequence", [], []), 10) == "tvm"
    assert not set(CONVERTERS) & set(TVM_CONVERTERS)


def test_a_newer_definition_than_ours_is_not_guessed_at() -> None:
    node = helper.make_node("Conv", [], [])
    through = CONVERTERS["Conv"].through
    assert how_translated(node, through) == "converter"
    assert how_translated(node, through + 1) is None


def test_random_numbers_have_no_translation() -> None:
    assert how_translated(helper.make_node("Bernoulli", [], []), 15) is None


def test_names_bear_foreign_domains_only() -> None:
    assert qualified_name(helper.make_node("Relu", [], [], domain="ai.onnx")) == "Relu"
    assert qualified_name(helper.make_node("Gelu", [], [], domain="com.microsoft")) == (
        "com.microsoft.Gelu"
    )


def test_operators_on_constants_alone_need_no_translation() -> None:
    nodes = [
        helper.make_node("StringNormalizer", ["w"], ["places"]),
        helper.make_node("Shape", ["x"], ["dims"]),
        helper.make_node("StringNormalizer", ["dims"], ["more"]),
    ]
    given = model(nodes, [value("x", [2])], ["places", "more"], {"w": [0, 1]})
    check_operators(given, {"": 17}, ["x"])
    with pytest.raises(UnsupportedOperatorError, match="StringNormalizer-10"):
        check_operators(given, {"": 17}, ["x", "w"])


def test_subgraphs_are_searched() -> None:
    inner = helper.make_graph(
        [helper.make_node("StringNormalizer", ["x"], ["y"], name="deep")],
        "inner",
        [],
        [helper.make_empty_tensor_value_info("y")],
    )
    node = helper.make_node("If", ["flag"], ["z"], then_branch=inner, else_branch=inner)
    given = model([node], [value("x", [2]), value("flag", [])], ["z"])
    with pytest.raises(UnsupportedOperatorError, match="StringNormalizer-10 in deep"):
        check_operators(given, {"": 17}, ["x", "flag"])
