from __future__ import annotations

import tvm
from tvm import relay

import tvm_fusionx as fx
from tests.data_models import branching, suppressing
from tests.relay_modules import module, var
from tvm_fusionx.build.known_parts import known_parts


def test_what_lies_before_the_data_decides_is_a_part() -> None:
    parts = known_parts(fx.from_onnx(suppressing())[0])
    assert "main_static_0" in parts
    assert all(
        list(map(str, part.get_global_vars())) == ['I.GlobalVar("main")'] for part in parts.values()
    )


def test_branches_are_parts_too() -> None:
    parts = known_parts(fx.from_onnx(branching())[0])
    assert {"fusionx_choose_then", "fusionx_choose_else"} <= set(parts)


def test_a_static_module_is_one_part() -> None:
    mod = module(relay.nn.relu(var("x", 2, 3)))
    parts = known_parts(mod)
    assert list(parts) == ["main"]
    assert tvm.ir.structural_equal(parts["main"]["main"], mod["main"])


def test_parameters_of_one_name_get_others() -> None:
    one, two = relay.Var("x", relay.TensorType((4,))), relay.Var("x", relay.TensorType((4,)))
    kept = relay.argwhere(one + two)
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([one, two], kept)))
    (part,) = known_parts(mod).values()
    assert [param.name_hint for param in part["main"].params] == ["x", "x_"]
