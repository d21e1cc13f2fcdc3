"""What holds for every template: its knobs, and that a block is matched once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import tvm
from tvm import relay

from tests.cached_attentions import attention_call
from tests.depthwise_pairs import blocked_image, depthwise, pointwise
from tests.recurrent_layers import layer_call
from tests.relay_modules import var
from tests.reuse_layers import SINGLES, TAILS, reuse_call
from tests.schedules.blocked_blocks import AVX2, AVX512, NEON, dense, describe
from tests.schedules.blocked_blocks import depthwise as depthwise_alone
from tests.schedules.byte_blocks import TILES, dense_of_bytes, window_of_bytes
from tests.schedules.filter_blocks import filter_window, scattered
from tests.schedules.frame_blocks import along, planes
from tests.schedules.gpu.gpu_blocks import describe as describe_for_gpu
from tests.schedules.matching import matched
from tests.schedules.matrix_blocks import attention, packed_dense
from tests.schedules.packed_blocks import case as packed_product
from tests.schedules.packed_blocks import rounded_case
from tests.schedules.sparse_blocks import Window, pruned, window
from tests.schedules.sparse_blocks import dense as sparse_product
from tests.schedules.winograd_convolution import filtered
from tvm_fusionx.operators.recurrent_layer import GRU, LSTM
from tvm_fusionx.processors.cpu import Cpu, describe_cpu
from tvm_fusionx.schedules import ALL_TEMPLATES, CPU_TEMPLATES, Template, resolve_target
from tvm_fusionx.tir.block import BlockInfo

PAD = (1, 1, 1, 1)
ONE = (1, 1)
POOL = {"pool_size": (3, 3), "strides": (2, 2), "padding": PAD}
SOFTMAX = relay.nn.softmax(var("x", 64, 256))
EXP = relay.exp(var("x", 64, 256))
FILTERS = Window(1, 16, 16, 7, 7)

BLOCKS: Mapping[str, tuple[relay.Expr, ...]] = {
    "winograd": (filtered((1, 16, 8, 8), 16, PAD, transforms_weights=True),),
    "depthwise_pointwise": (pointwise(depthwise(blocked_image(16, 13, 11), 16), 16, 24),),
    "byte_tiles": (dense_of_bytes(64, 64, 128)[0], window_of_bytes(64, (9, 11), 32, 3)[0]),
    "first_layer": (dense(3, (33, 33), 16, (3, 3), strides=(2, 2), padding=PAD, blocks=(1, 8)),),
    "pointwise_few_outputs": (
        dense(64, (7, 7), 2, ONE, blocks=(8, 2)),
        dense(64, (96, 96), 2, ONE, blocks=(8, 2)),
    ),
    "pointwise": (dense(96, (7, 7), 160, ONE), dense(96, (28, 28), 160, ONE)),
    "along_frames": (along(5, (4, 48), 8, post=planes),),
    "dilated": (dense(8, (9, 11), 24, (3, 3), padding=(2,) * 4, dilation=(2, 2)),),
    "joined_chunks": (dense(24, (14, 14), 12, (3, 3), padding=PAD, blocks=(8, 2)),),
    "conv2d": (dense(32, (14, 14), 64, (3, 3), padding=PAD),),
    "depthwise": (depthwise_alone(16, (7, 13), (3, 3), padding=PAD),),
    "pool": (
        relay.nn.max_pool2d(var("x", 1, 2, 11, 13, 8), **POOL, layout="NCHW8c"),
        relay.nn.global_avg_pool2d(var("x", 2, 3, 5, 7, 8), layout="NCHW8c"),
    ),
    "channel_pool": (relay.nn.max_pool2d(var("x", 1, 8, 11, 13), **POOL),),
    "streamed_attention": (attention(2, 13, 700, 4, 8),),
    "cached_attention": (attention_call(),),
    "packed_bytes": (
        rounded_case(1, 8, 16, 2, "Q4_1")[0],
        rounded_case(16, 8, 4, 2, "Q8_0")[0],
    ),
    "packed": (packed_product(1, 8, 16, 2, "Q4_1")[0], packed_product(16, 8, 4, 2, "Q8_0")[0]),
    "sparse": (
        sparse_product(16, pruned(32, 64, 16, 0.3), 16, 4)[0],
        window(Window(1, 16, 16, 7, 7), pruned(16, 144, 8, 0.3), 8, 4)[0],
    ),
    "sparse_filters": (filter_window(FILTERS, scattered(FILTERS, 0.3))[0],),
    "recurrent": (layer_call(LSTM), layer_call(GRU)),
    "reuse": (reuse_call(TAILS), reuse_call(SINGLES)),
    "dot": (packed_dense(16, 64, 24), packed_dense(1, 64, 48)),
    "moves": (relay.transpose(var("x", 3, 500, 40), (0, 2, 1)),),
    "rows": (SOFTMAX, EXP),
    "default": (SOFTMAX, EXP),
    "gpu_sparse": (
        sparse_product(16, pruned(32, 64, 16, 0.3), 16, 4)[0],
        window(Window(1, 16, 16, 7, 7, lanes=4, planar=True), pruned(16, 144, 8, 0.3), 8, 4)[0],
    ),
    "gpu_rows": (SOFTMAX,),
    "gpu_tile": (relay.nn.dense(var("x", 16, 64), var("w", 24, 64)),),
    "gpu_elementwise": (EXP,),
    "gpu_default": (SOFTMAX, EXP),
}
CPUS = {"AVX2": AVX2, "AVX-512": AVX512, "NEON": NEON}
# What a template asks of a processor beyond vectors.
ABILITIES: dict[str, dict[str, Any]] = {
    "packed_bytes": {"byte_dot": describe_cpu(resolve_target("llvm -mcpu=znver4")).byte_dot},
    "byte_tiles": {"tiles": describe_cpu(resolve_target(TILES)).tiles},
}


def _described(template: Template, cpu: Cpu) -> list[BlockInfo]:
    bodies = BLOCKS[template.name]
    if template in CPU_TEMPLATES:
        able = replace(cpu, **ABILITIES.get(template.name, {}))
        return [describe(body, able) for body in bodies]
    return [describe_for_gpu(body) for body in bodies]


def test_every_template_has_its_row() -> None:
    assert list(BLOCKS) == [template.name for template in CPU_TEMPLATES] + [
        template.name for template in ALL_TEMPLATES if template not in CPU_TEMPLATES
    ]


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("template", ALL_TEMPLATES, ids=lambda each: each.name)
def test_every_knob_offers_its_default_and_each_value_once(template: Template, cpu: str) -> None:
    for info in _described(template, CPUS[cpu]):
        for name, knob in matched(template, info).knobs().items():
            assert knob.default in knob.choices, name
            assert list(knob.choices) == sorted(set(knob.choices)), name
            assert all(type(each) is int for each in knob.choices), name


@pytest.mark.parametrize("template", ALL_TEMPLATES, ids=lambda each: each.name)
def test_a_match_gives_the_same_kernel_again_and_leaves_the_block_alone(template: Template) -> None:
    for info in _described(template, AVX2):
        before = tvm.ir.structural_hash(info.func)
        match = matched(template, info)
        values = {name: knob.default for name, knob in match.knobs().items()}
        first, second = match.emit(values), match.emit(values)
        assert tvm.ir.structural_equal(first, second)
        assert tvm.ir.structural_hash(info.func) == before
        assert not tvm.ir.structural_equal(first, info.func)
