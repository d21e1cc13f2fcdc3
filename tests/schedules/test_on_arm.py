"""Every template's kernels on Arm: compiled for aarch64, run under emulation, right numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.cached_attentions import attention_call
from tests.depthwise_pairs import hard_swish as pair_hard_swish
from tests.depthwise_pairs import pair
from tests.recurrent_layers import layer_call
from tests.relay_modules import (
    EXACT,
    REASSOCIATING,
    assert_close,
    inputs_of,
    module,
    run_plain,
    var,
)
from tests.reuse_layers import SINGLES, TAILS, reuse_call
from tests.sampled import few_fast, few_fast_rows
from tests.schedules.arm_board import ARMV82, NEON, Board, emulated_arm, target_with
from tests.schedules.blocked_blocks import NEON as NEON_CPU
from tests.schedules.blocked_blocks import (
    REFERENCE,
    as_block,
    dense,
    depthwise,
    hard_swish,
    unscheduled,
)
from tests.schedules.filter_blocks import case as filters_case
from tests.schedules.float_functions import FUNCTIONS, arguments, assert_accurate
from tests.schedules.frame_blocks import along, frames
from tests.schedules.half_blocks import (
    assert_same_to_a_step,
    float32_outputs,
    half_block,
    half_inputs,
    in_16_bits,
)
from tests.schedules.matrix_blocks import (
    attention,
    attention_scores,
    gelu,
    layer_norm,
    packed_dense,
)
from tests.schedules.packed_blocks import case as packed_product
from tests.schedules.packed_blocks import rounded_case as rounded_product
from tests.schedules.sparse_blocks import case as sparse_product
from tests.schedules.winograd_convolution import WINOGRAD_TOLERANCE, direct, filtered
from tests.verified_kernels import kernels
from tvm_fusionx.devices import Device
from tvm_fusionx.lowering import lowering
from tvm_fusionx.operators.recurrent_layer import GRU, LSTM
from tvm_fusionx.processors.targets import target_key
from tvm_fusionx.records import Record
from tvm_fusionx.schedules import CPU_TEMPLATES, schedule
from tvm_fusionx.schedules.default import DEFAULT
from tvm_fusionx.schedules.lowering_log import TOPI_TEMPLATE, block_hash

# Sums of 24 products of float16, each rounded to 11 bits (IEEE 754).
HALF_TOLERANCE = 24 * 2.0**-11

HALF = "float16"

ONE = (1, 1, 1, 1)
# Chunks of one vector of 128 bits, as they are packed for Arm; and of a picture's channels.
FOURS, FIRST = (4, 4), (1, 4)
WINOGRAD_SHAPE = (1, 16, 7, 10)


@dataclass(frozen=True)
class Case:
    """A block, what plain TVM computes in its place, and how far apart the two may be."""

    body: relay.Expr
    plain: relay.Expr | None = None
    tolerance: float = REASSOCIATING
    features: str = NEON
    """What the board must have."""


def _masked(x: relay.Expr) -> relay.Expr:
    return relay.where(relay.greater(x, relay.const(0.0)), relay.exp(x), x) + var("y", 37)


def _pieces(**attrs: Any) -> relay.Expr:
    pieces = [var(f"p{place}", 1, size, 4, 7, 18) for place, size in enumerate((2, 3, 1))]
    window = {"pool_size": (3, 3, 3), "padding": (1,) * 6}
    return relay.nn.max_pool3d(relay.concatenate(pieces, axis=1), **window, **attrs)


def _half(name: str, *shape: int) -> relay.Var:
    return var(name, *shape, dtype="float16")


def _bytes(name: str, *shape: int) -> relay.Var:
    return var(name, *shape, dtype="int8")


# By the template that must serve it. A template without a case fails a test.
CASES: dict[str, dict[str, Case]] = {
    "winograd": {
        "parts of tiles": Case(
            hard_swish(filtered(WINOGRAD_SHAPE, 24, ONE)),
            hard_swish(direct(WINOGRAD_SHAPE, 24, ONE)),
            WINOGRAD_TOLERANCE,
        ),
        "small tiles": Case(
            hard_swish(filtered((1, 48, 7, 9), 32, ONE, 2, cpu=NEON_CPU)),
            hard_swish(direct((1, 48, 7, 9), 32, ONE)),
            WINOGRAD_TOLERANCE,
        ),
    },
    "depthwise_pointwise": {
        "stride 2, odd sizes": Case(
            pair(
                24,
                (9, 11),
                40,
                stride=2,
                block=4,
                out_block=4,
                between=pair_hard_swish,
                after=pair_hard_swish,
            )
        ),
        "chunks of 8": Case(pair(16, (7, 9), 24)),
        "rows shared, weights side by side": Case(pair(96, (7, 9), 24, block=4, out_block=4)),
    },
    "first_layer": {
        "stride 2": Case(
            dense(
                3, (11, 14), 16, (3, 3), strides=(2, 2), padding=ONE, blocks=(1, 4), post=hard_swish
            )
        ),
        "chunks of 8": Case(dense(3, (7, 9), 16, (3, 3), padding=ONE, blocks=(1, 8))),
    },
    "dilated": {
        "chunks of 4": Case(
            dense(8, (7, 9), 16, (3, 3), padding=(2,) * 4, dilation=(2, 2), blocks=(4, 4))
        )
    },
    "conv2d": {
        "odd": Case(dense(12, (7, 13), 20, (3, 3), padding=ONE, blocks=FOURS, post=hard_swish)),
        "rows and columns of no whole tile": Case(
            dense(8, (3, 17), 24, (3, 3), strides=(2, 1), padding=ONE, blocks=FOURS)
        ),
        "chunks of 8, one row": Case(dense(16, (1, 35), 24, (1, 1), post=relay.sigmoid)),
        "groups": Case(dense(16, (6, 7), 16, (3, 3), padding=ONE, groups=2)),
    },
    "joined_chunks": {"odd": Case(dense(12, (7, 13), 10, (3, 3), padding=ONE, blocks=(4, 2)))},
    "pointwise": {
        "odd sizes": Case(dense(12, (7, 13), 20, (1, 1), blocks=(4, 4), post=hard_swish)),
        "weights side by side": Case(dense(96, (7, 13), 40, (1, 1), blocks=FOURS, post=hard_swish)),
        "pixels of no whole tile": Case(dense(8, (7, 11), 24, (1, 1), blocks=FOURS)),
        "chunks of 8, blocks of channels": Case(
            dense(1024, (3, 5), 16, (1, 1), post=relay.sigmoid)
        ),
        "five chunks of 2 in three vectors": Case(
            dense(12, (5, 7), 10, (1, 1), blocks=(4, 2), post=hard_swish)
        ),
    },
    "pointwise_few_outputs": {
        "planes": Case(
            dense(
                64,
                (5, 13),
                2,
                (1, 1),
                blocks=(4, 2),
                post=lambda y: relay.sigmoid(relay.layout_transform(y, "NCHW2c", "NCHW")),
            )
        ),
        "a chunk of 2, from chunks of 8": Case(
            dense(24, (6, 7), 2, (1, 1), blocks=(8, 2), post=hard_swish)
        ),
    },
    "moves": {
        "planes into rows, joined": Case(
            relay.concatenate(
                [
                    relay.transpose(var(f"x{n}", channels, pixels), (1, 0))
                    for n, (channels, pixels) in enumerate([(12, 37), (12, 9), (12, 3)])
                ],
                0,
            )
        ),
        "three colours": Case(relay.transpose(var("x", 2, 3, 7, 9), (0, 2, 3, 1))),
        "pixels as planes": Case(relay.transpose(var("x", 2, 7, 9, 3), (0, 3, 1, 2))),
        "a matrix": Case(relay.transpose(var("x", 41, 26))),
        "a matrix of halves": Case(relay.transpose(_half("x", 41, 26)), tolerance=EXACT),
    },
    "along_frames": {
        "columns of no whole panel": Case(
            along(
                6,
                (4, 77),
                12,
                blocks=(1, 4),
                post=lambda y: relay.layout_transform(y, "NCHW4c", "NCHW"),
            )
        ),
        "frames, every second row": Case(
            along(
                5, (9, 48), 16, kernel=5, strides=(2, 1), post=lambda y: relay.nn.relu(frames(y, 6))
            )
        ),
    },
    "depthwise": {
        "odd sizes": Case(depthwise(12, (7, 13), (3, 3), padding=ONE, block=4, post=hard_swish)),
        "strips of rows": Case(depthwise(12, (14, 15), (5, 5), padding=(2, 2, 2, 2), block=4)),
        "stride 2, chunks of 8": Case(
            depthwise(16, (9, 11), (5, 5), strides=(2, 2), padding=(2, 2, 2, 2))
        ),
    },
    "pool": {
        "average": Case(
            relay.nn.relu(
                relay.nn.avg_pool2d(var("x", 1, 3, 11, 13, 4), (3, 3), (2, 2), layout="NCHW4c")
            )
        ),
        "global maximum": Case(
            relay.nn.global_max_pool2d(var("x", 1, 3, 5, 7, 8), layout="NCHW8c")
        ),
    },
    "channel_pool": {
        "pieces": Case(_pieces(), tolerance=EXACT),
        "pieces, elements apart": Case(_pieces(strides=(2, 2, 2)), tolerance=EXACT),
    },
    "streamed_attention": {
        "tails": Case(relay.nn.relu(attention(2, 13, 37, 5, 21)) + var("r", 13, 42)),
        "heads": Case(attention(3, 16, 16, 8, 8)),
        "chunks": Case(attention(1, 9, 601, 4, 8)),
    },
    "packed": {
        "nibbles with minima": Case(*packed_product(1, 6, 4, 3, "Q4_1")),
        "nibbles": Case(*packed_product(5, 3, 4, 2, "Q4_0")),
        "bytes": Case(*packed_product(7, 4, 4, 2, "Q8_0")),
    },
    "cached_attention": {"two tiles of heads": Case(attention_call(2, 5))},
    "packed_bytes": {
        "nibbles with minima": Case(*rounded_product(1, 6, 4, 3, "Q4_1"), features=ARMV82),
        "nibbles": Case(*rounded_product(5, 3, 4, 2, "Q4_0"), features=ARMV82),
        "bytes": Case(*rounded_product(7, 4, 4, 2, "Q8_0"), features=ARMV82),
    },
    "sparse": {
        "tails": Case(*sparse_product(13, 44, 24, 16, 4)),
        "one row": Case(*sparse_product(1, 32, 24, 8, 4)),
    },
    "sparse_filters": {
        "tails": Case(filters_case(by_pattern=False)),
        "patterns": Case(filters_case(by_pattern=True)),
    },
    "recurrent": {
        "both ways, tails": Case(layer_call(LSTM)),
        "reset first": Case(layer_call(GRU)),
    },
    "reuse": {
        "windows": Case(reuse_call(TAILS)),
        "singles": Case(reuse_call(SINGLES)),
    },
    "dot": {
        "tails, gelu": Case(gelu(packed_dense(13, 40, 7, width=8))),
        "rows side by side, gelu": Case(gelu(packed_dense(16, 96, 12, width=12))),
        "rows of no whole tile side by side": Case(packed_dense(23, 96, 8, width=12)),
        "rows of no whole tile, three vectors": Case(packed_dense(20, 36, 19, width=12)),
        "rows of no whole tile, four vectors": Case(relay.nn.relu(packed_dense(23, 48, 24))),
        "residual and norm": Case(
            layer_norm(packed_dense(13, 24, 20, width=8) + var("residual", 13, 24), 24)
        ),
        "one row": Case(relay.nn.relu(packed_dense(1, 24, 33, width=8))),
        "batches": Case(relay.nn.softmax(attention_scores(3, 10, 11, 5))),
        "float16": Case(
            relay.nn.relu(relay.nn.dense(_half("x", 13, 24), _half("w", 40, 24))),
            tolerance=HALF_TOLERANCE,
        ),
    },
    "rows": {
        "norm of a prime row": Case(layer_norm(var("x", 7, 61) + var("y", 7, 61), 61)),
        "softmax over channels": Case(relay.nn.softmax(var("x", 2, 19, 5, 7), axis=1)),
        "argmax": Case(relay.argmax(var("x", 13, 37), axis=1)),
        "broadcast": Case(_masked(var("x", 13, 37))),
        "products of bytes": Case(
            relay.nn.dense(_bytes("x", 13, 24), _bytes("w", 40, 24), out_dtype="int32")
        ),
        "integers": Case(var("x", 5, 9, dtype="int64") * var("y", 5, 9, dtype="int64")),
        "float16": Case(
            relay.nn.relu(_half("x", 5, 19) * _half("y", 5, 19) + _half("z", 19)),
            tolerance=2.0**-10,
        ),
    },
    # Serves only what the others failed on.
    "default": {"norm": Case(layer_norm(var("x", 7, 33), 33))},
    TOPI_TEMPLATE: {"sorted": Case(relay.sort(var("x", 5, 13)), tolerance=EXACT)},
}

# Blocks that LLVM makes other code of where the processor has the extensions.
EXTENDED = ("float16", "products of bytes")

# One case of each template first.
ROWS = [
    (template, name, cases[name].features)
    for place in range(max(map(len, CASES.values())))
    for template, cases in CASES.items()
    for name in [*cases][place : place + 1]
]
ROWS += [(template, name, ARMV82) for template, name, _ in ROWS if name in EXTENDED]


@pytest.fixture(scope="module", name="board")
def fixture_board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    with emulated_arm(tmp_path_factory.mktemp("arm")) as board:
        yield board


def test_every_template_has_a_case() -> None:
    assert {template.name for template in CPU_TEMPLATES} <= {*CASES, "byte_tiles"}  # x86's alone


@pytest.mark.parametrize(("template", "name", "features"), few_fast_rows(ROWS))
def test_a_kernel_is_right(board: Board, template: str, name: str, features: str) -> None:
    case = CASES[template][name]
    target = target_with(board.bench.device, features)
    if template != TOPI_TEMPLATE:  # the only one of kernels of TVM's own
        asked_for = template if template == DEFAULT.name else None
        made = schedule(unscheduled(case.body, target), target, template=asked_for)
        assert (made.template, made.fallback_reason) == (template, None)
        question = (module(case.body), module(case.plain or case.body), case.tolerance, Board.run)
        if kernels.has(made.func, target, (*question, *REFERENCE)):
            return
    mod = as_block(case.body)
    inputs = inputs_of(mod)
    expected = run_plain(module(case.plain or case.body), inputs)
    assert all(np.isfinite(array).all() for array in expected)
    with lowering(target, _pinned(template, case.body, target)) as log:
        library = relay.build(mod, target)
    assert [entry.template for entry in log.entries] == [template]
    assert template == TOPI_TEMPLATE or tvm.ir.structural_equal(log.entries[0].func, made.func)
    assert_close(board.run(library, inputs), expected, case.tolerance)


# Of whatever lies in memory as halves, a case of each template; those that only move have none,
# and recurrent layers, caches and those that reuse products stay float32.
HALF_ROWS = [
    (template, name)
    for template, cases in CASES.items()
    for name in [*cases][:1]
    if template not in ("moves", "cached_attention", "recurrent", "reuse", TOPI_TEMPLATE)
]
CORE = "cortex-a76"


@pytest.mark.parametrize(("template", "name"), few_fast_rows(HALF_ROWS, 1))
def test_a_kernel_of_halves_in_memory_is_right(board: Board, template: str, name: str) -> None:
    case = CASES[template][name]
    mod = half_block(case.body, HALF)
    wide = half_inputs(module(case.body), HALF)
    expected = float32_outputs(case.plain or case.body, wide, HALF)
    given = {name: array.astype(HALF) for name, array in wide.items()}
    assert all(np.isfinite(array).all() for array in expected)
    target = _core(board.bench.device)
    with lowering(target, _pinned(template, in_16_bits(case.body, HALF), target)) as log:
        library = relay.build(mod, target)
    assert [entry.template for entry in log.entries] == [template]
    assert log.entries[0].fallback_reason is None
    assert_same_to_a_step(board.run(library, given), expected, HALF)


def _core(device: Device) -> tvm.target.Target:
    """Return the target of a device for a core of Armv8.2, which converts four halves at a time."""
    return replace(device, target=f"{device.target} -mcpu={CORE}").tvm_target()


def _pinned(template: str, body: relay.Expr, target: tvm.target.Target) -> dict[str, Record]:
    """Return a record that makes the template serve a block that it is only the last resort of."""
    if template != DEFAULT.name:
        return {}
    digest = block_hash(unscheduled(body, target))
    return {digest: Record(target_key(target), digest, template, {})}


@pytest.mark.parametrize("name", few_fast(FUNCTIONS, 1))
def test_error_in_units_in_the_last_place(board: Board, name: str) -> None:
    function, _, _ = FUNCTIONS[name]
    x = arguments()
    target = board.bench.device.tvm_target()
    with lowering(target):
        library = relay.build(as_block(function(var("x", len(x)))), target)
    (found,) = board.run(library, {"x": x})
    assert_accurate(name, x, found)
