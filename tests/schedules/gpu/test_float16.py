from __future__ import annotations

import pytest
import tvm
from tvm import relay, tir
from tvm.script import tir as T  # noqa: N812 - TVM's own spelling of its script

from tests.opencl_device import require_opencl
from tests.relay_modules import REASSOCIATING, var
from tests.schedules.blocked_blocks import as_block
from tests.schedules.gpu.gpu_blocks import OPENCL, assert_runs
from tvm_fusionx.lowering import lowering
from tvm_fusionx.schedules.gpu.float16 import compute_in_float32

HALF = "float16"

# A half rounds to the nearest of those 2**-11 around it; two right sums may round apart.
ONE_STEP = 2.0**-10


def _wide(name: str, *shape: int) -> relay.Expr:
    """Return a parameter that lies in memory as float16, in float32."""
    return relay.cast(var(name, *shape, dtype=HALF), "float32")


def _half(body: relay.Expr) -> relay.Expr:
    return relay.cast(body, HALF)


BLOCKS = {
    "product": (relay.nn.matmul(_wide("x", 33, 30), _wide("w", 30, 50)), "gpu_tile", {"tile_x": 4}),
    "staged": (
        relay.nn.batch_matmul(_wide("x", 2, 32, 32), _wide("w", 2, 32, 48), transpose_b=False),
        "gpu_tile",
        {"tile_x": 4, "tile_y": 4, "items_x": 8, "items_y": 8, "staged": 1},
    ),
    "softmax": (relay.nn.softmax(_wide("x", 8, 96)), "gpu_rows", {}),
    "vectors": (_wide("x", 8, 16) * _wide("y", 8, 16) + _wide("z", 16), "gpu_elementwise", {}),
    "apart": (relay.transpose(_wide("x", 8, 12) + _wide("y", 8, 12)), "gpu_elementwise", {}),
    "chunks": (
        relay.nn.contrib_conv2d_nchwc(
            _wide("x", 1, 2, 6, 6, 4),
            _wide("w", 2, 2, 3, 3, 4, 4),
            channels=8,
            kernel_size=(3, 3),
            padding=(1, 1),
            data_layout="NCHW4c",
            kernel_layout="OIHW4i4o",
            out_layout="NCHW4c",
        ),
        "gpu_tile",
        {"tile_x": 4, "tile_y": 2},
    ),
}
FAST = ("product", "vectors")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in FAST else pytest.mark.slow) for n in BLOCKS]
)
@pytest.mark.parametrize("stores", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_halves_in_memory_are_float32_in_registers(name: str, stores: bool) -> None:
    body, template, knobs = BLOCKS[name]
    assert_runs(
        _half(body) if stores else body,
        template,
        knobs=knobs,
        tolerance=ONE_STEP if stores else REASSOCIATING,
    )


def test_the_source_needs_no_extension_of_opencl() -> None:
    require_opencl()
    body = _half(relay.nn.relu(_wide("x", 4, 16)))
    with lowering(OPENCL):
        library = relay.build(as_block(body), OPENCL)
    source = library.get_lib().imported_modules[0].get_source()
    assert "vload_half4(0, (const __global half*)" in source
    assert "vstore_half4_rte(" in source
    assert "cl_khr_fp16" not in source


def _device_module(func: tir.PrimFunc) -> tvm.IRModule:
    return tvm.IRModule({"main": func})


def test_functions_without_halves_are_left_alone() -> None:
    @T.prim_func
    def copy(a: T.handle("float32", "global"), b: T.handle("float32", "global")):
        x = T.decl_buffer((4,), data=a)
        y = T.decl_buffer((4,), data=b)
        y[T.Ramp(0, 1, 4)] = x[T.Ramp(0, 1, 4)]

    mod = _device_module(copy)
    assert tvm.ir.structural_equal(compute_in_float32(mod), mod)


def test_vectors_of_elements_that_lie_apart_are_loaded_and_stored_one_by_one() -> None:
    @T.prim_func
    def spread(a: T.handle("float16", "global"), b: T.handle("float16", "global")):
        x = T.decl_buffer((8,), "float16", data=a)
        y = T.decl_buffer((8,), "float16", data=b)
        y[T.Ramp(0, 2, 4)] = x[T.Ramp(1, 2, 4)] + T.Broadcast(T.float16(1), 4)

    text = compute_in_float32(_device_module(spread))["main"].script()
    assert text.count('"vload_half"') == 4
    assert text.count('"vstore_half_rte"') == 4
    assert "float16" not in text


def test_arithmetic_conditions_and_constants_are_widened() -> None:
    @T.prim_func
    def compute(a: T.handle("float16", "global"), b: T.handle("float16", "global"), n: T.int32):
        x = T.decl_buffer((8,), "float16", data=a)
        y = T.decl_buffer((8,), "float16", data=b)
        kept = T.allocate([1], "float16", "local")
        held = T.decl_buffer((1,), "float16", data=kept, scope="local")
        held[0] = T.if_then_else(n < 4, T.exp(x[n]), T.float16(0))
        with T.LetStmt(held[0] * held[0]) as square:
            y[n] = T.Select(square > T.float16(1), T.max(square, x[n]), T.Cast("float16", n))

    found = compute_in_float32(_device_module(compute))["main"]
    text = found.script()
    assert "float16" not in text
    assert 'held = T.decl_buffer((1,), scope="local")' in text, "float32 is what TVM does not print"
    assert [str(p.type_annotation.element_type.dtype) for p in found.params[:2]] == ["uint16"] * 2


def test_registers_of_vectors_keep_their_lanes() -> None:
    @T.prim_func
    def copy(a: T.handle("float16", "global"), b: T.handle("float16", "global")):
        x = T.decl_buffer((8,), "float16", data=a)
        y = T.decl_buffer((8,), "float16", data=b)
        kept = T.allocate([2], "float16x4", "local")
        held = T.decl_buffer((2,), "float16x4", data=kept, scope="local")
        held[1] = x[T.Ramp(4, 1, 4)]
        y[T.Ramp(0, 1, 4)] = held[1]

    text = compute_in_float32(_device_module(copy))["main"].script()
    assert "float16" not in text
    assert 'held = T.decl_buffer((2,), "float32x4", scope="local")' in text
