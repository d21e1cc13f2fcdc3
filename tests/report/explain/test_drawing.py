from __future__ import annotations

from itertools import pairwise

from tvm_fusionx.report.explain.drawing import (
    border_edges,
    directly,
    drawing_of,
    grouped,
    kernels_of,
)
from tvm_fusionx.report.explain.entries import BlockEntry, EdgeEntry


def block(name: str, structure: str = "", *, free: bool = False) -> BlockEntry:
    labels = (f"/{name}",)
    return BlockEntry(
        name, ("op",), (), "One-to-One", 4, 4, 0, 1, free, labels=labels, structure=structure
    )


def edge(first: str, second: str, reason: str = "slower") -> EdgeEntry:
    return EdgeEntry(f"/{first}", f"/{second}", first, second, False, reason, "because", 4)


BLOCKS = (block("a", "x"), block("r", free=True), block("b", "y"), block("c", "x"))
EDGES = (
    edge("a", "r", "reshape-is-free"),
    edge("r", "b", "reshape-is-free"),
    edge("r", "c", "reshape-is-free"),
    edge("b", "c"),
)


def test_free_reshapes_are_no_kernels() -> None:
    assert [each.name for each in kernels_of(BLOCKS)] == ["a", "b", "c"]


def test_equal_kernels_are_together_and_unknown_ones_apart() -> None:
    assert grouped(kernels_of(BLOCKS)) == [[0, 2], [1]]
    assert grouped((block("a"), block("b"))) == [[0], [1]]


def test_a_chain_through_what_is_left_out_is_one_link() -> None:
    links = [("a", "r"), ("r", "s"), ("s", "b"), ("a", "b"), ("b", "b"), ("r", "c"), ("input", "r")]
    expected = {("a", "b"), ("input", "b"), ("a", "c"), ("input", "c")}
    assert set(directly(links, {"r", "s"})) == expected
    assert len(directly(links, {"r", "s"})) == len(expected)
    assert directly(links, ()) == [link for link in links if link != ("b", "b")]


def test_a_long_chain_is_no_problem() -> None:
    names = [str(number) for number in range(20_000)]
    links = list(pairwise(names))
    assert directly(links, names[1:-1]) == [(names[0], names[-1])]


def test_edges_of_the_border_lead_from_kernel_to_kernel() -> None:
    found = [(row["from"], row["to"], row["reason"]) for row in border_edges(BLOCKS, EDGES)]
    assert found == [
        ("b", "c", "slower"),
        ("a", "b", "reshape-is-free"),
        ("a", "c", "reshape-is-free"),
    ]


def test_kernels_and_operators_are_drawn_without_free_reshapes() -> None:
    drawing = drawing_of(BLOCKS, EDGES)
    assert len(drawing["positions"]) == 3
    assert drawing["links"] == [(0, 1), (0, 2), (1, 2)]
    assert drawing["operators"]["owners"] == [0, 1, 2]
    assert drawing["operators"]["links"] == drawing["links"]
    assert drawing["groups"] == [[0, 2], [1]]


def test_nothing_is_drawn_of_no_blocks() -> None:
    assert drawing_of((), ())["positions"] == []
