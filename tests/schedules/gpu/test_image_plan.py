from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import relay

import tvm_fusionx as fx
from tests.relay_modules import const, module, var
from tests.schedules.gpu.test_pixels import _apart, _kernel
from tvm_fusionx._tvm.executors import watch_lowered_model
from tvm_fusionx.lowering import lowering
from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.schedules.gpu.image_plan import (
    Tensor,
    plan_images,
    tensors_between,
    why_no_image,
    with_images,
)

OPENCL = tvm.target.Target("opencl", host="llvm")
SHAPE = (1, 2, 6, 20, 4)
NAMES = ("p0", "out")


@pytest.mark.parametrize(
    ("shape", "dtype", "reason"),
    [
        ((1, 4, 8, 8, 4), "float32", None),
        ((1, 4, 8, 8, 4), "float16", "holds float16"),
        ((32, 4), "float32", "not a pixel"),
        ((1, 4, 8, 8), "float32", "not a pixel"),
        ((1, 5, 8, 8, 4), "float32", "40 x 8 pixels"),
        ((1, 1, 1, 33, 4), "float32", "1 x 33 pixels"),
    ],
)
def test_which_tensors_have_the_shape_of_an_image(
    shape: tuple[int, ...], dtype: str, reason: str | None
) -> None:
    found = why_no_image(shape, dtype, Gpu(texture_extent=32))
    assert found is None if reason is None else reason in str(found)


def _lowered(body: relay.Expr) -> Any:
    """Return the calls of kernels that a body becomes, an operator a kernel."""
    blocks = fx.pipeline(OPENCL, fuse=False)(module(body))
    seen: list[Any] = []
    with watch_lowered_model(seen.append), lowering(OPENCL):
        relay.build(blocks, OPENCL)
    return seen[-1]


def _tensors(body: relay.Expr) -> dict[str, Tensor]:
    found = tensors_between(_lowered(body), Gpu())
    return {each.writer.removeprefix("tvmgen_default_fused_"): each for each in found}


def _chunked() -> relay.Expr:
    return var("x", *SHAPE)


def test_a_tensor_knows_who_writes_and_who_reads_it() -> None:
    found = _tensors(relay.exp(relay.tanh(_chunked())))
    assert found["tanh"].readers == (("tvmgen_default_fused_exp", 0),)
    assert found["tanh"].place == 1
    assert found["tanh"].shape == SHAPE
    assert found["tanh"].columns == 20
    assert found["tanh"].refusal is None
    assert found["exp"].refusal == "it is an output of the model"


def test_what_is_read_twice_has_two_readers() -> None:
    x = relay.tanh(_chunked())
    readers = _tensors(x + relay.exp(x))["tanh"].readers
    assert {symbol.rsplit("_", 1)[1] for symbol, _ in readers} == {"add", "exp"}


def test_views_and_outputs_of_tuples_stay_buffers() -> None:
    x, y = relay.tanh(_chunked()), relay.sin(_chunked())
    body = relay.Tuple([relay.exp(relay.reshape(x, (2, 6, 20, 4))), y, relay.cos(y)])
    found = _tensors(body)
    assert found["tanh"].refusal == "a view of it is taken"
    assert found["sin"].refusal == "it is an output of the model"


def test_kernels_of_several_results_write_buffers() -> None:
    best = relay.topk(relay.tanh(_chunked()), k=2, axis=1)
    found = _tensors(relay.Tuple([relay.exp(best[0]), best[1]]))
    assert found["topk"].refusal == "its kernel has several results"


def _planned(writer: Any, reader: Any, body: relay.Expr | None = None) -> Any:
    """Return what is planned for a tensor between two given kernels."""
    main = _lowered(body if body is not None else relay.exp(relay.tanh(_chunked())))
    symbols = ["tvmgen_default_fused_tanh", "tvmgen_default_fused_exp"]
    kernels = {
        tvm.ir.GlobalVar(f"{symbol}_kernel"): func
        for symbol, func in zip(symbols, (writer, reader), strict=True)
        if func is not None
    }
    parameters = dict.fromkeys(symbols, NAMES)
    plan = plan_images(main, kernels, parameters, Gpu())
    return plan, with_images(kernels, parameters, plan.placed)


def _named(func: Any) -> Any:
    """Return a device function whose parameters have names of their own."""
    fresh = {
        param: tvm.tir.Var(name, param.type_annotation)
        for param, name in zip(func.params, NAMES, strict=True)
    }

    def moved(node: Any) -> Any:
        data = next((new for old, new in fresh.items() if node.buffer.data.same_as(old)), None)
        if data is None:
            return None
        buffer = tvm.tir.decl_buffer(node.buffer.shape, node.buffer.dtype, "flat", data)
        if isinstance(node, tvm.tir.BufferStore):
            return tvm.tir.BufferStore(buffer, node.value, node.indices)
        return tvm.tir.BufferLoad(buffer, node.indices)

    kinds = ["tir.BufferLoad", "tir.BufferStore"]
    body = tvm.tir.stmt_functor.ir_transform(func.body, None, moved, kinds)
    return tvm.tir.PrimFunc(list(fresh.values()), body, func.ret_type, None, func.attrs)


def test_a_tensor_that_both_kernels_take_in_pixels_is_an_image_for_both() -> None:
    plan, kernels = _planned(_named(_kernel), _named(_kernel))
    assert plan.placed == {
        "tvmgen_default_fused_tanh": {1: 20},
        "tvmgen_default_fused_exp": {0: 20},
    }
    texts = [func.script() for func in kernels.values()]
    assert ["texture2d_store" in text for text in texts] == [True, False]
    assert ["texture2d_load" in text for text in texts] == [False, True]


@pytest.mark.parametrize(
    ("writer", "reader", "reason"),
    [
        (_apart, _kernel, "its writer: stores are no whole pixels"),
        (_kernel, _apart, "a reader: loads are no whole pixels"),
        (None, _kernel, "TVM schedules one of its kernels by itself"),
        (_kernel, None, "TVM schedules one of its kernels by itself"),
    ],
)
def test_a_tensor_that_one_kernel_takes_otherwise_stays_a_buffer(
    writer: Any, reader: Any, reason: str
) -> None:
    given = [None if func is None else _named(func) for func in (writer, reader)]
    plan, kernels = _planned(*given)
    assert plan.placed == {}
    assert plan.refusals["tvmgen_default_fused_tanh"] == reason
    assert all("texture" not in func.script() for func in kernels.values())


def test_weights_are_not_what_a_kernel_writes() -> None:
    product = relay.nn.conv2d(var("x", 1, 8, 4, 4), const(8, 8, 1, 1))
    assert all(each.place > 0 for each in _tensors(product).values())
