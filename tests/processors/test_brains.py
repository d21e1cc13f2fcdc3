"""Which processors multiply matrices of bfloat16."""

from __future__ import annotations

import pytest

from tvm_fusionx.processors.brains import MATRICES, brain_dot_of
from tvm_fusionx.schedules import describe_cpu, resolve_target

ARM = "llvm -mtriple=aarch64-linux-gnu "


@pytest.mark.parametrize(
    "target",
    [
        *(f"-mcpu={core}" for core in ("cortex-a510", "cortex-a710", "cortex-x2")),
        *(f"-mcpu={core}" for core in ("neoverse-n2", "neoverse-v1", "neoverse-v2")),
        "-mattr=+neon,+bf16",
    ],
)
def test_cores_since_armv86_do(target: str) -> None:
    dot = describe_cpu(resolve_target(ARM + target)).brain_dot
    assert dot is MATRICES
    assert (dot.rows, dot.depth, dot.sums) == (2, 4, "float32")


@pytest.mark.parametrize(
    "target",
    [
        *(f"{ARM}-mcpu={core}" for core in ("cortex-a55", "cortex-a76", "cortex-a78")),
        *(f"{ARM}-mcpu={core}" for core in ("cortex-x1", "neoverse-n1")),
        # AVX512-BF16 has dot products of two numbers.
        *("llvm -mcpu=sapphirerapids", "llvm -mcpu=znver4"),
    ],
)
def test_others_do_not(target: str) -> None:
    assert describe_cpu(resolve_target(target)).brain_dot is None


def test_a_feature_of_another_set_of_instructions_is_none() -> None:
    assert brain_dot_of({"bf16"}) is None
