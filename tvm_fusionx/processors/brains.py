"""Instructions that multiply numbers of bfloat16 and add the products to sums of float32."""

from __future__ import annotations

from tvm_fusionx.processors.integers import AARCH64, DotInstruction

BRAIN = "bfloat16"
SINGLE = "float32"

# LLVM's name of Armv8.6's arithmetic of bfloat16.
FEATURE = "bf16"

# Arm ARM, section C7.2, BFMMLA: two rows of four numbers times two columns of four. A sum takes two
# products at a time; each addition that is not exact leaves the neighbour whose last bit is one.
MATRICES = DotInstruction(
    *(BRAIN, BRAIN, 4, ((4, "llvm.aarch64.neon.bfmmla"),), True),
    rows=2,
    sums=SINGLE,
)


def brain_dot_of(features: set[str]) -> DotInstruction | None:
    """Return what multiplies matrices of bfloat16 on a processor of these features, or None."""
    return MATRICES if {AARCH64, FEATURE} <= features else None
