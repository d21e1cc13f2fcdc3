from __future__ import annotations

from tvm_fusionx.report.explain.entries import Summary


def test_what_is_saved_is_what_is_not_written() -> None:
    summary = Summary(3, 3, 2, intermediate_bytes_unfused=32, intermediate_bytes=12, flops=360)
    assert summary.bytes_saved == 20
