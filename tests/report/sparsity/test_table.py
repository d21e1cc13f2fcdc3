"""Lines of text: a row a layer, reasons below, a summary."""

from __future__ import annotations

from tvm_fusionx.report.sparsity.layers import LayerSparsity
from tvm_fusionx.report.sparsity.table import sparsity_lines

SPARSE = LayerSparsity(
    "first",
    "nn.dense",
    channels=64,
    length=128,
    places=7,
    is_sparse=True,
    reason=None,
    density=0.125,
    group=16,
    effective_density=0.15,
    dense_cycles=900.0,
    sparse_cycles=300.0,
    break_even_density=0.8,
    dense_bytes=4096,
    sparse_bytes=1024,
    csr_bytes=2048,
    dense_us=12.0,
    sparse_us=3.0,
)
DENSE = LayerSparsity("last", "nn.dense", 3, 8, 1, False, "3 columns fill no vector")


def test_rows_reasons_and_a_summary() -> None:
    head, first, last, reason, told = sparsity_lines([SPARSE, DENSE])
    assert head.split()[:2] == ["layer", "weight"]
    for text in ("64 x 128 at 7", "12.5%", "15.0%", "3.00x", "80.0%", "12 / 3 us", "sparse"):
        assert text in first
    assert last.split()[-1] == "dense"
    assert reason.strip() == "3 columns fill no vector"
    assert told.startswith("1 of 2 products leave zeros out: their weights take")
    assert "1 KiB" in told


def test_a_model_without_zeros() -> None:
    assert sparsity_lines([DENSE])[-1] == "0 of 1 products leave zeros out"
