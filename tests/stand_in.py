"""The processor that kernels under test are compiled for: one name for machines of equal vectors.

Zen 4, Ice Lake and what came after them run the same kernels: compiled for each by its own name,
each would need rows of its own in the table of verified kernels.
"""

from __future__ import annotations

import platform

import tvm
from tvm.target import codegen

from tvm_fusionx.processors.host_cpu import flag_names, host_flags

# From the most able on: 512-bit vectors with and without dot products of bytes, 256-bit vectors.
STAND_INS = ("icelake-server", "skylake-avx512", "haswell")
NATIVE = "native"
# What sessions of the tuner and reports compile for, which measure on the machine itself.
NATIVE_TARGET = f"llvm -mcpu={NATIVE}"


def stand_in(machine: str, flags: frozenset[str]) -> str:
    """Return the first of :data:`STAND_INS` whose features `flags` all tell; "native" if none."""
    names = flag_names().get(machine, {})
    told = {feature for feature, flag in names.items() if flag in flags}
    for cpu in STAND_INS if told else ():
        features = codegen.llvm_get_cpu_features(tvm.target.Target(f"llvm -mcpu={cpu}"))
        if {str(each) for each in features} & names.keys() <= told:
            return cpu
    return NATIVE


def target_here() -> str:
    """Return the target of kernels under test on this machine."""
    return f"llvm -mcpu={stand_in(platform.machine(), host_flags())}"
