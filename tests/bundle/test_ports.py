from __future__ import annotations

import pytest

from tests.build.test_memory import GRAPH
from tests.bundle.test_description import PARAMS
from tvm_fusionx.build.kernels import KernelGraph, Tensor
from tvm_fusionx.build.memory import memory_of
from tvm_fusionx.bundle.ports import Port, places_of, ports_of
from tvm_fusionx.bundle.weights import laid_out
from tvm_fusionx.errors import ModelError


def test_a_type_without_a_name_in_c_is_refused() -> None:
    graph = KernelGraph.from_json(GRAPH.replace('["float32", ', '["int4", ', 1))
    with pytest.raises(ModelError, match=r"tensor 'x'.*found int4"):
        ports_of(graph, PARAMS)


def test_a_comment_cannot_end_early() -> None:
    port = Port("a*/b\r/*c", "a_b", Tensor((2, 3), "bool"))
    assert (port.about, port.c_type, port.elements) == ("a* /b / *c [2, 3] bool", "uint8_t", 6)


def test_no_input_has_the_name_of_an_output() -> None:
    graph = KernelGraph.from_json(GRAPH.replace('"name": "x"', '"name": "output_0"'))
    taken, given = ports_of(graph, PARAMS)
    assert (taken[0].field, given[0].field) == ("output_0_2", "output_0")


def test_what_no_kernel_writes_has_a_place_and_is_copied() -> None:
    text = GRAPH.replace('"heads": [[5, 0, 0]]', '"heads": [[0, 0, 0], [5, 0, 0]]')
    graph = KernelGraph.from_json(text)
    places, copied = places_of(graph, PARAMS, memory_of(text, PARAMS, {}), laid_out(PARAMS))
    assert copied == [(0, (0, 0))]
    assert [places[0, 0], places[1, 0], places[5, 0]] == [
        ("IN_INPUT", 0, 0),
        ("IN_WEIGHTS", 0, 0),
        ("IN_OUTPUT", 1, 0),
    ]
