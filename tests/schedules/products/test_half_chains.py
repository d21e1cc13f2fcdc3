"""Matrix products summed up in chains of halves: which are, and that no term is lost.

Sums of small whole numbers are exact in halves, so kernels laid out for Arm give the numbers of
float32 on this machine too. `tests/schedules/parts/test_half_sums.py` runs them there, within the
bound of sums that are rounded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay, tir

from tests.relay_modules import module, run_plain, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import unscheduled
from tests.schedules.half_blocks import assert_same_to_a_step
from tests.schedules.matching import knobs_of, why_not
from tests.schedules.matrix_blocks import gelu, layer_norm, packed_dense
from tests.schedules.sums_in_halves import HALF, summed_in_halves
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.schedules import resolve_target, schedule
from tvm_fusionx.schedules.products.dot import DOT_IN_HALVES
from tvm_fusionx.tir.block import BlockInfo, describe_block
from tvm_fusionx.tir.half_terms import NOT_IN_HALVES, Mark, told, without_marks
from tvm_fusionx.tir.stored_types import as_single

A76 = resolve_target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=1")
HERE = resolve_target("llvm -mcpu=native -num-cores=1")
TERMS = 32
# Sums of 96 products of numbers up to 2 are whole numbers below 2,048, which halves have all of.
LARGEST = 2


def _heads() -> relay.Expr:
    """Return the rows of a product taken apart into heads, each a matrix of its own."""
    product = packed_dense(8, 48, 32, width=24)
    return relay.transpose(relay.reshape(product, (8, 2, 24)), (1, 0, 2))


CASES = {
    "rows side by side": packed_dense(16, 96, 96, width=24),
    "gelu": gelu(packed_dense(16, 96, 64, width=24)),
    "a norm behind it": layer_norm(
        packed_dense(16, 96, 32, width=24) + var("residual", 16, 96), 96
    ),
    "rows of no whole tile": relay.nn.relu(packed_dense(13, 96, 24, width=24)),
    "few columns": packed_dense(9, 48, 40, width=16),
    "one row": packed_dense(1, 64, 96, width=16),
    "heads": _heads(),
}


@pytest.mark.parametrize("name", few_fast(CASES, 2))
def test_no_term_is_lost(name: str) -> None:
    body = summed_in_halves(CASES[name], Mark(TERMS))
    made = schedule(unscheduled(body, A76), A76)
    assert (made.template, made.fallback_reason) == ("dot", None)
    assert _of_halves(made.func)
    wide = module(CASES[name])
    generator = np.random.default_rng(len(name))
    inputs = {
        param.name_hint: generator.integers(
            -LARGEST, LARGEST + 1, [int(each) for each in param.checked_type.shape]
        ).astype("float32")
        for param in wide["main"].params
    }
    expected = [array.astype(HALF) for array in run_plain(wide, inputs)]
    order = [param.name_hint for param in module(body)["main"].params]
    found = [tvm.nd.array(np.full_like(array, np.nan)) for array in expected]
    given = [tvm.nd.array(inputs[each].astype(HALF)) for each in order]
    compile_kernel(made.func, HERE, "kernel")(*given, *found)
    assert_same_to_a_step([each.numpy() for each in found], expected, HALF)


def _of_halves(func: Any) -> set[str]:
    """Return the names of the kernel's own buffers of halves."""
    found = set()

    def visit(block: Any) -> None:
        found.update(each.name for each in block.alloc_buffers if each.dtype == HALF)

    tir.stmt_functor.ir_transform(func.body, visit, None, ["tir.Block"])
    return found


def test_chains_and_rows_are_of_halves_and_sums_are_not() -> None:
    body = summed_in_halves(CASES["rows side by side"], Mark(TERMS))
    text = schedule(unscheduled(body, A76), A76).func.script()
    chains = [line for line in text.splitlines() if "_rf = T.alloc_buffer" in line]
    rows = [line for line in text.splitlines() if "_reindex = T.alloc_buffer" in line]
    assert len(chains) == len(rows) == 1
    assert HALF in chains[0]
    assert HALF in rows[0]
    # Three chains of 32 terms, each added in float32.
    assert 'T.Cast("float32", compute_local_rf[' in text
    assert "range(T.int64(3))" in text


def _info(body: relay.Expr, terms: int = TERMS) -> BlockInfo:
    """Return a block of halves as a template sees it."""
    func, found = without_marks(unscheduled(summed_in_halves(body, Mark(terms)), A76))
    single = as_single(func)
    assert single is not None
    cpu = describe_cpu(A76)
    return describe_block(
        told(single.func, found, single.stored), replace(cpu, lanes=2 * cpu.lanes)
    )


def test_tiles_are_of_vectors_of_halves_and_sums_stay_whole() -> None:
    knobs = knobs_of(DOT_IN_HALVES, _info(packed_dense(128, 1536, 384, width=24)))
    defaults = {name: knob.default for name, knob in knobs.items()}
    assert (defaults["tile_rows"], defaults["tile_vectors"]) == (8, 3)
    assert knobs["sum_parts"].choices == (1,)


@pytest.mark.parametrize(
    ("body", "terms", "because"),
    [
        (packed_dense(16, 96, 96, width=24), 4, NOT_IN_HALVES),
        (packed_dense(16, 96, 37, width=24), TERMS, NOT_IN_HALVES),
        (packed_dense(16, 96, 96, width=12), TERMS, "its weights lie in no panels of"),
        (relay.nn.relu(var("x", 16, 96)), TERMS, "it has no dot product"),
    ],
    ids=["few terms", "a prime number of terms", "panels of vectors of floats", "no product"],
)
def test_others_are_not(body: relay.Expr, terms: int, because: str) -> None:
    assert because in (why_not(DOT_IN_HALVES, _info(body, terms)) or "")
