"""Convolutions whose clusters calls share, as the template serves them: numpy's numbers."""

from __future__ import annotations

import pytest

from tests.relay_modules import REASSOCIATING, TARGET
from tests.reuse_layers import Numbers, drawn, unscheduled
from tests.verified_kernels import assert_kernel
from tvm_fusionx.reuse.clusters import SINGLE
from tvm_fusionx.schedules import resolve_target, schedule


@pytest.mark.parametrize("seed", [100, 102, 103, 105])
def test_random_layers(seed: int) -> None:
    target, numbers = resolve_target(TARGET), Numbers.drawn(drawn(seed))
    layer, kept = numbers.keeping(drawn(seed))
    scheduled = schedule(unscheduled(layer, numbers, kept), target)
    assert (scheduled.template, scheduled.fallback_reason) == ("reuse", None)
    operands, result = numbers.operands(layer, kept), numbers.expected(layer, kept)
    assert_kernel(scheduled.func, target, operands, [result], REASSOCIATING)


def test_some_segments_have_no_cluster_in_these_layers() -> None:
    shares = []
    for seed in (100, 102, 103, 105):
        numbers = Numbers.drawn(drawn(seed))
        layer, kept = numbers.keeping(drawn(seed))
        shares.append((numbers.clustered(layer, kept).clusters == SINGLE).mean())
    assert 0 < max(shares) < 1
