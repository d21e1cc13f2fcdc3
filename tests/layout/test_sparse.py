"""Which products leave zeros out: by their constants and the cost, with a reason for each no."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import graph, module, var
from tests.schedules.blocked_blocks import AVX512
from tests.schedules.sparse_blocks import integer_weight, pruned
from tvm_fusionx.ecg import to_relay
from tvm_fusionx.layout import has_zeros, pack_convolutions, pack_sparse
from tvm_fusionx.layout.sparse import Choice, choose
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.gpu import describe_gpu
from tvm_fusionx.processors.integers import DotInstruction
from tvm_fusionx.schedules import resolve_target


def _dense(weight: Any, rows: int = 32) -> relay.Expr:
    return relay.nn.dense(var("x", rows, weight.shape[1]), relay.const(weight))


def _conv(density: float, kernel: int = 3, groups: int = 1, **attrs: Any) -> relay.Expr:
    weight = pruned(32, 32 // groups * kernel**2, 16, density)
    weight = weight.reshape(32, 32 // groups, kernel, kernel)
    pad = kernel // 2
    return relay.nn.conv2d(
        var("x", 1, 32, 28, 28),
        relay.const(weight),
        padding=(pad, pad),
        channels=32,
        kernel_size=(kernel, kernel),
        groups=groups,
        **attrs,
    )


def _batch(weight: Any) -> relay.Expr:
    data = var("x", 1, 32, weight.shape[1])
    return relay.nn.batch_matmul(data, relay.const(weight[None]))


SPARSE: dict[str, tuple[Callable[[], relay.Expr], str]] = {
    "dense": (lambda: _dense(pruned(64, 256, 16, 0.125)), "fusionx.sparse_dense"),
    "batch": (lambda: _batch(pruned(64, 256, 16, 0.125)), "fusionx.sparse_dense"),
    "windows": (lambda: _conv(0.125), "fusionx.sparse_conv2d_NCHWc"),
    "pixels": (lambda: _conv(0.2, kernel=1), "fusionx.sparse_conv2d_NCHWc"),
    "strided": (lambda: _conv(0.2, strides=(2, 2)), "fusionx.sparse_conv2d_NCHWc"),
    "all zeros": (lambda: _dense(pruned(64, 256, 16, 0.0)), "fusionx.sparse_dense"),
}


@pytest.mark.parametrize("name", SPARSE)
def test_structured_zeros_are_left_out(name: str) -> None:
    make, op = SPARSE[name]
    found = graph(make())
    assert has_zeros(found)
    pack_convolutions(found, AVX512)
    assert pack_sparse(found, AVX512) == 1
    assert op in [node.op for node in found.calls()]
    before, after = (module(each)["main"].ret_type for each in (make(), to_relay(found).body))
    assert before == after


DENSE: dict[str, tuple[Callable[[], relay.Expr], str]] = {
    "no product": (lambda: relay.exp(var("x", 4)), "exp is no matrix product"),
    "not constant": (
        lambda: relay.nn.dense(var("x", 2, 8), var("w", 16, 8)),
        "its weights are not constant",
    ),
    "few zeros": (lambda: _dense(pruned(64, 64, 16, 1.0)), "0% of its weights are zero"),
    "half precision": (
        lambda: relay.nn.dense(
            var("x", 2, 8, dtype="float16"), relay.const(np.zeros((16, 8), "float16"))
        ),
        "its data is float16",
    ),
    "few columns": (
        lambda: relay.nn.dense(var("x", 2, 8), relay.const(np.zeros((3, 8), "float32"))),
        "3 columns fill no vector",
    ),
    "groups": (lambda: _conv(0.1, groups=2), "its channels are in 2 groups"),
    "without structure": (lambda: _dense(pruned(64, 256, 1, 0.25)), "it would gain"),
}


@pytest.mark.parametrize("name", DENSE)
def test_others_stay_dense(name: str) -> None:
    make, reason = DENSE[name]
    found = graph(make())
    pack_convolutions(found, AVX512)
    around = ("layout_transform", "reshape")
    (node,) = (each for each in found.calls() if each.op not in around)
    choice = choose(node, AVX512)
    told = choice.reason if isinstance(choice, Choice) else choice
    assert told is not None
    assert told.startswith(reason)
    assert pack_sparse(found, AVX512) == 0


DOT = DotInstruction("uint8", "int8", 4, ((16, "llvm.x86.avx512.vpdpbusd.512"),), True)
VNNI = replace(AVX512, dot=DOT)


def _integer_dense(density: float, inputs: int = 256, outputs: int = 64) -> relay.Expr:
    words = -(-inputs // DOT.depth)
    return _integer_product(integer_weight(outputs, words, DOT, density)[:, :inputs])


def _integer_product(weight: Any) -> relay.Expr:
    x = var("x", 32, weight.shape[1], dtype="uint8")
    return relay.nn.dense(x, relay.const(weight), out_dtype="int32")


def test_integers_on_a_gpu_stay_dense() -> None:
    found = graph(_integer_dense(0.1))
    (node,) = found.calls()
    told = "on a GPU only floats leave zeros out, and it multiplies integers"
    assert choose(node, describe_gpu(resolve_target("opencl"))) == told


def _scattered() -> Any:
    # Zeros that are no words.
    return pruned(64, 256, 1, 0.25).astype("int8") | (pruned(64, 256, 1, 0.25) != 0)


def _integer_conv(density: float, outputs: int = 32) -> relay.Expr:
    weight = integer_weight(outputs, 9 * 8, DOT, density).reshape(outputs, 8, 3, 3, 4)
    weight = np.ascontiguousarray(weight.transpose(0, 1, 4, 2, 3)).reshape(outputs, 32, 3, 3)
    x = var("x", 1, 32, 28, 28, dtype="uint8")
    return relay.nn.conv2d(
        x,
        relay.const(weight),
        padding=(1, 1),
        channels=outputs,
        kernel_size=(3, 3),
        out_dtype="int32",
    )


@pytest.mark.parametrize(
    ("make", "op"),
    [(_integer_dense, "fusionx.sparse_dense"), (_integer_conv, "fusionx.sparse_conv2d_NCHWc")],
)
def test_words_of_zeros_are_left_out(make: Callable[[float], relay.Expr], op: str) -> None:
    found = graph(make(0.125))
    pack_convolutions(found, VNNI)
    assert pack_sparse(found, VNNI) == 1
    (node,) = (each for each in found.calls() if each.op == op)
    assert node.operands[1].dtype == "int8"
    before, after = (module(each)["main"].ret_type for each in (make(0.125), to_relay(found).body))
    assert before == after


@pytest.mark.parametrize(
    ("make", "cpu", "reason"),
    [
        (lambda: _integer_dense(0.1, inputs=255), VNNI, "its 255 neighbouring integers are no"),
        (lambda: _integer_dense(0.1, outputs=8), VNNI, "no instruction sums 8 channels"),
        (lambda: _integer_dense(0.1), AVX512, "it multiplies uint8 by int8"),
        (
            lambda: _integer_dense(0.1),
            replace(VNNI, dot=replace(DOT, rows=2)),
            "no instruction multiplies integers of single rows",
        ),
        (
            lambda: _integer_dense(0.1),
            replace(VNNI, dot=replace(DOT, together=2)),
            "no instruction multiplies integers of single rows",
        ),
        (
            lambda: _integer_conv(0.1),
            replace(VNNI, dot=replace(DOT, rows=2)),
            "no instruction multiplies integers of single rows",
        ),
        (lambda: _integer_product(_scattered()), VNNI, "it would gain"),
    ],
)
def test_other_integers_stay_dense(make: Callable[[], relay.Expr], cpu: Cpu, reason: str) -> None:
    found = graph(make())
    pack_convolutions(found, cpu)
    around = ("layout_transform", "reshape")
    (node,) = (each for each in found.calls() if each.op not in around)
    choice = choose(node, cpu)
    told = choice.reason if isinstance(choice, Choice) else choice
    assert told is not None
    assert told.startswith(reason)


def test_gain_follows_density() -> None:
    choices = [choose(graph(_dense(pruned(64, 512, 16, d))).calls()[0], AVX512) for d in (0.1, 0.5)]
    gains = [choice.gain for choice in choices if isinstance(choice, Choice)]
    assert gains[0] > 2 * gains[1] > 1
