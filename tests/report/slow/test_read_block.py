from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay_modules import const, var
from tests.report.slow.blocks import block_call, plain
from tvm_fusionx.errors import ReportFileError
from tvm_fusionx.report.slow import bounds
from tvm_fusionx.report.slow.block_json import block_json
from tvm_fusionx.report.slow.read_block import read_block

HALVES = 2

a, b, c = var("a", 4, 16), var("b", 8, 16), var("c", 8)
x, image = var("x", 4, 16), var("a", 1, 4, 8, 8)


def _dense() -> Any:
    body = relay.nn.relu(relay.nn.dense(a, b) + c) * relay.const(2.0)
    return block_call(body, [x, const(8, 16), const(8)])


def _exchanged(halves: Any) -> Any:
    return relay.concatenate([halves[1], halves[0]], axis=1)


BLOCKS = {
    "dense": _dense,
    "tuple": lambda: block_call(
        relay.Tuple([relay.tanh(a), relay.sum(a, axis=1)]), [var("x", 4, 16)]
    ),
    "split": lambda: block_call(_exchanged(relay.split(a, HALVES, axis=1)), [x]),
    "window": lambda: block_call(
        relay.nn.conv2d(
            relay.nn.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1))), var("b", 6, 4, 3, 3)
        ),
        [var("x", 1, 4, 8, 8), const(6, 4, 3, 3)],
    ),
    "moves": lambda: block_call(
        relay.strided_slice(
            relay.transpose(relay.reshape(a, (4, 4, 4)), (0, 2, 1)), [0, 1], [4, 3]
        ),
        [x],
    ),
    "limits": lambda: block_call(relay.clip(a, 0.0, float("inf")), [x]),
    "indices": lambda: block_call(
        relay.take(a, var("b", 2, dtype="int64"), axis=0),
        [x, relay.const(np.array([3, 1]), "int64")],
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_comes_back_through_text(name: str) -> None:
    call = BLOCKS[name]()
    back = read_block(json.loads(json.dumps(block_json(call))), "a block")
    assert tvm.ir.structural_equal(plain(call.op), plain(back.function))
    assert [operand.is_constant for operand in back.operands] == [
        isinstance(argument, relay.Constant) for argument in call.args
    ]
    assert "Primitive" in back.function.attrs


def test_a_withheld_scalar_is_drawn_and_the_same_for_a_seed() -> None:
    told = block_json(block_call(a * relay.const(0.3) + relay.const(0.7), [x]))
    drawn = [read_block(told, "a block", seed).function for seed in (0, 0, 1)]
    assert tvm.ir.structural_equal(drawn[0], drawn[1])
    assert not tvm.ir.structural_equal(drawn[0], drawn[2])


Change = Callable[[dict[str, Any]], Any]

CHANGES: dict[str, tuple[Change, str]] = {
    "no calls": (lambda t: t.pop("calls"), "the field 'calls'"),
    "calls are a number": (lambda t: t.update(calls=3), "block 0, calls: expected a list"),
    "too many calls": (lambda t: t.update(calls=t["calls"] * 200), "at most 512; found 800"),
    "too many operands": (lambda t: t.update(operands=t["operands"] * 99), "at most 256"),
    "a call is a text": (lambda t: t["calls"].insert(0, "nn.relu"), "call 0: expected an object"),
    "operator": (lambda t: t["calls"][0].update(op="nn.nothing"), "none of the operators"),
    "debug": (lambda t: t["calls"][2].update(op="debug"), "none of the operators"),
    "dynamic": (lambda t: t["calls"][2].update(op="dyn.reshape"), "none of the operators"),
    "operator of the weights": (
        lambda t: t["calls"][0].update(op="fusionx.sparse_dense"),
        "is said by its weights",
    ),
    "attribute": (lambda t: t["calls"][0]["attributes"].update(bias=1), "a call of nn.dense"),
    "deep attribute": (
        lambda t: t["calls"][0]["attributes"].update(units=[[[[[[1]]]]]]),
        "lists in 4 levels at most",
    ),
    "long attribute": (
        lambda t: t["calls"][0]["attributes"].update(units=[1] * 257),
        "a list of at most 256",
    ),
    "null in an attribute": (
        lambda t: t["calls"][0]["attributes"].update(units=[None]),
        "found null in it",
    ),
    "large attribute": (lambda t: t["calls"][0]["attributes"].update(units=2**63), "whole number"),
    "attribute of another kind": (
        lambda t: t["calls"][0]["attributes"].update(units={"number": "__import__"}),
        "a list; found an object",
    ),
    "later call": (lambda t: t["calls"][0].update(reads=[["call", 3, 0]] * 2), "whole number"),
    "place": (lambda t: t["calls"][1].update(reads=[["operand", 9]] * 2), "from 0 to 2"),
    "kind of place": (lambda t: t["calls"][1].update(reads=[["file", 0]] * 2), "found 'file'"),
    "empty place": (lambda t: t["calls"][1].update(reads=[[]] * 2), "found None"),
    "grouping": (lambda t: t["calls"][1].update(grouping=[3]), "groups of 2 operands"),
    "operands do not fit": (
        lambda t: t["calls"][0].update(reads=[["operand", 0]] * 2),
        "expected",
    ),
    "result": (
        lambda t: t["calls"][0].update(results=[["float32", [4, 9]]]),
        r"expected float32\[4, 9\]; found float32\[4, 8\]",
    ),
    "dtype": (lambda t: t["operands"][0].update(type=["handle", [4]]), "found 'handle'"),
    "dtype is a list": (lambda t: t["operands"][0].update(type=[[], [4]]), "expected one of"),
    "no shape": (lambda t: t["operands"][0].update(type=["float32"]), "1 items"),
    "extent": (lambda t: t["operands"][0].update(type=["float32", [0]]), "from 1 to"),
    "rank": (
        lambda t: t["operands"][0].update(type=["float32", [1] * 13]),
        "a list of at most 12",
    ),
    "memory": (
        lambda t: t["operands"][0].update(type=["float32", [2**31 - 1, 4]]),
        "4294967296 bytes at most",
    ),
    "values": (lambda t: t["operands"][1].update(values=[1]), "whole numbers of a float32"),
    "values of an input": (
        lambda t: t["operands"][0].update(type=["int32", [1]], values=[1]),
        "none but of a constant",
    ),
    "constants alone": (lambda t: t["operands"][0].update(is_constant=True), "no constant"),
    "flag": (lambda t: t["operands"][0].update(is_constant=0), "true or false"),
    "scalar": (lambda t: t["scalars"][0].__setitem__(1, "1"), "a number, 'inf'"),
    "scalar of bytes": (lambda t: t["scalars"][0].__setitem__(0, "int8"), "a bool, an int32"),
    "large scalar": (lambda t: t["scalars"][0].__setitem__(1, 10**400), "a number, 'inf'"),
    "no outputs": (lambda t: t.update(outputs=[]), "one, or a tuple"),
    "two outputs": (lambda t: t.update(outputs=[["call", 0, 0]] * 2), "one, or a tuple"),
    "output is an operand": (lambda t: t.update(outputs=[["operand", 0]]), "results of calls"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_damaged_block_is_refused_with_its_place(name: str) -> None:
    change, about = CHANGES[name]
    told = block_json(_dense())
    change(told)
    with pytest.raises(ReportFileError, match=about) as raised:
        read_block(told, "block 0")
    assert str(raised.value).startswith("block 0")
    assert len(str(raised.value)) < 1000


def test_as_many_sections_as_results() -> None:
    told = block_json(BLOCKS["split"]())
    told["calls"][0]["attributes"]["indices_or_sections"] = 1 << 30
    with pytest.raises(ReportFileError, match="expected 2 as results; found 1073741824"):
        read_block(told, "block 0")


def test_operands_and_results_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    told = block_json(_dense())
    held = 4 * (4 * 16 + 8 * 16 + 8 + 4 * 8)
    monkeypatch.setattr(bounds, "MOST_TENSOR_BYTES", held)
    read_block(told, "block 0")
    monkeypatch.setattr(bounds, "MOST_TENSOR_BYTES", held - 1)
    with pytest.raises(ReportFileError, match=f"{held - 1} bytes at most; found {held}"):
        read_block(told, "block 0")


# What any field of a file may be changed into.
STRANGE = (None, True, -1, 0, 3, 2**40, 0.5, "", "float32", [], [[]], {}, [0, 0])


def _fields(told: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = told.items() if isinstance(told, dict) else enumerate(told)
    found = []
    for key, value in inner:
        found.append((*path, key))
        if isinstance(value, (dict, list)):
            found += _fields(value, (*path, key))
    return found


@pytest.mark.parametrize("name", ["dense", "window", "split"])
def test_whatever_a_field_is_the_block_is_read_or_refused(name: str) -> None:
    told = json.loads(json.dumps(block_json(BLOCKS[name]())))
    # Attributes of no sense can end the process: `tried_apart` is for them.
    places = [place for place in _fields(told) if "attributes" not in place]
    generator = np.random.default_rng(5)
    refused = 0
    for number in generator.permutation(len(places) * len(STRANGE))[:150]:
        place, strange = divmod(int(number), len(STRANGE))
        changed = copy.deepcopy(told)
        *path, last = places[place]
        inner: Any = changed
        for key in path:
            inner = inner[key]
        inner[last] = STRANGE[strange]
        try:
            read_block(changed, "a block")
        except ReportFileError:
            refused += 1
    assert refused > 75
