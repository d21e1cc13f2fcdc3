"""Targets as TVM understands them, for our templates: names, keys, and what `native` means."""

from __future__ import annotations

import difflib
import functools
import re
from typing import Any, TypeAlias

import tvm
from tvm.target import codegen

from tvm_fusionx.errors import TargetError
from tvm_fusionx.processors.backends import load_backends
from tvm_fusionx.processors.host_cpu import host_attributes

TargetLike: TypeAlias = "str | tvm.target.Target"
"""A target, or what names one."""

Targets: TypeAlias = "TargetLike | list[Any] | tuple[Any, ...]"
"""One, or one for each version of a library, the plainest first."""

# What `-mcpu=` accepts in compilers to mean this very machine; TVM hands it to LLVM, which refuses.
NATIVE_CPU = "native"


NATIVE = f"-mcpu={NATIVE_CPU}"


FEATURES = "-mattr="


CPU_KEY = "cpu"


ARM_KEY = "arm_cpu"


# Kinds of targets that there are templates for.
CPU_KIND = "llvm"
KINDS = (CPU_KIND, "opencl")

# How Intel's 32-bit processors begin a triple, whose architecture LLVM calls i386.
I386 = re.compile(r"i[3-6]86$")

NEAR_NAMES = 3

# Where a CPU of another architecture is looked for.
USUAL_TRIPLES = ("aarch64-linux-gnu", "x86_64-linux-gnu", "armv7a-linux-gnueabihf")


def resolve_target(target: TargetLike) -> tvm.target.Target:
    """Return `target` as TVM understands it, for our templates.

    ``-mcpu=native`` becomes the host CPU's LLVM name without the features that this machine hides,
    and operators are defined on every CPU as on x86.

    Raises
    ------
    TargetError
        When TVM does not know the target, LLVM not its CPU, or no template is for its kind.
    BackendError
        When a package brings a backend that cannot be loaded.
    """
    load_backends()  # The target may be the tag of one.
    if not isinstance(target, str | tvm.target.Target):
        raise TargetError(
            "target",
            expected='a string such as "llvm -mcpu=native", or a tvm.target.Target',
            found=type(target).__name__,
            next_step="Give one of them.",
        )
    if isinstance(target, tvm.target.Target):
        if str(target.attrs.get("mcpu", "")) != NATIVE_CPU:
            return _with_plain_definitions(_checked(target))
        target = str(target)
    try:
        text = _with_host_cpu(target)
        _check_text(text)
        return _with_plain_definitions(_checked(tvm.target.Target(text)))
    except TargetError:
        raise
    except (ValueError, tvm.TVMError) as error:
        raise TargetError(
            "target",
            expected='a TVM target such as "llvm -mcpu=native"',
            found=repr(target),
            next_step="Correct it; `tvm.target.Target.list_kinds()` lists the kinds.",
        ) from error


def _checked(target: tvm.target.Target) -> tvm.target.Target:
    """Return `target` if it is of a kind and for a CPU that code can be made for."""
    _check_kind(str(target.kind.name))
    if is_cpu(target):
        triple = str(target.attrs.get("mtriple", ""))
        _check_cpu(triple, str(target.attrs.get("mcpu", "")))
        _check_features(triple, [str(each) for each in target.attrs.get("mattr", [])])
    return target


def _check_text(text: str) -> None:
    """Check a target before TVM makes it, which writes to standard error what it thinks of it."""
    kind, *options = text.split() or [""]
    if kind in tvm.target.Target.list_kinds():
        _check_kind(kind)
    if kind == CPU_KIND:
        values = dict(option.partition("=")[::2] for option in options)
        triple = values.get("-mtriple", "")
        _check_cpu(triple, values.get("-mcpu", ""))
        _check_features(triple, list(filter(None, values.get("-mattr", "").split(","))))


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise TargetError(
            "target",
            expected=f"one of the kinds with templates: {', '.join(KINDS)}",
            found=repr(kind),
            next_step='Give "llvm -mcpu=native" for this machine, or "opencl" for a GPU.',
        )


def _check_cpu(triple: str, cpu: str) -> None:
    """Raise TargetError where LLVM does not know the CPU: it goes on with the oldest, and warns."""
    architecture = I386.sub("i386", triple.partition("-")[0])
    made = tuple(map(str, codegen.llvm_get_targets()))
    if triple and not architecture.startswith(made):
        raise TargetError(
            f"target -mtriple={triple}",
            expected=f"an architecture that this LLVM makes code for: {', '.join(made)}",
            found=repr(architecture),
            next_step="Correct it, or give a TVM whose LLVM has that architecture.",
        )
    known = _cpus(triple)
    if cpu and cpu not in known:
        near = difflib.get_close_matches(cpu, known, NEAR_NAMES) or list(known[:NEAR_NAMES])
        others = [other for other in USUAL_TRIPLES if other != triple and cpu in _cpus(other)]
        hint = f"It is one for -mtriple={others[0]}. " if others else ""
        raise TargetError(
            f"target -mcpu={cpu}",
            expected="a CPU that LLVM knows" + (f" for {triple}" if triple else ""),
            found="another name",
            next_step=f"{hint}Near it are {', '.join(near)}; {NATIVE_CPU} is this machine's.",
        )


def _check_features(triple: str, features: list[str]) -> None:
    """Raise TargetError where LLVM does not know a feature: it ignores it, and warns each time."""
    for feature in features:
        name = feature[1:]
        if feature[0] in "+-" and _is_feature(triple, name):
            continue
        known = sorted(_usual_features(triple))
        near = difflib.get_close_matches(name, known, NEAR_NAMES) or known[:NEAR_NAMES]
        raise TargetError(
            f"target -mattr={feature}",
            expected="+ or - before each feature, and features that LLVM knows"
            + (f" for {triple}" if triple else ""),
            found=repr(feature),
            next_step=f"Near it are {', '.join(near)}.",
        )


@functools.cache
def _is_feature(triple: str, name: str) -> bool:
    return name in _usual_features(triple) or name in _features(triple, f"-mattr=+{name}")


@functools.cache
def _usual_features(triple: str) -> frozenset[str]:
    """Return the features that any CPU has."""
    return frozenset().union(*(_features(triple, f"-mcpu={cpu}") for cpu in _cpus(triple)))


def _features(triple: str, option: str) -> list[str]:
    words = [CPU_KIND, *([f"-mtriple={triple}"] if triple else []), option]
    return list(map(str, codegen.llvm_get_cpu_features(tvm.target.Target(" ".join(words)))))


@functools.cache
def _cpus(triple: str) -> tuple[str, ...]:
    words = f"{CPU_KIND} -mtriple={triple}" if triple else CPU_KIND
    return tuple(sorted(map(str, codegen.llvm_get_cpu_archlist(tvm.target.Target(words)))))


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
    return str(target.kind.name) == CPU_KIND


def target_key(target: tvm.target.Target) -> str:
    """Return the part of `target` that a tuned record depends on: kind, CPU and features."""
    features = sorted(str(feature) for feature in target.attrs.get("mattr", []))
    cpu = str(target.attrs.get("mcpu", ""))
    triple = str(target.attrs.get("mtriple", ""))
    device = str(target.attrs.get("device", ""))
    return " ".join(
        part for part in (str(target.kind.name), device, triple, cpu, *features) if part
    )
