"""The pass marks products of halves, and refuses targets that do not add halves."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

import tvm_fusionx as fx
from tests.layout.test_half_sums import bias_of, matrix, net, pointwise
from tests.passes.assert_pass import assert_unchanged, block
from tests.relay_modules import module, operator_names, var
from tvm_fusionx.ecg.block_calls import is_block_call, post_order
from tvm_fusionx.errors import InputError, TargetError
from tvm_fusionx.expressions.half_terms import MARK
from tvm_fusionx.layout.half_sums import error_bound
from tvm_fusionx.layout.value_range import ValueRanges, largest_in
from tvm_fusionx.passes import SumInHalves
from tvm_fusionx.passes.sum_in_halves import MOST_TERMS
from tvm_fusionx.tir.half_terms import HALF_TERMS

ARM = "llvm -mtriple=aarch64-linux-gnu -mcpu={} -num-cores=1"
A76 = ARM.format("cortex-a76")


def test_products_of_halves_are_marked_once() -> None:
    pass_ = SumInHalves(A76)
    before = net(pointwise(), bias_of())
    found = pass_(before)
    assert str(found).count(MARK) == 1
    assert_unchanged(pass_, found, because="its products are marked")


def test_sums_of_fewer_terms_than_a_chunk_stay_single() -> None:
    mod = net(pointwise(), bias_of())
    assert_unchanged(SumInHalves(A76, terms=4), mod, because="a chunk has eight terms")


def test_what_has_no_blocks_stays() -> None:
    mod = module(var("x", 2, 3) + var("y", 2, 3))
    assert operator_names(SumInHalves(A76)(mod)["main"]) == ["add"]


@pytest.mark.parametrize("target", ["opencl", "llvm -mcpu=skylake", ARM.format("cortex-a53")])
def test_a_target_that_does_not_add_halves_is_refused(target: str) -> None:
    with pytest.raises(TargetError, match="precision: expected a core with arithmetic of halves"):
        SumInHalves(target)(net(pointwise(), bias_of()))


def test_a_build_refuses_it_too() -> None:
    with pytest.raises(TargetError, match="arithmetic of halves"):
        fx.pipeline("llvm -mcpu=skylake", precision="float16-sums")


@pytest.mark.parametrize("name", ["terms", "matrix_terms"])
@pytest.mark.parametrize("terms", [0, 97])
def test_so_many_terms_are_refused(name: str, terms: int) -> None:
    because = f"^{name}: expected a number from 1 to 96; found {terms}"
    with pytest.raises(InputError, match=because):
        SumInHalves(A76, **{name: terms})(net(pointwise(), bias_of()))


def test_a_matrix_product_has_terms_of_its_own() -> None:
    found = SumInHalves(A76, terms=4, matrix_terms=24)(matrix())["main"]
    (mark,) = (
        call
        for block in filter(is_block_call, post_order(found.body))
        for call in post_order(block.op.body)
        if isinstance(call, relay.Call) and call.op.name == MARK
    )
    assert int(mark.attrs[HALF_TERMS]) == 24


def test_ranges_allow_for_what_the_longest_chain_rounds() -> None:
    exact = np.full((1, MOST_TERMS, 1), 1.0, "float32")
    call = module(
        block(
            "a",
            [p := var("p", 2, MOST_TERMS), w := var("w", *exact.shape)],
            relay.nn.contrib_dense_pack(relay.clip(p, -1, 1), w, weight_layout="NC1n"),
        )(var("x", 2, MOST_TERMS), relay.const(exact))
    )["main"].body
    ranges = ValueRanges()
    ranges.add(call)
    most = MOST_TERMS + error_bound(MOST_TERMS, MOST_TERMS)
    assert largest_in(ranges.of(call)) >= most
