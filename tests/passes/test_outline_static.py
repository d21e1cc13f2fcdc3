from __future__ import annotations

import tvm
from tvm import relay

import tvm_fusionx as fx
from tests.data_models import branching, suppressing
from tests.relay_modules import module, var
from tvm_fusionx.ecg.block_calls import STEERS, post_order
from tvm_fusionx.passes import OutlineStatic
from tvm_fusionx.passes.outline_static import (
    decided_by_data,
    is_named_call,
    is_open_type,
    needs_run_time,
    outline,
    why_not_static,
)

x = var("x", 4, 8)


def _outlined(mod: tvm.IRModule) -> tvm.IRModule:
    return tvm.transform.Sequential([OutlineStatic()])(mod)


def _typed(body: relay.Expr, *params: relay.Var) -> tvm.IRModule:
    return relay.transform.InferType()(module(body, params=list(params)))


def _around_places() -> tvm.IRModule:
    """Return exp, then places of what is positive, then a sum of these, and one more exp."""
    before = relay.exp(x)
    places = relay.argwhere(relay.greater(before, relay.const(1.0)))
    after = relay.exp(relay.cast(relay.sum(places, axis=[0]), "float32"))
    return _typed(relay.Tuple([before, places, after]), x)


def _operators(func: relay.Function) -> list[str]:
    return [
        expr.op.name
        for expr in post_order(func.body)
        if isinstance(expr, relay.Call) and isinstance(expr.op, tvm.ir.Op)
    ]


def test_a_static_module_is_as_it_was() -> None:
    mod = _typed(relay.exp(x), x)
    assert not needs_run_time(mod)
    assert why_not_static(mod["main"]) is None
    assert tvm.ir.structural_equal(_outlined(mod), mod)


def test_what_is_static_lies_in_functions_before_and_behind() -> None:
    mod = _around_places()
    assert needs_run_time(mod)
    found = _outlined(mod)
    contents = {name.name_hint: _operators(func) for name, func in found.functions.items()}
    assert contents["main_static_0"] == ["exp", "greater"]
    assert contents["main_static_1"] == ["cast", "exp"]
    assert contents["main"] == []
    assert STEERS in found["main"].attrs
    assert str(found["main"].ret_type) == str(mod["main"].ret_type)


def test_a_second_run_changes_nothing() -> None:
    once = _outlined(_around_places())
    assert tvm.ir.structural_equal(_outlined(once), once)


def test_a_stage_has_what_the_data_decides_before_it() -> None:
    func = _around_places()["main"]
    outlined, made = outline("main", func)
    assert [name.name_hint for name in made] == ["main_static_0", "main_static_1"]
    assert len(outlined.params) == 1


def test_fields_of_tuples_are_given_one_by_one() -> None:
    left, right = relay.split(x, 2, axis=1)
    places = relay.argwhere(relay.greater(left, relay.const(0.0)))
    joined = relay.concatenate([places, relay.argwhere(relay.less(right, relay.const(0.0)))], 0)
    found = _outlined(_typed(joined, x))
    (static,) = [f for name, f in found.functions.items() if name.name_hint != "main"]
    assert _operators(static) == ["split", "greater", "less"]


def test_a_number_that_an_open_operator_takes_becomes_a_vector() -> None:
    places = relay.cast(relay.argwhere(relay.greater(x, relay.const(0.0))), "float32")
    found = _outlined(_typed(places * relay.mean(x), x))
    contents = {name.name_hint: _operators(func) for name, func in found.functions.items()}
    assert contents["main_static_0"][-1] == "reshape"


def test_what_the_data_decides_first_is_named_with_its_node() -> None:
    mod, _ = fx.from_onnx(branching())
    found = decided_by_data(mod)
    assert found is not None
    assert found[:2] == ("If or Loop", "choose")
    mod, _ = fx.from_onnx(suppressing())
    found = decided_by_data(mod)
    assert found is not None
    assert found[1] == "nms"
    assert decided_by_data(_typed(relay.exp(x), x)) is None


def test_calls_of_another_compilers_functions_need_no_run_time() -> None:
    p = var("p", 4, 8)
    theirs = relay.GlobalVar("theirs")
    mod = tvm.IRModule(
        {
            theirs: relay.Function([p], relay.exp(p), relay.TensorType((4, 8))).with_attr(
                "Compiler", "c"
            )
        }
    )
    mod["main"] = relay.Function([x], theirs(x))
    typed = relay.transform.InferType()(mod)
    assert not needs_run_time(typed)
    assert is_named_call(typed["main"].body)


def test_types_are_open_where_an_extent_is_unknown() -> None:
    known, unknown = relay.TensorType([2]), relay.TensorType([relay.Any()])
    assert not is_open_type(known)
    assert is_open_type(unknown)
    assert is_open_type(relay.TupleType([known, unknown]))
