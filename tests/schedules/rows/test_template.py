"""Everything without a dot product: row by row, any axis, any extent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay, te, tir
from tvm.target import Target

from tests.relay_modules import REASSOCIATING, TARGET, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import AVX2, as_block, assert_scheduled, unscheduled
from tests.schedules.matrix_blocks import layer_norm
from tvm_fusionx.lowering import lowering
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.schedules import resolve_target, schedule
from tvm_fusionx.schedules.rows.template import MustBeAloneError, refuse_recomputation
from tvm_fusionx.tir.block import describe_block

x = var("x", 13, 37)
image = var("x", 2, 19, 5, 7)


def _normed(rows: int, columns: int) -> relay.Expr:
    total = var("x", rows, columns) + var("y", rows, columns)
    return layer_norm(total, columns)


def _with_sum() -> relay.Expr:
    total = var("x", 6, 48) + var("y", 6, 48)
    return relay.Tuple([total, layer_norm(total, 48)])


def _rms_norm() -> relay.Expr:
    data = var("x", 5, 40)
    mean = relay.mean(data * data, axis=-1, keepdims=True)
    return data * relay.rsqrt(mean + relay.const(1e-6)) * var("gamma", 40)


def _gate(
    chunks: int, lanes: int, inner: int, inner_lanes: int, size: tuple[int, int] = (5, 7)
) -> relay.Expr:
    data = var("x", 1, chunks, *size, lanes)
    mean = relay.nn.global_avg_pool2d(data, layout=f"NCHW{lanes}c")
    for position, (to, width, of, was) in enumerate(
        [(inner, inner_lanes, chunks, lanes), (chunks, lanes, inner, inner_lanes)]
    ):
        weights = var(f"w{position}", to, of, 1, 1, was, width)
        product = relay.nn.contrib_conv2d_nchwc(
            mean,
            weights,
            kernel_size=(1, 1),
            channels=to * width,
            data_layout=f"NCHW{was}c",
            out_layout=f"NCHW{width}c",
            kernel_layout=f"OIHW{was}i{width}o",
        )
        mean = relay.nn.relu(product)
    return mean


def _loops(body: relay.Expr, cpu: Cpu) -> dict[str, list[Any]]:
    """Return the loops around each stage of a block scheduled for `cpu`, outermost first."""
    target = f"llvm -mcpu=x86-64-v3 -num-cores={cpu.cores}"
    sch = tir.Schedule(tvm.IRModule({"main": schedule(unscheduled(body), Target(target)).func}))
    return {
        sch.get(block).name_hint: [sch.get(loop) for loop in sch.get_loops(block)]
        for block in sch.get_child_blocks(sch.get_block("root"))
    }


def _kinds(loops: list[Any]) -> list[tuple[str, int]]:
    names = {tir.ForKind.PARALLEL: "parallel", tir.ForKind.UNROLLED: "unrolled"}
    return [
        (names[loop.kind], int(loop.extent))
        for loop in loops
        if loop.kind in names and int(loop.extent) > 1
    ]


def test_rows_that_are_added_up_side_by_side_hide_the_latency_of_an_addition() -> None:
    loops = _loops(_gate(144, 8, 6, 8, size=(7, 7)), AVX2)
    assert _kinds(loops["adaptive_pool_sum_update"]) == [("parallel", 24), ("unrolled", 6)]
    vector = loops["adaptive_pool_sum_update"][-1]
    assert (vector.kind, int(vector.extent)) == (tir.ForKind.VECTORIZED, AVX2.lanes)


def test_chunks_that_nothing_divides_are_summed_in_several_chains() -> None:
    loops = _loops(_gate(11, 8, 2, 11, size=(3, 96)), AVX2)
    assert _kinds(loops["adaptive_pool_sum_chains_update"])[-1] == ("unrolled", 6)
    vector = loops["adaptive_pool_sum_chains_update"][-1]
    assert (vector.kind, int(vector.extent)) == (tir.ForKind.VECTORIZED, AVX2.lanes)


def test_a_pool_whose_reader_has_one_row_shares_its_own_rows() -> None:
    loops = _loops(_gate(18, 8, 1, 6, size=(56, 56)), AVX2)
    assert _kinds(loops["adaptive_pool_sum_update"])[0][0] == "parallel"
    # Its reader has one row: waking the other cores would take longer.
    assert _kinds(loops["conv2d_NCHWc_update"]) == []


def test_a_small_pool_stays_with_its_reader() -> None:
    loops = _loops(_gate(4, 8, 1, 6), AVX2)
    assert all(kind != "parallel" for each in loops.values() for kind, _ in _kinds(each))


def _classes_of_a_volume() -> relay.Expr:
    """Return the last layers of a network for videos: a mean of each channel, and 400 sums."""
    mean = relay.nn.avg_pool3d(var("x", 1, 512, 2, 7, 7), pool_size=(2, 7, 7))
    return relay.nn.contrib_conv2d_nchwc(
        relay.reshape(mean, (1, 512, 1, 1, 1)),
        var("w", 50, 512, 1, 1, 1, 8),
        kernel_size=(1, 1),
        channels=400,
        data_layout="NCHW1c",
        out_layout="NCHW8c",
        kernel_layout="OIHW1i8o",
    )


def test_sums_of_one_pixel_are_shared_by_the_cores_after_a_pool() -> None:
    loops = _loops(_classes_of_a_volume(), AVX2)
    assert _kinds(loops["conv2d_NCHWc_update"]) == [("parallel", 10), ("unrolled", 5)]
    assert _kinds(loops["pool_sum_update"])[0][0] == "parallel"


def _last_scales() -> relay.Expr:
    """Return two convolutions of a detector's smallest pictures: 2x2 pixels, then one."""
    found = var("x", 1, 8, 2, 2, 8)
    for position, (to, of, kernel, pad) in enumerate([(16, 8, 3, 1), (9, 16, 1, 0)]):
        found = relay.nn.contrib_conv2d_nchwc(
            relay.nn.relu(found),
            var(f"w{position}", to, of, kernel, kernel, 8, 8),
            strides=(2, 2),
            padding=(pad,) * 4,
            kernel_size=(kernel, kernel),
            channels=to * 8,
            data_layout="NCHW8c",
            out_layout="NCHW8c",
            kernel_layout="OIHW8i8o",
        )
    return found


def test_a_chunk_of_sums_whose_weights_are_neighbours_is_a_vector() -> None:
    loops = _loops(_last_scales(), AVX2)
    for stage in ("conv2d_NCHWc_update", "conv2d_NCHWc_1_update"):
        vector = loops[stage][-1]
        assert (vector.kind, int(vector.extent)) == (tir.ForKind.VECTORIZED, AVX2.lanes), stage


BLOCKS = {
    "softmax": relay.nn.softmax(x),
    "softmax over rows": relay.nn.softmax(x, axis=0),
    "softmax over channels": relay.nn.softmax(image, axis=1),
    "softmax of short rows": relay.nn.softmax(var("x", 9, 3)),
    "log softmax": relay.nn.log_softmax(x),
    "layer norm": _normed(7, 64),
    "layer norm of a prime row": _normed(7, 61),
    "rms norm": _rms_norm(),
    "sum and norm": _with_sum(),
    "norm of a flattened result": relay.reshape(_normed(6, 48), (6 * 48,)),
    "norm then transpose": relay.transpose(relay.reshape(_normed(6, 48), (6, 3, 16)), (1, 0, 2)),
    "mean": relay.mean(x, axis=1),
    "sum of columns": relay.sum(x, axis=0),
    "sum of everything": relay.sum(relay.exp(x)),
    "sums of narrow rows": relay.mean(var("x", 3, 6, 7, 6), axis=(1, 2)),
    "squeeze and excite, chunks of 5 and 6": _gate(4, 6, 2, 5),
    "squeeze and excite, a large pool": _gate(6, 8, 1, 6, size=(30, 31)),
    "squeeze and excite, a pool of one chunk": _gate(1, 12, 6, 8, size=(40, 40)),
    "convolutions of few pixels": _last_scales(),
    "classes of a volume": _classes_of_a_volume(),
    "max over middle axes": relay.max(image, axis=(1, 2)),
    "product": relay.prod(var("x", 4, 40), axis=1),
    "global average": relay.mean(image, axis=(2, 3)),
    "two unrelated reductions": relay.sum(x, axis=1, keepdims=True)
    + relay.sum(x, axis=0, keepdims=True),
    "argmax": relay.argmax(x, axis=1),
    "argmin over rows": relay.argmin(x, axis=0),
    "elementwise": relay.exp(x) * var("y", 13, 37) + relay.const(1.0),
    "broadcast": relay.nn.relu(x + var("y", 37)),
    "slice": relay.strided_slice(x, [1, 2], [13, 30], [2, 3]),
    "pad": relay.nn.pad(image, ((0, 0), (0, 0), (1, 2), (3, 0))),
    "gather": relay.take(var("table", 11, 24), var("ids", 5, dtype="int32"), axis=0),
    "concatenation": relay.concatenate([x, relay.exp(x), x + relay.const(1.0)], axis=1),
    "several results": relay.Tuple([relay.exp(x), relay.sum(x, axis=0), relay.transpose(x)]),
    "resize": relay.image.resize2d(image, (10, 14), method="nearest_neighbor"),
    "scalar": relay.exp(var("x")),
    "integers": var("x", 5, 9, dtype="int64") * var("y", 5, 9, dtype="int64"),
    "booleans": relay.logical_and(var("x", 33, dtype="bool"), var("y", 33, dtype="bool")),
}


@pytest.mark.parametrize("case", few_fast(BLOCKS))
def test_block(case: str) -> None:
    assert_scheduled(BLOCKS[case], "rows", REASSOCIATING)


@pytest.mark.parametrize("columns", few_fast([1, 5, 40], 2))
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_a_row_of_minus_infinity_is_nan(name: str, columns: int) -> None:
    array = np.random.default_rng(columns).standard_normal((4, columns)).astype("float32")
    array[1] = -np.inf
    array[2, 0] = np.nan
    array[3, -1] = np.inf
    target = resolve_target(TARGET)
    with lowering(target):
        library = relay.build(as_block(getattr(relay.nn, name)(var("x", 4, columns))), target)
    (found,) = run_once(library, {"x": array})
    assert np.isnan(found).all(axis=1).tolist() == [False, True, True, True]
    assert np.isfinite(found[0]).all()


def test_a_stage_of_which_each_row_needs_another_number_is_a_nest_of_its_own() -> None:
    a = te.placeholder((64,), name="a")
    b = te.compute((64,), lambda i: a[i] * 2.0, name="b")
    # Row i reads the first i + 1 elements.
    c = te.compute((64, 64), lambda i, j: b[tir.min(i, j)], name="c")
    function = te.create_prim_func([a, c])
    info = describe_block(function, AVX2)
    sch = tir.Schedule(function)
    sch.compute_at(sch.get_block("b"), sch.get_loops("c")[0], preserve_unit_loops=True)
    with pytest.raises(MustBeAloneError):
        refuse_recomputation(sch, info.stages["b"], sch.get_block("b"), 64)
    assert schedule(function, Target(TARGET)).template == "rows"
