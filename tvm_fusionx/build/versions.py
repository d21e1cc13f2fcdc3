"""Versions of a model in one library, for cores with other features: which one a core runs.

Each version is built for a target of its own, plainest first, and has its own kernels and, where
constants are packed otherwise, its own constants. A core runs the last whose features it has. The
library asks the core itself, by a function in it that hands over what Linux tells of the core: so
the same question is asked here, on a phone, and under emulation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import tvm
from tvm import tir

from tvm_fusionx.errors import TargetError
from tvm_fusionx.processors.core_features import features_needed, features_told
from tvm_fusionx.processors.targets import TargetLike, Targets, resolve_target

# Takes the number of a word of the auxiliary vector, and returns it.
ASKS_CORE = "fusionx_core_word"

WORD = "int64"


class Version(Protocol):
    """What is asked of a program; see :class:`tvm_fusionx.build.library.Library`."""

    @property
    def model(self) -> str:
        """The model's name."""

    @property
    def target(self) -> str:
        """What it was built for."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Features that its core must have."""


Program = TypeVar("Program", bound=Version)


def each_target(target: Targets) -> list[TargetLike]:
    """Return the targets that `target` is, one or several."""
    return [*target] if isinstance(target, list | tuple) else [target]


def resolved_targets(target: Targets) -> tuple[tvm.target.Target, ...]:
    """Return a target, or several, as TVM understands them.

    Raises
    ------
    TargetError
        One is unknown; there are none; two are the same; or there are several, and one is not for
        AArch64.
    """
    resolved = tuple(resolve_target(each) for each in each_target(target))
    distinct = {str(each) for each in resolved}
    if not resolved or len(distinct) < len(resolved):
        raise TargetError(
            "targets",
            expected="at least one, and no two the same",
            found=", ".join(repr(str(each)) for each in resolved) or "none",
            next_step="Give each version of the library once, the plainest first.",
        )
    if len(resolved) > 1:
        for each in resolved:
            features_needed(each)
    return resolved


def needs_of(targets: Sequence[tvm.target.Target], number: int) -> tuple[str, ...]:
    """Return what a core needs for a version; nothing is asked of it where there is but one."""
    return features_needed(targets[number]) if len(targets) > 1 else ()


def core_asker(target: tvm.target.Target) -> Any:
    """Return the module of the function that a library asks its core by."""
    word = tir.Var("word", WORD)
    answer = tir.ret(tir.call_extern(WORD, "getauxval", word))
    function = tir.PrimFunc([word], tir.Evaluate(answer)).with_attr("global_symbol", ASKS_CORE)
    return tvm.build(tvm.IRModule({ASKS_CORE: function}), target=target)


def fitting(programs: Sequence[Program], read: Callable[[int], int]) -> tuple[Program, ...]:
    """Return the programs of the version that a core runs, the smallest first.

    Parameters
    ----------
    programs
        Of all versions, in their order.
    read
        What reads a word of the core's auxiliary vector; not asked where there is one version.

    Raises
    ------
    TargetError
        The core can run none.
    """
    versions: dict[str, list[Program]] = {}
    for program in programs:
        versions.setdefault(program.target, []).append(program)
    if len(versions) == 1:
        return tuple(programs)
    has = features_told(read)
    able = [each for each in versions.values() if has.issuperset(each[0].needs)]
    if not able:
        first = next(iter(versions.values()))[0]
        raise TargetError(
            f"library of {first.model}",
            expected=f"a core with {', '.join(first.needs)}",
            found=", ".join(sorted(has)) or "a core without features beyond Armv8.0",
            next_step="Build it with a plainer target first, such as "
            "'llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53'.",
        )
    return tuple(able[-1])


def fitting_loaded(programs: Sequence[Program], module: Any) -> tuple[Program, ...]:
    """Return the programs that the core runs on which their code was loaded; see `fitting`."""

    def read(word: int) -> int:
        return int(module.get_function(ASKS_CORE, query_imports=True)(word))

    return fitting(programs, read)
