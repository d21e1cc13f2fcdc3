"""What a flow says of zeros and of channels that nobody reads."""

from __future__ import annotations

import numpy as np

from tests.relay_modules import graph, var
from tvm_fusionx.ecg.graph import Value
from tvm_fusionx.rewrite.channels.flow import Flow, Product, Tie, count, never, whole


def _values() -> tuple[Value, Value]:
    found = graph(var("x", 1, 3), var("y", 1, 4))
    return found.outputs[0], found.outputs[1]


def marks(text: str) -> np.ndarray:
    """Return truth values: an x for each that is true."""
    return np.array([letter == "x" for letter in text])


READS = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0], [1, 0, 0]], bool)


def test_sums_of_zeros_are_zero() -> None:
    x, y = _values()
    product = Product(x, y, READS, is_finite=True)
    assert product.zeros({x: marks("...")})[y].tolist() == marks("..x.").tolist()
    assert product.zeros({x: marks("x..")})[y].tolist() == marks("..xx").tolist()
    infinite = Product(x, y, READS, is_finite=False)
    assert infinite.zeros({x: marks("xxx")})[y].tolist() == marks("..x.").tolist()
    alone = Product(None, y, READS, is_finite=True)
    assert Flow({y: 1}, product=alone).zeros_of({})[y].tolist() == marks("..x.").tolist()


def test_what_only_goes_elsewhere_is_unread() -> None:
    x, y = _values()
    product = Product(x, y, READS, is_finite=True)
    nothing = {x: marks("...")}
    assert product.unread(nothing, {y: marks("....")}).tolist() == marks("..x").tolist()
    assert product.unread(nothing, {y: marks("xx..")}).tolist() == marks(".xx").tolist()
    assert product.unread({x: marks("x..")}, {y: marks("....")}).tolist() == marks("x.x").tolist()
    infinite = Product(x, y, READS, is_finite=False)
    assert infinite.unread({x: marks("xxx")}, {y: marks("....")}).tolist() == marks("..x").tolist()


def test_zeros_follow_ties() -> None:
    x, y = _values()
    tie = Tie(x, y, np.array([0, 0, 2]), np.array([0, 1, 3]))
    flow = Flow({y: 1}, (tie,))
    assert flow.zeros_of({x: marks("x.x")})[y].tolist() == marks("xx.x").tolist()
    lost = Flow({y: 1}, (tie,), zeros=never({y: 1}))
    assert not lost.zeros_of({x: marks("xxx")})[y].any()


def test_a_whole_tie_has_every_place() -> None:
    x, y = _values()
    assert whole(x, y, 3).here.tolist() == whole(x, y, 3).there.tolist() == [0, 1, 2]


def test_what_is_not_cut_has_all_of_its_channels() -> None:
    x, y = _values()
    assert (count({x: marks(".xx")}, x, 1), count({x: marks(".xx")}, y, 1)) == (2, 4)
