"""Count what one inference executes: in whole, by kernel, and in its hottest loops."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx.counting.cycles import CYCLE_CORES, cycles_of
from tvm_fusionx.counting.disassembly import Line, disassemble_each
from tvm_fusionx.counting.emulator import caches_of, check_core, emulated_cpu, scalable_bytes_of
from tvm_fusionx.counting.executed import Function
from tvm_fusionx.counting.library_run import run_library
from tvm_fusionx.counting.loops import Loop, branch_target, innermost_loops
from tvm_fusionx.counting.tally import Tally, estimate_cycles, tally_of
from tvm_fusionx.output_file import new_file

SCHEMA = 1
OURS = "fusionx"
# Loops that are kept, the hottest first.
HOT_LOOPS = 16

LIMITS = (
    "One thread, one inference after another. Counts are exact; cycles are LLVM's models of the"
    " cores, in which no access misses a cache and no branch is foretold wrongly. The bytes that"
    " cross caches come from a model without prefetching. None of it is a time on a phone."
)

# How TVM's symbols begin, by the name of the program in its library, and end.
PREFIX, INNER = re.compile(r"^tvmgen_(default|program\d+)_"), "_compute_"


@dataclass(frozen=True)
class KernelCount:
    """What one kernel executed, and its template; of another file of code all that it executed."""

    name: str
    template: str
    tally: Tally


@dataclass(frozen=True)
class HotLoop:
    """One of the loops in which most instructions ran.

    Attributes
    ----------
    kernel
        The kernel, or the file of code, that it lies in.
    instructions
        That ran in it.
    turns
        How often its branch back was reached.
    length, multiply_adds, loads, stores, stack, moves
        Of its instructions, once.
    cycles
        Of one turn, by core.
    code
        Disassembled.
    """

    kernel: str
    instructions: int
    turns: int
    length: int
    multiply_adds: int
    loads: int
    stores: int
    stack: int
    moves: int
    cycles: Mapping[str, float]
    code: tuple[str, ...]


@dataclass(frozen=True)
class Count:
    """What one inference executed.

    Attributes
    ----------
    side, version
        Whose inference, and of which version.
    model, core, emulated
        Of what, built for which core, on which emulated one.
    total
        All of it.
    kernels
        The one with most instructions first; they add up to the total.
    loops
        The hottest first.
    outputs
        What was computed.
    """

    side: str
    version: str
    model: str
    core: str
    emulated: str
    total: Tally
    kernels: tuple[KernelCount, ...]
    loops: tuple[HotLoop, ...]
    outputs: tuple[np.ndarray, ...] = field(repr=False, compare=False, default=())

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain data; ``schema`` rises when a meaning changes."""
        return {
            "schema": SCHEMA,
            "side": self.side,
            "version": self.version,
            "model": self.model,
            "core": self.core,
            "emulated": self.emulated,
            "limits": LIMITS,
            "total": self.total.to_json(),
            "kernels": [
                {"name": each.name, "template": each.template, **each.tally.to_json()}
                for each in self.kernels
            ],
            "loops": [
                {**asdict(loop), "code": list(loop.code), "cycles": dict(loop.cycles)}
                for loop in self.loops
            ],
        }


def count_library(
    path: str | Path,
    core: str = "cortex-a76",
    *,
    inputs: Mapping[str, np.ndarray] | None = None,
    with_caches: bool = True,
    cores: Sequence[str] = CYCLE_CORES,
) -> Count:
    """Count one inference of the library file at `path`, after one to warm up.

    Parameters
    ----------
    core
        LLVM's name of the core to emulate; the caches are that core's.
    inputs
        Arrays by name; seeded random ones by default.
    with_caches
        Whether to model the caches, for which the run takes twice as long.
    cores
        Whose cycles are estimated.

    Raises
    ------
    TargetError
        There is no such core, or the library is for another kind of machine.
    InputError, LibraryFileError, MissingDependencyError, DeviceError
        As :func:`tvm_fusionx.counting.library_run.run_library`.
    """
    from tvm_fusionx.version import VERSION

    check_core(core)
    caches = caches_of(core) if with_caches else None
    ran = run_library(path, core, inputs=inputs, caches=caches)
    templates = {_short(symbol): template for symbol, template in ran.templates.items()}
    return count_functions(
        ran.functions,
        side=OURS,
        version=VERSION,
        model=ran.model,
        core=core,
        cores=cores,
        templates=templates,
        outputs=ran.outputs,
    )


def count_functions(
    functions: Sequence[Function],
    *,
    side: str,
    version: str,
    model: str,
    core: str,
    cores: Sequence[str] = CYCLE_CORES,
    templates: Mapping[str, str] | None = None,
    outputs: Sequence[np.ndarray] = (),
) -> Count:
    """Return what `functions` executed; kernels are the functions that have templates."""
    texts = disassemble_each(step.word for each in functions for step in each.steps)
    tallies = [tally_of(each, texts, scalable_bytes_of(core)) for each in functions]
    estimate_cycles(functions, tallies, texts, cores)
    known = templates or {}
    total, grouped = Tally(), dict[str, Tally]()
    for function, tally in zip(functions, tallies, strict=True):
        total.add(tally)
        grouped.setdefault(_kernel_of(function, known), Tally()).add(tally)
    kernels = [KernelCount(name, known.get(name, ""), tally) for name, tally in grouped.items()]
    kernels.sort(key=lambda each: -each.tally.instructions)
    loops = _hot_loops(functions, texts, known, cores)
    return Count(
        side=side,
        version=version,
        model=model,
        core=core,
        emulated=emulated_cpu(core),
        total=total,
        kernels=tuple(kernels),
        loops=tuple(loops),
        outputs=tuple(outputs),
    )


def save_counts(counts: Sequence[Count], path: str | Path, **further: Any) -> None:
    """Write counts of one model as JSON, with what else is told of it, all of it or nothing."""
    content = {"schema": SCHEMA, **further, "counts": [count.to_json() for count in counts]}
    with new_file(path) as scratch:
        text = json.dumps(content, indent=1, allow_nan=False)
        scratch.write_text(text + "\n", encoding="utf-8")


def _short(symbol: str) -> str:
    """Return a kernel's name: its symbol without what TVM puts around it."""
    return PREFIX.sub("", symbol, count=1).split(INNER)[0]


def _kernel_of(function: Function, templates: Mapping[str, str]) -> str:
    name = _short(function.name)
    return name if name in templates else function.module


def _hot_loops(
    functions: Sequence[Function],
    texts: Mapping[int, str],
    templates: Mapping[str, str],
    cores: Sequence[str],
) -> list[HotLoop]:
    found: list[tuple[int, int, Function, Loop]] = []
    for function in functions:
        counts = {step.address: step.count for step in function.steps}
        code = [Line(step.address, step.word, texts[step.word]) for step in function.steps]
        for loop in innermost_loops(code, function.has_frame(texts)):
            ran = sum(counts[line.address] for line in loop.code)
            found.append((ran, counts[loop.code[-1].address], function, loop))
    found.sort(key=lambda each: -each[0])
    hot = found[:HOT_LOOPS]
    cycles = {core: cycles_of([loop.texts for *_, loop in hot], core) for core in cores}
    return [
        HotLoop(
            kernel=_kernel_of(function, templates),
            instructions=ran,
            turns=turns,
            length=len(loop.code),
            multiply_adds=loop.multiply_adds,
            loads=loop.loads,
            stores=loop.stores,
            stack=loop.stack,
            moves=loop.moves,
            cycles={core: each[place] for core, each in cycles.items()},
            code=tuple(_shown(line, loop.code[0].address) for line in loop.code),
        )
        for place, (ran, turns, function, loop) in enumerate(hot)
    ]


def _shown(line: Line, start: int) -> str:
    """Return an instruction at its distance from the loop's start, a branch with where it leads."""
    target = branch_target(line.word, line.address)
    text = line.text
    if target is not None:
        text = f"{text.rpartition(' ')[0]} {target - start:#x}"
    return f"{line.address - start:#6x}: {text}"
