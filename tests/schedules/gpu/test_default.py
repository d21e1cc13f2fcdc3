from __future__ import annotations

from tvm import relay

from tests.relay_modules import var
from tests.schedules.gpu.gpu_blocks import assert_runs, describe
from tests.schedules.matching import why_not
from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.schedules.gpu.default import GPU_DEFAULT, items_knob


def test_stages_that_share_no_rows_are_kernels_that_follow_each_other() -> None:
    assert_runs(
        relay.argmax(relay.nn.dense(var("x", 9, 40), var("w", 30, 40)), 1), "gpu_default", kernels=3
    )


def test_it_serves_every_block() -> None:
    assert why_not(GPU_DEFAULT, describe(relay.argmax(var("x", 4, 5), axis=1))) is None


def test_groups_are_as_large_as_the_device_allows() -> None:
    assert items_knob(Gpu()).default == 128
    assert items_knob(Gpu(items=64)).choices == (32, 64)
    assert items_knob(Gpu(items=16)).choices == (16,)
