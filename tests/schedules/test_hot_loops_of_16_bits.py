"""Hot loops of products by `bfmmla` and `fmlal`: no traffic with the stack, few instructions.

Read from what LLVM makes of a kernel for a Neoverse N2, so nothing runs. A product of the first is
of two rows and two columns, four terms each: sixteen multiplications.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tvm import relay

from tests.depthwise_pairs import relu6
from tests.sampled import few_fast_rows
from tests.schedules.blocked_blocks import depthwise
from tests.schedules.brain_blocks import brain_dense, brain_window
from tests.schedules.half_blocks import in_16_bits
from tests.schedules.test_hot_loops_on_arm import Loops, figures, hot_loop

CORE = "neoverse-n2"
HALF = "float16"

# As models have them (MiniLM, MobileNetV2, ResNet-18): the instruction, and what loops may take.
BLOCKS: dict[tuple[str, str], tuple[relay.Expr, str, Loops]] = {
    ("dot", "384 to 384"): (brain_dense(128, 384, 384), "bfmmla", Loops(1.38, 0)),
    ("conv2d", "96 to 64"): (brain_window(96, 28, 64, 1), "bfmmla", Loops(1.43, 0)),
    # Pixels two apart, of which each has a load of its own.
    ("conv2d", "3 x 3, stride 2"): (brain_window(64, 56, 128, 3, 2), "bfmmla", Loops(1.73, 0)),
    ("conv2d", "3 x 3"): (brain_window(64, 56, 64, 3), "bfmmla", Loops(1.49, 0)),
    # A tile is written out whole, with what follows its sums.
    ("depthwise", "3 x 3, halves"): (
        in_16_bits(depthwise(96, (28, 28), (3, 3), padding=(1,) * 4, block=4, post=relu6), HALF),
        "fmlal",
        Loops(1.86, 0),
    ),
}


@pytest.mark.parametrize(("template", "name"), few_fast_rows(BLOCKS, 2))
def test_a_hot_loop_keeps_to_its_registers(template: str, name: str, tmp_path: Path) -> None:
    body, instruction, most = BLOCKS[template, name]
    loop = hot_loop(body, template, tmp_path, CORE)
    code = "\n".join(loop.texts)
    found = figures(loop)
    assert instruction in code
    assert found.each <= most.each, f"{found} of {len(loop.code)} instructions:\n{code}"
    assert found.stack == most.stack, f"{found} of {len(loop.code)} instructions:\n{code}"
