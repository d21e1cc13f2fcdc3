"""The CPU of this machine as compilers name it, less what it does not let a process use.

LLVM tells a processor by its family and model. Virtual machines and old kernels hide features that
the family has: code that uses a hidden one ends the process with an illegal instruction. Virtual
machines also tell a model that is not theirs, whose caches are other ones.
"""

from __future__ import annotations

import functools
import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

import tvm
from tvm.target import codegen

from tvm_fusionx.processors.rates import core_names
from tvm_fusionx.processors.tile_permission import FLAGS as FLAGS_OF_TILES
from tvm_fusionx.processors.tile_permission import may_use_tiles

FLAGS = Path(__file__).resolve().parent / "cpu_flags.json"
CPU_INFO = Path("/proc/cpuinfo")
# How Linux begins the line of a processor's flags, on x86 and on Arm.
FLAG_LINES = ("flags", "Features")


def host_attributes() -> tuple[str, tuple[str, ...]]:
    """Return LLVM's name of this CPU, and the features that are hidden of it, as ``-avx512f``.

    A feature that goes with another which is hidden is not named again. Where the system does not
    tell flags, as on macOS, none are hidden. A CPU that lacks features which the flags tell is not
    this one, whatever its name: the first of the table of cores that has just those takes its
    place, where there is one.
    """
    return _attributes(str(codegen.llvm_get_system_cpu()), platform.machine(), host_flags())


def host_flags() -> frozenset[str]:
    """Return the flags that all processors of this machine have; none where none are told.

    Those of registers that the system does not lend to this process are left out.
    """
    if not CPU_INFO.is_file():
        return frozenset()
    lines = CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines()
    told = [line.partition(":") for line in lines]
    flags = [set(words.split()) for name, _, words in told if name.strip() in FLAG_LINES]
    found = frozenset(set.intersection(*flags)) if flags else frozenset()
    return found if not found & FLAGS_OF_TILES or may_use_tiles() else found - FLAGS_OF_TILES


@functools.cache
def flag_names() -> Mapping[str, Mapping[str, str]]:
    """Return Linux's flag for each of LLVM's features, by architecture."""
    names: dict[str, dict[str, str]] = json.loads(FLAGS.read_text(encoding="utf-8"))["flags"]
    return names


@functools.lru_cache(maxsize=16)
def _attributes(cpu: str, machine: str, flags: frozenset[str]) -> tuple[str, tuple[str, ...]]:
    if not flags:
        return cpu, ()
    names = flag_names().get(machine, {})
    told = {feature for feature, flag in names.items() if flag in flags}
    if not told <= _features(cpu):
        cpu = next((each for each in _known_cpus() if _features(each) & names.keys() == told), cpu)
    hidden: list[str] = []
    held = _features(cpu)
    for feature, flag in names.items():
        if feature in held and flag not in flags:
            hidden.append(f"-{feature}")
            held = _features(cpu, hidden)
    return cpu, tuple(hidden)


def _known_cpus() -> list[str]:
    """Return the CPUs of this architecture whose rates are known."""
    made = set(map(str, codegen.llvm_get_cpu_archlist(tvm.target.Target("llvm"))))
    return [name for name in core_names() if name in made]


def _features(cpu: str, hidden: Sequence[str] = ()) -> set[str]:
    words = f"llvm -mcpu={cpu}" + (f" -mattr={','.join(hidden)}" if hidden else "")
    return {str(each) for each in codegen.llvm_get_cpu_features(tvm.target.Target(words))}
