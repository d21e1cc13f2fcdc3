"""Who widens bytes: the window that multiplies integers, and not what stores them."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import relay

from tests.relay_modules import const, graph, var
from tvm_fusionx.ecg.fold import fold_constants
from tvm_fusionx.fusion import Reason
from tvm_fusionx.fusion.candidate import Candidate
from tvm_fusionx.fusion.growth import Growth, Rules
from tvm_fusionx.fusion.legality import Limits
from tvm_fusionx.fusion.partition import Partition
from tvm_fusionx.fusion.widened import are_widened, multiplies_integers, why_not_widened

SHAPE = (1, 4, 32, 32, 16)
SUM = "int32"


def _window(x: Any, sums: str = "int32", weights: Any = None) -> Any:
    weights = const(4, 1, 3, 3, 1, 16, dtype="int16") if weights is None else weights
    return relay.nn.contrib_depthwise_conv2d_nchwc(
        x, weights, (1, 1), (1, 1), (1, 1), 64, 64, (3, 3), "NCHW16c", "OIHW1i16o", "NCHW16c", sums
    )


def _stored() -> Any:
    return relay.cast(relay.nn.relu(var("x", *SHAPE)), "uint8")


def _wide(x: Any) -> Any:
    return relay.cast(x, "int16") - relay.const(7, "int16")


def _widened(expr: Any) -> bool:
    *before, window = graph(expr).calls()
    return are_widened(before, window)


def test_a_window_widens_bytes_as_it_reads_them() -> None:
    x = var("x", *SHAPE, dtype="uint8")
    assert _widened(_window(_wide(x)))
    assert not _widened(_window(var("x", *SHAPE, dtype="int16")))
    assert not _widened(_window(relay.nn.relu(_wide(x))))
    assert not _widened(_window(relay.cast(var("x", *SHAPE), "int16")))
    (node,) = graph(_window(var("x", *SHAPE, dtype="int16"), "int16")).calls()
    assert not multiplies_integers(node)


def _blocks(expr: Any) -> list[list[str]]:
    growth = Growth(graph(expr), Rules(Limits()))
    growth.grow()
    return [[node.op for node in unit.nodes] for unit in growth.partition.units]


def test_bytes_are_stored_and_widened_in_the_kernel_of_the_window() -> None:
    assert _blocks(_window(_wide(_stored()))) == [
        ["nn.relu", "cast"],
        ["cast", "subtract", "nn.contrib_depthwise_conv2d_NCHWc"],
    ]


def test_what_else_is_read_is_widened_with_what_made_it() -> None:
    assert len(_blocks(relay.cast(_stored(), "float32") * relay.const(2.0))) == 1


def _reshaped_and_moved(x: Any) -> Any:
    flat = relay.reshape(x, (1, 4, 1024, 16))
    return relay.reshape(relay.reverse(flat, axis=1), SHAPE)


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (lambda x: _window(_wide(x)), Reason.RECOMPUTED),
        (lambda x: relay.nn.relu(_wide(x)), None),
        (
            lambda x: _wide(x) + relay.cast(relay.transpose(x, (0, 1, 3, 2, 4)), "int16"),
            Reason.TOO_MANY_OUTPUTS,
        ),
        # Another shape of the same memory.
        (lambda x: _wide(x) + relay.cast(_reshaped_and_moved(x), "int16"), Reason.TOO_MANY_OUTPUTS),
    ],
)
def test_reasons(read: Any, reason: Reason | None) -> None:
    partition = Partition(graph(read(_stored())))
    _, stored, reader, *_ = partition.units
    assert stored.nodes[0][0].dtype == "uint8"
    refusal = why_not_widened(Candidate(partition, stored, reader))
    assert (refusal.reason if refusal else None) is reason


def _branch(x: Any, seed: int) -> Any:
    """Return a product of integers and its quantization."""
    weights = const(4, 4, 1, 1, 4, 16, 4, dtype="int8") + relay.const(seed, "int8")
    sums = relay.nn.contrib_conv2d_nchwc(
        x, weights, (1, 1), (0, 0), (1, 1), 1, 64, (1, 1), "NCHW16c", "OIHW4i16o4i", "NCHW16c", SUM
    )
    rounded = relay.round(relay.cast(sums, "float32") * relay.const(0.5))
    return relay.cast(relay.clip(rounded, 0, 255), "uint8")


def _added(left: Any, right: Any) -> Any:
    floats = [relay.cast(each, "float32") * relay.const(0.25) for each in (left, right)]
    return relay.cast(relay.clip(floats[0] + floats[1], 0, 255), "uint8")


def test_of_two_quantized_branches_the_earlier_is_stored_as_bytes() -> None:
    x = var("x", *SHAPE, dtype="uint8")
    found = graph(_added(_branch(x, 1), _branch(x, 2)))
    fold_constants(found)
    growth = Growth(found, Rules(Limits()))
    growth.grow()
    stored = [unit.nodes[-1].outputs[0].dtype for unit in growth.partition.units]
    assert stored == ["uint8", "uint8"]
    assert [len(unit.nodes) for unit in growth.partition.units] == [6, 13]


def _dense(x: Any, columns: int, seed: int) -> Any:
    """Return a product of integers whose padding is cut off, as an image, and its quantization."""
    weights = const(16, 4, 16, 4, dtype="int8") + relay.const(seed, "int8")
    sums = relay.nn.contrib_dense_pack(x, weights, "NC16n4c", None, SUM)
    sums = relay.strided_slice(sums, [0, 0], [128, columns], [1, 1], slice_mode="end")
    sums = relay.reshape(relay.cast(sums, "float32") * relay.const(0.5), (1, 128, columns))
    return relay.cast(relay.clip(relay.round(sums), 0, 255), "uint8")


def _gate(x: Any) -> Any:
    floats = relay.cast(x, "float32")
    return relay.sigmoid(floats * relay.const(0.25)) * (floats * relay.const(0.125))


@pytest.mark.parametrize("columns", [256, 250])
def test_bytes_of_a_gate_are_stored_and_not_both_floats_that_read_them(columns: int) -> None:
    x = var("x", 128, 16, dtype="uint8")
    up = relay.cast(_dense(x, columns, 2), "float32")
    found = graph(relay.clip(_gate(_dense(x, columns, 1)) * up, 0, 255))
    fold_constants(found)
    growth = Growth(found, Rules(Limits()))
    growth.grow()
    first, second = growth.partition.units
    assert [value.dtype for value in growth.partition.border(first).outputs] == ["uint8"]
    assert "sigmoid" in {node.op for node in second.nodes}


def test_what_is_quantized_again_before_branches_meet_is_stored_there() -> None:
    x = var("x", 128, 16, dtype="uint8")
    again = relay.cast(relay.clip(_gate(_dense(x, 256, 1)), 0, 255), "uint8")
    up = relay.cast(_dense(x, 256, 2), "float32")
    found = graph(relay.clip(relay.cast(again, "float32") * up, 0, 255))
    fold_constants(found)
    growth = Growth(found, Rules(Limits()))
    growth.grow()
    first, _ = growth.partition.units
    assert "sigmoid" in {node.op for node in first.nodes}
    assert [value.dtype for value in growth.partition.border(first).outputs] == ["uint8"]


def test_a_branch_that_meets_floats_stays_in_one_kernel() -> None:
    floats = var("y", *SHAPE)
    x = var("x", *SHAPE, dtype="uint8")
    found = graph(relay.cast(_branch(x, 1), "float32") * relay.const(0.25) + floats)
    fold_constants(found)
    growth = Growth(found, Rules(Limits()))
    growth.grow()
    assert len(growth.partition.units) == 1
