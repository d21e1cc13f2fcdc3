"""The kernel alone: the numbers of numpy, whatever the tile."""

from __future__ import annotations

import pytest
from tvm import tir

from tests.recurrent_layers import USUAL, Numbers, expected
from tests.relay_modules import REASSOCIATING
from tests.verified_kernels import assert_kernel
from tvm_fusionx.operators.recurrent_layer import GRU, LSTM, RNN, Layer
from tvm_fusionx.schedules.recurrent.kernel import Operands, RecurrentKernel
from tvm_fusionx.schedules.recurrent.tiling import RecurrentTiling


@pytest.mark.parametrize(
    ("kind", "tiling"),
    [
        (LSTM, RecurrentTiling(4, 2, 8, 1, 1, 1)),
        (LSTM, RecurrentTiling(8, 1, 16, 2, 2, 1)),
        (GRU, RecurrentTiling(4, 3, 4, 1, 2, 1)),
        (GRU, RecurrentTiling(8, 1, 48, 1, 0, 1)),
        (RNN, RecurrentTiling(16, 1, 48, 4, 0, 2)),
        (RNN, RecurrentTiling(4, 5, 16, 1, 0, 3)),
    ],
    ids=str,
)
def test_numbers(kind: str, tiling: RecurrentTiling) -> None:
    layer = Layer(kind, 3, 5, 37, (False, True), USUAL[kind], has_lengths=True)
    numbers = Numbers.drawn(layer)
    operands, results = numbers.operands(layer), expected(layer, numbers)
    reads = [tir.decl_buffer(each.shape, str(each.dtype), "read") for each in operands]
    made = [tir.decl_buffer(each.shape, "float32", "made") for each in results]
    every, last, cell = (*made, None)[:3]
    shares, weights, bias, h, c, lengths = reads
    given = Operands(shares, weights, bias, h, c, lengths, every, last, cell)
    assert given.reads == reads
    assert given.writes == made
    kernel = RecurrentKernel(layer, given, tiling).build(parallel=False)
    func = tir.PrimFunc([*reads, *made], kernel)
    assert_kernel(func, "llvm", operands, results, REASSOCIATING)
