from __future__ import annotations

import pytest
from tvm import relay

from tests.fusion.planned import planned
from tests.relay_modules import const, var
from tvm_fusionx.errors import InputError
from tvm_fusionx.report.explain.explain import report_plan
from tvm_fusionx.report.explain.explanation import Report

x = var("x", 64, 512)


def _named(op: str, name: str, *operands: relay.Expr) -> relay.Expr:
    span = relay.Span(relay.SourceName(name), 0, 0, 0, 0)
    call = getattr(relay.nn if op == "dense" else relay, op)(*operands)
    return relay.Call(call.op, call.args, call.attrs, None, span)


def _report() -> Report:
    """Return two products with activations, one node that became two calls, and one aside."""
    first = _named("tanh", "act1", _named("dense", "fc1", x, const(512, 512)))
    second = _named("exp", "norm", _named("dense", "fc2", first, const(512, 512)))
    second = _named("negative", "norm", second)
    return report_plan(planned(second, _named("sin", "beside", var("z", 4))), "llvm")


def test_two_nodes_of_one_block() -> None:
    answer = _report().between("fc1", "act1")
    assert answer.is_one_block
    assert answer.separation is None
    assert str(answer) == f"fc1 and act1 are both in block {answer.blocks[0]}."


def test_the_first_reason_on_the_way_is_told() -> None:
    answer = _report().between("fc1", "norm")
    assert not answer.is_one_block
    edge = answer.separation
    assert edge is not None
    assert (edge.producer, edge.consumer, edge.reason) == ("act1", "fc2", "second-contraction")
    assert "First apart at act1 -> fc2: second-contraction" in str(answer)
    assert edge.detail in str(answer)


def test_the_order_of_the_names_does_not_matter() -> None:
    forward, backward = _report().between("fc1", "fc2"), _report().between("fc2", "fc1")
    assert forward == backward
    assert forward.first == "fc1"


def test_names_of_blocks_and_of_single_calls_are_names_too() -> None:
    report = _report()
    assert report.between(report.blocks[0].name, "act1").is_one_block
    assert report.between("norm#2", "norm").is_one_block


def test_nodes_without_data_between_them() -> None:
    answer = _report().between("fc1", "beside")
    assert not answer.is_one_block
    assert answer.path == ()
    assert "No data flows" in str(answer)


def test_an_unknown_name_is_told_with_names_that_are_close() -> None:
    with pytest.raises(InputError, match=r"fc9.*close are .*fc1"):
        _report().between("fc9", "fc1")
    with pytest.raises(InputError, match="no such name"):
        _report().between("fc1", "quite another")
