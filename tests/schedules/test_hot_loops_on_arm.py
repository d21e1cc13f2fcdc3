"""The hot loop of every template on Arm: no traffic with the stack, few instructions a product.

Read from what LLVM makes of a kernel for a Cortex-A76, so nothing runs. The hot loop is the one
with the most multiply-adds, each loop around it taken for so many turns; or, where a template
multiplies nothing, with the most instructions.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from tvm import relay

from tests.cached_attentions import attention_call
from tests.depthwise_pairs import pair, relu6
from tests.recurrent_layers import layer_call
from tests.relay_modules import var
from tests.reuse_layers import reuse_call, window_layer
from tests.sampled import few_fast_rows
from tests.schedules.blocked_blocks import NEON, dense, depthwise, unscheduled
from tests.schedules.filter_blocks import filter_window, patterned, scattered
from tests.schedules.frame_blocks import along
from tests.schedules.half_blocks import in_16_bits
from tests.schedules.integer_blocks import bytes_window
from tests.schedules.matrix_blocks import attention, gelu, layer_norm, packed_dense
from tests.schedules.packed_blocks import case as packed_product
from tests.schedules.packed_blocks import rounded_case
from tests.schedules.sparse_blocks import Window, pruned, window
from tests.schedules.sparse_blocks import dense as sparse_product
from tests.schedules.sums_in_halves import summed_in_halves
from tests.schedules.winograd_convolution import filtered
from tvm_fusionx.counting.disassembly import disassemble_file
from tvm_fusionx.counting.loops import Loop, has_frame, innermost_loops
from tvm_fusionx.counting.model_build import target_text
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.operators.recurrent_layer import LSTM
from tvm_fusionx.schedules import CPU_TEMPLATES, resolve_target, schedule
from tvm_fusionx.tir.half_terms import Mark

CORE = "cortex-a76"
MOST_EACH = 1.3
# Of a loop around another, whose turns the code does not tell.
TURNS = 8
# Figures have two digits.
ROUNDING = 0.005

PAD = (1, 1, 1, 1)
TWELVE = (12, 12, 12, 12)
ONE = (1, 1)
# Chunks of one vector of 128 bits, as they are packed for Arm; and of a picture's channels.
FOURS, FIRST = (4, 4), (1, 4)
# The same where products are summed up in halves, 32 at a time.
EIGHTS, FIRST_OF_HALVES = (8, 8), (1, 8)
MARK = Mark(32)


def _relu(y: relay.Expr) -> relay.Expr:
    return relay.nn.relu(y)


def _planes(y: relay.Expr) -> relay.Expr:
    return relay.layout_transform(_relu(y), "NCHW4c", "NCHW")


FILTERS = Window(1, 64, 64, 28, 28, lanes=4)

# As models have them: ResNet-18 and 50, MobileNetV1 to V3, MiniLM, PP-OCR.
BLOCKS: dict[str, dict[str, relay.Expr]] = {
    "winograd": {
        "64 channels": _relu(filtered((1, 64, 28, 28), 64, PAD, 4, cpu=NEON)),
        "128 channels": _relu(filtered((1, 128, 14, 14), 128, PAD, 4, cpu=NEON)),
    },
    "depthwise_pointwise": {
        "stride 1": pair(96, (28, 28), 24, block=4, out_block=4, between=relu6),
        "stride 2": pair(144, (28, 28), 32, block=4, out_block=4, between=relu6, stride=2),
    },
    "first_layer": {
        "3 x 3": dense(3, (64, 64), 32, (3, 3), strides=(2, 2), padding=PAD, blocks=FIRST),
        "7 x 7": dense(3, (64, 64), 64, (7, 7), strides=(2, 2), padding=(3,) * 4, blocks=FIRST),
        "7 x 7, sums of halves": summed_in_halves(
            dense(
                3, (64, 64), 64, (7, 7), strides=(2, 2), padding=(3,) * 4, blocks=FIRST_OF_HALVES
            ),
            MARK,
        ),
    },
    "pointwise_few_outputs": {"2 outputs": dense(64, (40, 40), 2, ONE, blocks=(4, 2))},
    "pointwise": {
        "96 to 24": dense(96, (56, 56), 24, ONE, blocks=FOURS, post=_relu),
        "24 to 144": dense(24, (56, 56), 144, ONE, blocks=FOURS, post=_relu),
        "160 to 960": dense(160, (7, 7), 960, ONE, blocks=FOURS, post=_relu),
        # Four blocks of input channels, two of them in a loop.
        "2048 to 512": dense(2048, (7, 7), 512, ONE, blocks=FOURS, post=_relu),
        "256 to 64": dense(256, (28, 28), 64, ONE, blocks=FOURS, post=_relu),
        # Converted before: the loop is that of float32.
        "160 to 960, halves": in_16_bits(
            dense(160, (7, 7), 960, ONE, blocks=FOURS, post=_relu), "float16"
        ),
        "160 to 960, sums of halves": summed_in_halves(
            dense(160, (7, 7), 960, ONE, blocks=EIGHTS, post=_relu), MARK
        ),
    },
    "along_frames": {"3 rows": along(16, (12, 80), 24, blocks=FIRST, post=_planes)},
    "dilated": {
        "3 x 3": dense(
            32, (28, 28), 64, (3, 3), padding=TWELVE, dilation=(12, 12), blocks=FOURS, post=_relu
        )
    },
    "joined_chunks": {
        "3 x 3": dense(28, (28, 28), 26, (3, 3), padding=PAD, blocks=(4, 2), post=_relu)
    },
    "conv2d": {
        "3 x 3": dense(32, (28, 28), 64, (3, 3), padding=PAD, blocks=FOURS, post=_relu),
        "stride 2": dense(
            64, (28, 28), 128, (3, 3), strides=(2, 2), padding=PAD, blocks=FOURS, post=_relu
        ),
        "stride 2, sums of halves": summed_in_halves(
            dense(64, (28, 28), 128, (3, 3), strides=(2, 2), padding=PAD, blocks=EIGHTS), MARK
        ),
        # Of bytes, neighbouring pixels in a vector.
        "bytes, 3 x 3": bytes_window(64, (28, 28), 64, 3),
        "bytes, 96 to 24": bytes_window(96, (56, 56), 24, 1),
        "bytes, 160 to 960": bytes_window(160, (7, 7), 960, 1),
        "bytes, 3 x 3, stride 2": bytes_window(64, (28, 28), 128, 3, 2),
        # Short sums, all written out with what follows them.
        "bytes, 16 to 96": bytes_window(16, (112, 112), 96, 1),
    },
    "depthwise": {
        "3 x 3": depthwise(96, (28, 28), (3, 3), padding=PAD, block=4, post=_relu),
        "5 x 5, stride 2": depthwise(
            72, (28, 28), (5, 5), strides=(2, 2), padding=(2,) * 4, block=4, post=_relu
        ),
        "3 x 3, halves": in_16_bits(
            depthwise(96, (28, 28), (3, 3), padding=PAD, block=4, post=_relu), "float16"
        ),
        "3 x 3, sums of halves": summed_in_halves(
            depthwise(96, (28, 28), (3, 3), padding=PAD, block=8, post=_relu), MARK
        ),
    },
    "pool": {
        "3 x 3": relay.nn.max_pool2d(
            var("x", 1, 16, 56, 56, 4), (3, 3), (2, 2), padding=PAD, layout="NCHW4c"
        ),
        "global": relay.nn.global_avg_pool2d(var("x", 1, 320, 7, 7, 4), layout="NCHW4c"),
    },
    "channel_pool": {
        "3 x 3": relay.nn.max_pool2d(var("x", 1, 16, 28, 28), (3, 3), (2, 2), padding=PAD)
    },
    "streamed_attention": {"12 heads": attention(12, 128, 128, 32, 32)},
    "cached_attention": {"3 heads": attention_call(3, 3, 64, 512)},
    "packed_bytes": {"4 bits, 16 rows": rounded_case(16, 8, 4, 2, "Q4_0")[0]},
    "packed": {"4 bits, 16 rows": packed_product(16, 8, 4, 2, "Q4_0")[0]},
    "sparse": {
        "128 rows": sparse_product(128, pruned(768, 768, 16, 0.25), 16, 4)[0],
        "3 x 3": window(
            Window(1, 64, 64, 28, 28, lanes=4), pruned(64, 576, 16, 0.125), 16, 4, _relu
        )[0],
    },
    "sparse_filters": {
        "3 x 3": filter_window(FILTERS, scattered(FILTERS, 0.125), _relu)[0],
        "patterns": filter_window(FILTERS, patterned(FILTERS, 0.3), _relu, by_pattern=True)[0],
    },
    "recurrent": {
        "LSTM, 1 sequence": layer_call(LSTM, 1, 128),
        "LSTM, 8 sequences": layer_call(LSTM, 8, 128),
    },
    "reuse": {"3 x 3": reuse_call(window_layer())},
    "dot": {
        "384 to 384": packed_dense(128, 384, 384, width=12),
        "384 to 1536, gelu": gelu(packed_dense(128, 1536, 384, width=12)),
        "384 to 1536, gelu, sums of halves": summed_in_halves(
            gelu(packed_dense(128, 1536, 384, width=24)), MARK
        ),
        "1500 rows": packed_dense(1500, 384, 384, width=8),
        "one row": packed_dense(1, 1000, 1280, width=8),
    },
    "moves": {"a matrix": relay.transpose(var("x", 128, 384))},
    "rows": {
        "norm": layer_norm(var("x", 128, 384) + var("y", 128, 384), 384),
        "softmax": relay.nn.softmax(var("x", 128, 128)),
    },
}
# Serves what the others failed on: its code is TVM's; and what no Arm core has registers for.
WITHOUT_HOT_LOOP = {"default", "byte_tiles"}


class Loops(NamedTuple):
    """Figures of a hot loop: instructions a multiply-add (0 without any), and stack accesses."""

    each: float
    stack: int


# What does not hold yet, as it is, or is better: no more than this, and less is welcome.
# Depthwise tiles are written out as a whole: what follows the sums, and their first products, which
# are no multiply-adds, are in the loop.
KNOWN: dict[tuple[str, str], Loops] = {
    # Better than what holds for all: several vectors a load, and no register for each row.
    ("pointwise", "24 to 144"): Loops(1.13, 0),
    ("pointwise", "160 to 960"): Loops(1.13, 0),
    ("pointwise", "2048 to 512"): Loops(1.13, 0),
    ("pointwise", "256 to 64"): Loops(1.13, 0),
    ("depthwise_pointwise", "stride 2"): Loops(1.13, 0),
    ("dot", "384 to 384"): Loops(1.09, 0),
    ("dot", "384 to 1536, gelu"): Loops(1.09, 0),
    ("dot", "1500 rows"): Loops(1.09, 0),
    ("first_layer", "7 x 7, sums of halves"): Loops(1.13, 0),
    ("dot", "384 to 1536, gelu, sums of halves"): Loops(1.1, 0),
    ("winograd", "64 channels"): Loops(1.19, 4),
    # The sums of float32 have no room in registers beside the chains.
    ("pointwise", "160 to 960, sums of halves"): Loops(1.25, 3),
    ("conv2d", "stride 2, sums of halves"): Loops(1.21, 2),
    ("depthwise", "3 x 3, sums of halves"): Loops(1.79, 0),
    # Seven pixels by two chunks, which leave nothing over of 28: weights of taps are not paired.
    ("conv2d", "bytes, 3 x 3"): Loops(1.31, 0),
    ("conv2d", "bytes, 3 x 3, stride 2"): Loops(1.73, 0),
    # What follows the sums is in the loop.
    ("conv2d", "bytes, 16 to 96"): Loops(2.72, 0),
    ("pointwise_few_outputs", "2 outputs"): Loops(1.87, 5),
    ("along_frames", "3 rows"): Loops(1.42, 0),
    ("depthwise", "3 x 3"): Loops(1.79, 0),
    ("depthwise", "3 x 3, halves"): Loops(2.22, 0),
    ("depthwise_pointwise", "stride 1"): Loops(1.91, 0),
    # Three heads share a loaded vector.
    ("cached_attention", "3 heads"): Loops(1.44, 0),
    ("packed_bytes", "4 bits, 16 rows"): Loops(2.91, 32),
    ("packed", "4 bits, 16 rows"): Loops(2.32, 73),
    ("sparse", "128 rows"): Loops(1.69, 0),
    ("sparse", "3 x 3"): Loops(1.69, 0),
    # One load for each two multiply-adds, and what finds them: data is no register's before.
    ("sparse_filters", "3 x 3"): Loops(1.93, 0),
    ("sparse_filters", "patterns"): Loops(1.73, 0),
    ("recurrent", "LSTM, 1 sequence"): Loops(1.58, 0),
    ("recurrent", "LSTM, 8 sequences"): Loops(1.38, 0),
    ("rows", "norm"): Loops(4.62, 0),
    ("depthwise", "5 x 5, stride 2"): Loops(1.63, 0),
    ("rows", "softmax"): Loops(3.89, 0),
    ("dot", "one row"): Loops(1.81, 0),
}

ROWS = [
    (template, name)
    for place in range(max(map(len, BLOCKS.values())))
    for template, blocks in BLOCKS.items()
    for name in [*blocks][place : place + 1]
]


def hot_loop(body: relay.Expr, template: str, folder: Path, core: str = CORE) -> Loop:
    """Return the hot loop of the kernel that `template` makes of a block."""
    target = resolve_target(target_text(core))
    scheduled = schedule(unscheduled(body, target), target)
    assert scheduled.template == template
    path = folder / "kernel.o"
    compile_kernel(scheduled.func, target, "kernel").save(str(path))
    loops: list[Loop] = []
    whole: list[Loop] = []
    for code in disassemble_file(path).values():
        loops += innermost_loops(code)
        whole.append(Loop(tuple(code), has_frame([line.text for line in code])))
    # A kernel whose loops are all unrolled is one.
    found = loops if any(loop.multiply_adds for loop in loops) else loops or whole
    weights = [(loop.multiply_adds * TURNS**loop.depth, len(loop.code)) for loop in found]
    return found[weights.index(max(weights))]


def figures(loop: Loop) -> Loops:
    """Return what is held of a loop."""
    return Loops(round(loop.instructions_each, 2) if loop.multiply_adds else 0.0, loop.stack)


def test_every_template_has_a_block() -> None:
    assert {template.name for template in CPU_TEMPLATES} == {*BLOCKS, *WITHOUT_HOT_LOOP}
    assert {row for row in KNOWN} <= set(ROWS)


@pytest.mark.parametrize(("template", "name"), few_fast_rows(ROWS, 6))
def test_a_hot_loop_keeps_to_its_registers(template: str, name: str, tmp_path: Path) -> None:
    loop = hot_loop(BLOCKS[template][name], template, tmp_path)
    each, stack = KNOWN.get((template, name), Loops(MOST_EACH, 0))
    found = figures(loop)
    code = "\n".join(loop.texts)
    assert found.each <= each + ROUNDING, f"{found} of {len(loop.code)} instructions:\n{code}"
    assert found.stack <= stack, f"{found} of {len(loop.code)} instructions:\n{code}"
