"""What follows the sums of a tile, in a loop over them: right for each tile, and off the stack."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tvm import relay, tir

from tests.depthwise_pairs import pair
from tests.relay_modules import module
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import (
    assert_computes,
    depthwise,
    eight_lanes,
    silu,
    unscheduled,
)
from tests.schedules.matching import matched
from tvm_fusionx.counting.disassembly import disassemble_file
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.schedules.template import Template
from tvm_fusionx.schedules.windows.channelwise import DEPTHWISE
from tvm_fusionx.schedules.windows.depthwise_pointwise import DEPTHWISE_POINTWISE
from tvm_fusionx.schedules.windows.sums_in_loops import follows_with_mathematics
from tvm_fusionx.tir.block import describe_block

ONE = (1, 1, 1, 1)
MOST_ROWS, REGISTERS = 4, 32
ARM = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=1"


def _window(rows: int, columns: int) -> tuple[Template, relay.Expr, dict[str, int]]:
    body = depthwise(8, (2 * rows, 2 * columns), (3, 3), padding=ONE, post=silu)
    return DEPTHWISE, body, {"tile_rows": rows, "tile_columns": columns}


CASES: dict[str, tuple[Template, relay.Expr, dict[str, int]]] = {
    "pairs of rows, none left": _window(2, 3),
    "pairs of columns, none left": _window(3, 4),
    "a column is left": _window(1, 7),
    "one column": _window(4, 1),
    "both are odd": _window(3, 5),
    "one pair of rows": _window(2, 2),
    "fewer sums than pay": _window(1, 3),
    "between a pair": (
        DEPTHWISE_POINTWISE,
        pair(16, (7, 9), 16, between=silu),
        {"task_rows": 4, "depthwise_rows": 3},
    ),
}


@pytest.mark.parametrize("case", few_fast(CASES, 3))
def test_a_tile_is_right(case: str) -> None:
    template, body, knobs = CASES[case]
    target = eight_lanes()
    plain = replace(describe_cpu(target), registers=REGISTERS, strip_rows=MOST_ROWS)
    scripts = []
    for in_loops in (False, True):
        cpu = replace(plain, mathematics_in_loops=in_loops)
        match = matched(template, describe_block(unscheduled(body, target), cpu))
        defaults = {name: knob.default for name, knob in match.knobs().items()}
        func = match.emit({**defaults, **knobs})
        scripts.append(func.script())
    assert (scripts[0] == scripts[1]) == (case == "fewer sums than pay")
    assert_computes(func, target, module(body))


def test_arm_has_fewer_accesses_of_the_stack_by_it(tmp_path: Path) -> None:
    target = resolve_target(ARM)
    neon = describe_cpu(target)
    assert neon.mathematics_in_loops
    body = depthwise(16, (14, 14), (5, 5), padding=(2,) * 4, block=4, post=silu)
    lengths, accesses = [], []
    for name, cpu in (("out", replace(neon, mathematics_in_loops=False)), ("in", neon)):
        match = matched(DEPTHWISE, describe_block(unscheduled(body, target), cpu))
        func = match.emit({name: knob.default for name, knob in match.knobs().items()})
        path = tmp_path / f"{name}.o"
        compile_kernel(func, target, "kernel").save(str(path))
        texts = [line.text for code in disassemble_file(path).values() for line in code]
        lengths.append(len(texts))
        accesses.append(sum(" q" in text and "[sp" in text for text in texts))
    # Sums that are put aside go through the stack once; what is written out spills constants.
    for written_out, in_loops in (lengths, accesses):
        assert in_loops < 3 / 4 * written_out


def test_what_follows_is_read_where_it_is_written() -> None:
    buffer = tir.decl_buffer((8,), "float32")

    def write(*place_and_value: tir.PrimExpr) -> tir.Stmt:
        *_, lane, value = place_and_value
        return tir.BufferStore(buffer, tir.exp(value), [lane])

    def copy(*place_and_value: tir.PrimExpr) -> tir.Stmt:
        *_, lane, value = place_and_value
        return tir.BufferStore(buffer, value, [lane])

    assert follows_with_mathematics(write, "float32")
    assert not follows_with_mathematics(copy, "float32")
