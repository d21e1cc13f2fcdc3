"""Reports of several functions are one, in which every name says its function."""

from __future__ import annotations

import pytest

from tvm_fusionx.report.explain.entries import BlockEntry, EdgeEntry, Finding, Summary
from tvm_fusionx.report.explain.explanation import Report
from tvm_fusionx.report.explain.of_functions import joined


def _report(kernels: int) -> Report:
    blocks = tuple(
        BlockEntry(f"b{place}", ("exp",), (), "One-to-One", 4, 4, 0, 1, labels=(f"exp:{place}",))
        for place in range(kernels)
    )
    edge = EdgeEntry("exp:0", "exp:1", "b0", "b1", False, "opaque", "", 4)
    return Report(
        "llvm",
        Summary(kernels, kernels, kernels, 8, 4, kernels),
        blocks,
        (edge,),
        (("fold", kernels),),
        (Finding("opaque-operator", "one", ("b0",)),),
        plan="optimal",
    )


def test_names_say_their_function_and_sums_are_of_all() -> None:
    whole = joined({"f": _report(2), "g": _report(3)}, [Finding("virtual-machine", "it", ())])
    assert [block.name for block in whole.blocks] == ["f/b0", "f/b1", "g/b0", "g/b1", "g/b2"]
    assert whole.blocks[2].labels == ("g/exp:0",)
    assert [edge.consumer for edge in whole.edges] == ["f/exp:1", "g/exp:1"]
    assert [edge.consumer_block for edge in whole.edges] == ["f/b1", "g/b1"]
    assert [each.blocks for each in whole.findings] == [(), ("f/b0",), ("g/b0",)]
    assert whole.summary == Summary(5, 5, 5, 16, 8, 5)
    assert whole.rewrites == (("fold", 5),)
    assert whole.plan == "optimal; optimal"


@pytest.mark.parametrize("kernels", [1, 4])
def test_one_function_keeps_its_names(kernels: int) -> None:
    whole = joined({"f": _report(kernels)})
    assert whole == _report(kernels)
