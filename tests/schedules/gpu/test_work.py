"""Counts of kernels that are small enough to count by hand."""

from __future__ import annotations

from typing import Any

from tvm.script import tir as T  # noqa: N812

from tvm_fusionx.schedules.gpu.work import gpu_work


@T.prim_func
def _product(
    a: T.handle("float32", "global"),
    b: T.handle("float32", "global"),
    c: T.handle("float32", "global"),
):
    left = T.decl_buffer((64,), data=a)
    right = T.decl_buffer((32,), data=b)
    out = T.decl_buffer((8,), data=c)
    block = T.launch_thread("blockIdx.x", 2)
    sums_data = T.allocate([1], "float32", "local")
    sums = T.decl_buffer((1,), data=sums_data, scope="local")
    item = T.launch_thread("threadIdx.x", 4)
    sums[0] = T.float32(0)
    for k in range(8):
        sums[0] = sums[0] + left[block * 32 + item * 8 + k] * right[item * 8 + k]
    out[block * 4 + item] = T.max(sums[0], T.float32(0))


@T.prim_func
def _vectors(a: T.handle("float16", "global"), c: T.handle("float16", "global")):
    left = T.decl_buffer((64,), "float16", data=a)
    out = T.decl_buffer((64,), "float16", data=c)
    block = T.launch_thread("blockIdx.x", 4)
    item = T.launch_thread("threadIdx.x", 4)
    shared_data = T.allocate([16], "float16", "shared")
    shared = T.decl_buffer((16,), "float16", data=shared_data, scope="shared")
    shared[T.Ramp(item * 4, 1, 4)] = left[T.Ramp(block * 16 + item * 4, 1, 4)]
    T.tvm_storage_sync("shared")
    if item < 4:
        out[T.Ramp(block * 16 + item * 4, 1, 4)] = shared[T.Ramp(item * 4, 1, 4)] * T.Broadcast(
            T.float16(2), 4
        )


def test_a_product_is_counted_over_all_work_items() -> None:
    work = gpu_work(_product)
    assert (work.groups, work.group_items, work.items) == (2, 4, 8)
    assert work.multiply_adds == 8 * 8
    assert work.operations == 8  # The maxima.
    assert (work.loads, work.load_bytes) == (2 * 64, 2 * 64 * 4)
    assert (work.stores, work.store_bytes) == (8, 32)
    assert work.registers == 1
    assert work.argument_bytes == (64 + 32 + 8) * 4
    assert work.loads_a_multiply_add == 8


def test_vectors_are_one_access_and_halves_are_counted_apart() -> None:
    work = gpu_work(_vectors)
    assert work.items == 16
    assert (work.loads, work.load_bytes) == (16, 16 * 8)
    assert (work.stores, work.store_bytes) == (16, 16 * 8)
    assert work.group_accesses == 2 * 16
    assert work.barriers == 1
    assert (work.operations, work.half_operations) == (0, 64)
    assert work.multiply_adds == work.half_multiply_adds == 0
    assert work.loads_a_multiply_add == 0
    assert work.argument_bytes == 2 * 64 * 2


def _image(columns: int) -> Any:
    @T.prim_func
    def function(image: T.handle("float32", "global.texture"), c: T.handle("float32", "global")):
        out = T.decl_buffer((32,), data=c)
        item = T.launch_thread("threadIdx.x", 8)
        out[T.Ramp(item * 4, 1, 4)] = T.exp(
            T.call_intrin(
                "float32x4",
                "tir.texture2d_load",
                image,
                item % columns,
                item // columns,
                T.Ramp(0, 1, 4),
            )
        )

    return function


def test_pixels_are_read_of_images_and_functions_are_operations() -> None:
    work = gpu_work(_image(4))
    assert (work.image_loads, work.image_load_bytes, work.loads) == (8, 128, 0)
    assert work.operations == 32
    # Two rows of four pixels, and what is written.
    assert work.argument_bytes == 2 * 4 * 16 + 128


@T.prim_func
def _list(a: T.handle("float32", "global"), c: T.handle("float32", "global"), n: T.int32):
    left = T.decl_buffer((64,), data=a)
    out = T.decl_buffer((4,), data=c)
    for k in T.serial(n, annotations={"fusionx.mean_extent": 3}):
        out[T.Ramp(0, 1, 4)] = T.call_pure_extern(
            "float32x4", "vload4", 0, T.address_of(left[k * 4 + 1])
        )


def test_a_list_is_as_long_as_the_mean_and_a_vector_by_name_is_one_load() -> None:
    work = gpu_work(_list)
    assert (work.loads, work.load_bytes) == (3, 3 * 16)
    assert (work.stores, work.operations) == (3, 0)
