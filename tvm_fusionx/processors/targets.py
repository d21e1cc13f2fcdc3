"""Targets as TVM understands them, for our templates: names, keys, and what `native` means."""

from __future__ import annotations

from typing import TypeAlias

import tvm

from tvm_fusionx.errors import TargetError
from tvm_fusionx.processors.host_cpu import (
    host_attributes,
)

TargetLike: TypeAlias = "str | tvm.target.Target"
"""A target, or what names one."""

# What `-mcpu=` accepts in compilers to mean this very machine; TVM hands it to LLVM, which refuses.
NATIVE_CPU = "native"


NATIVE = f"-mcpu={NATIVE_CPU}"


FEATURES = "-mattr="


CPU_KEY = "cpu"


ARM_KEY = "arm_cpu"


def resolve_target(target: TargetLike) -> tvm.target.Target:
    """Return `target` as TVM understands it, for our templates.

    ``-mcpu=native`` becomes the host CPU's LLVM name without the features that this machine hides,
    and operators are defined on every CPU as on x86.

    Raises
    ------
    TargetError
        When TVM does not know the target.
    """
    if isinstance(target, tvm.target.Target):
        if str(target.attrs.get("mcpu", "")) != NATIVE_CPU:
            return _with_plain_definitions(target)
        target = str(target)
    try:
        return _with_plain_definitions(tvm.target.Target(_with_host_cpu(target)))
    except (ValueError, tvm.TVMError) as error:
        raise TargetError(
            "target",
            expected='a TVM target such as "llvm -mcpu=native"',
            found=repr(target),
            next_step="Correct it; `tvm.target.Target.list_kinds()` lists the kinds.",
        ) from error


def _with_host_cpu(target: str) -> str:
    """Put this machine's CPU in the place of "native"; the features that are given count last."""
    words = target.split()
    if NATIVE not in words:
        return target
    cpu, hidden = host_attributes()
    given = [word for word in words if word.startswith(FEATURES)]
    features = ",".join([*hidden, *(word.removeprefix(FEATURES) for word in given)])
    words = [f"-mcpu={cpu}" if word == NATIVE else word for word in words if word not in given]
    return " ".join([*words, f"{FEATURES}{features}"] if features else words)


def _with_plain_definitions(target: tvm.target.Target) -> tvm.target.Target:
    """Put the key "cpu" before "arm_cpu", which TVM gives to every target for Arm.

    The first key decides how operators are defined. Arm's definitions pack weights inside the
    kernel and know none of our layouts, so that no template would serve them.
    """
    keys = [str(key) for key in target.keys]
    if ARM_KEY not in keys or keys[0] == CPU_KEY:
        return target
    changed = {**target.export(), "keys": [CPU_KEY, *(key for key in keys if key != CPU_KEY)]}
    return tvm.target.Target(changed, host=target.host)


def with_own_definitions(target: tvm.target.Target) -> tvm.target.Target:
    """Put "arm_cpu" first again, as TVM has it: its operators are then TVM's own for Arm."""
    keys = [str(key) for key in target.keys]
    if ARM_KEY not in keys or keys[0] == ARM_KEY:
        return target
    changed = {**target.export(), "keys": [ARM_KEY, *(key for key in keys if key != ARM_KEY)]}
    return tvm.target.Target(changed, host=target.host)


def is_cpu(target: tvm.target.Target) -> bool:
    """Tell whether `target` is compiled by LLVM for a CPU."""
    return str(target.kind.name) == "llvm"


def target_key(target: tvm.target.Target) -> str:
    """Return the part of `target` that a tuned record depends on: kind, CPU and features."""
    features = sorted(str(feature) for feature in target.attrs.get("mattr", []))
    cpu = str(target.attrs.get("mcpu", ""))
    triple = str(target.attrs.get("mtriple", ""))
    device = str(target.attrs.get("device", ""))
    return " ".join(
        part for part in (str(target.kind.name), device, triple, cpu, *features) if part
    )
