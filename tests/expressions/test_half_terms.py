"""The mark gives its operand, and its stage tells what it says."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relay

from tests.relay_modules import module, run_plain, var
from tests.schedules.blocked_blocks import unscheduled
from tvm_fusionx.expressions.half_terms import marked, register_half_terms
from tvm_fusionx.tir.block import collect_blocks
from tvm_fusionx.tir.half_terms import HALF_ADDEND, HALF_TERMS, Mark


def test_it_gives_its_operand() -> None:
    register_half_terms()
    register_half_terms()
    x = np.float32([[1.5, -2.0, 3.25]])
    (found,) = run_plain(module(marked(var("x", 1, 3), Mark(8))), {"x": x})
    np.testing.assert_array_equal(found, x)


def test_its_stage_says_how_many_terms() -> None:
    register_half_terms()
    (block,) = collect_blocks(unscheduled(marked(var("x", 2, 3), Mark(8, adds=True))))
    assert int(block.annotations[HALF_TERMS]) == 8
    assert int(block.annotations[HALF_ADDEND]) == 1


def test_marks_differ_by_what_they_say() -> None:
    register_half_terms()
    functions = [relay.Function([], marked(relay.const(1.0), Mark(each))) for each in (8, 16)]
    assert not tvm.ir.structural_equal(*functions)
