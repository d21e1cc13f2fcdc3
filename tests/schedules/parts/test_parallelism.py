"""Small work stays on one thread."""

from __future__ import annotations

from tvm import relay

from tests.relay_modules import var
from tests.schedules.blocked_blocks import describe
from tvm_fusionx.schedules.parts.parallelism import operations_of, should_parallelise


def _stages(size: int) -> list:
    return list(describe(relay.exp(var("x", size))).stages.values())


def test_a_transcendental_function_weighs_more_than_a_sum() -> None:
    (heavy,) = _stages(64)
    (light,) = describe(relay.nn.relu(var("x", 64))).stages.values()
    assert operations_of(heavy) > operations_of(light) == 64


def test_large_work_is_shared() -> None:
    assert should_parallelise(_stages(100_000), cores=2)


def test_small_work_and_single_cores_stay_serial() -> None:
    assert not should_parallelise(_stages(64), cores=2)
    assert not should_parallelise(_stages(100_000), cores=1)
