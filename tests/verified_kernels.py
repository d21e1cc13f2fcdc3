"""Kernels that passed before: an equal one, asked the same question, is not compiled again.

A row is a digest of the kernel as LLVM gets it, after all passes of lowering; of the target, TVM
and LLVM; and of the question: inputs or their seed, the reference, the tolerance. So whatever
changes the kernel, or what is asked of it, has it compiled, run and compared.
docs/design/testing.md says why that is as strong as compiling all.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

from tests.relay_modules import (
    TARGET,
    assert_close,
    inputs_of,
    operator_names,
    run_plain,
)
from tvm_fusionx._tvm.cures import let_cure
from tvm_fusionx.late_passes.context import pass_context
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.schedules import resolve_target

TABLE = Path(__file__).with_name("verified_kernels.txt")
DIGITS = 16
# One row in so many is compiled all the same, so that every run compiles some of every template.
ALWAYS_COMPILED = "0"
# Changes no number: it exchanges operands, or names the same instruction.
LETS_NANS_THROUGH = "tvm_fusionx.LetNansThrough"
# How the names of operators begin that this package defines.
OUR_OPERATORS = "fusionx."

# Digest, processor, test file.
Row = tuple[str, str, str]


def _text_of(fact: Any) -> str:
    """Return what tells a part of a question from others, the same in every process."""
    if isinstance(fact, (tuple, list)):
        return f"({','.join(map(_text_of, fact))})"
    if isinstance(fact, np.ndarray):
        held = np.ascontiguousarray(fact)
        return f"{held.dtype}{held.shape}{hashlib.sha256(held.tobytes()).hexdigest()}"
    if isinstance(fact, (tvm.IRModule, tvm.ir.BaseFunc)):
        return str(tvm.ir.structural_hash(fact))
    if inspect.isfunction(fact):
        return _source_of(fact)
    if isinstance(fact, (str, int, float, bool, type(None))):
        return repr(fact)
    raise TypeError(f"a question is made of numbers, arrays, modules and functions, not {fact!r}")


@functools.cache
def _source_of(function: Callable[..., Any]) -> str:
    """Return what a function does, without its comments and how it is laid out."""
    return ast.dump(ast.parse(textwrap.dedent(inspect.getsource(function))))


def digest_of(func: Any, target: tvm.target.Target, facts: Sequence[Any]) -> str:
    """Return the digest of a scheduled PrimFunc, lowered for `target`, and of a question."""
    around = tvm.transform.PassContext.current()
    without = tvm.transform.PassContext(
        opt_level=around.opt_level,
        config=dict(around.config.items()),
        disabled_pass=[*around.disabled_pass, LETS_NANS_THROUGH],
    )
    with let_cure(), without, pass_context(target):
        lowered = tvm.lower(func, name="kernel")
    return _digest(target, (lowered, *facts))


def _digest(target: tvm.target.Target, facts: Sequence[Any]) -> str:
    versions = (tvm.__version__, tvm.target.codegen.llvm_version_major())
    text = _text_of([str(target), *versions, *facts])
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def read_rows(path: Path) -> set[Row]:
    """Return the rows of a table; none when there is no file."""
    if not path.exists():
        return set()
    rows = (line.split(" ") for line in path.read_text().splitlines())
    return {(digest, processor, file) for digest, processor, file in rows}


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write a table: a line a row, file by file."""
    ordered = sorted(rows, key=lambda row: row[::-1])
    path.write_text("".join(f"{' '.join(row)}\n" for row in ordered))


class VerifiedKernels:
    """Knows the table, and what passed in this run."""

    def __init__(self, compile_all: bool = False, rows: Iterable[Row] = ()) -> None:
        self.compile_all = compile_all
        self.known = {row[0] for row in rows}
        self.asked: set[Row] = set()
        """Compiled by the test that runs."""
        self.passed: set[Row] = set()
        self.failed: set[Row] = set()
        self.file = ""

    def start(self, file: str) -> None:
        """Begin with a test of a file."""
        self.asked, self.file = set(), file

    def finish(self, passed: bool) -> None:
        """Judge the kernels that a test compiled by its outcome."""
        (self.passed if passed else self.failed).update(self.asked)
        self.asked = set()

    def has(self, func: Any, target: tvm.target.Target, facts: Sequence[Any]) -> bool:
        """Tell whether an equal kernel passed; if not, the caller compiles and compares."""
        return self._knows(digest_of(func, target, facts), target)

    def has_graphs(self, target: tvm.target.Target, facts: Sequence[Any]) -> bool:
        """Tell whether graphs that plain TVM compiles passed: modules among the facts."""
        return self._knows(_digest(target, facts), target)

    def _knows(self, digest: str, target: tvm.target.Target) -> bool:
        if digest in self.known and not self.compile_all and digest[0] != ALWAYS_COMPILED:
            return True
        processor = str(target.attrs.get("mcpu", "") or "any")
        self.asked.add((digest, processor, self.file))
        return False


# That of this process; it knows no rows before pytest is configured.
kernels = VerifiedKernels()


class Plugin:
    """Lets pytest tell :data:`kernels` what passed, and collects what its workers saw."""

    def __init__(self, config: pytest.Config) -> None:
        kernels.compile_all = bool(config.getoption("compile_all"))
        kernels.known = {row[0] for row in read_rows(TABLE)}
        self.writes = bool(config.getoption("write_verified"))
        self.is_worker = hasattr(config, "workerinput")
        self.seen: dict[str, set[Row]] = {"passed": set(), "failed": set()}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """Note what a test compiles, and how it ends."""
        kernels.start(item.nodeid.split("::")[0])
        passed = False
        try:
            yield
            passed = True
        finally:
            kernels.finish(passed)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a worker saw."""
        self._take(getattr(node, "workeroutput", {}).get("verified", {}))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Give what this process saw to the one that started it, or write it."""
        found: dict[str, Any] = {
            "passed": sorted(map(list, kernels.passed)),
            "failed": sorted(map(list, kernels.failed)),
        }
        if self.is_worker:
            session.config.workeroutput["verified"] = found
            return
        self._take(found)
        if self.writes:
            write_rows(TABLE, (read_rows(TABLE) | self.seen["passed"]) - self.seen["failed"])

    def _take(self, found: dict[str, list[list[str]]]) -> None:
        for outcome, rows in found.items():
            self.seen[outcome].update((row[0], row[1], row[2]) for row in rows)


def assert_kernel(
    func: Any,
    target: Any,
    inputs: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    tolerance: float,
) -> None:
    """Compile a kernel, run it, compare: unless an equal one passed on these very arrays.

    Its results lie behind its inputs, and are no numbers before it runs: what is not written shows.
    """
    resolved = tvm.target.Target(target)
    facts = (tuple(inputs), tuple(expected), tolerance, assert_close, assert_kernel)
    if kernels.has(func, resolved, facts):
        return
    assert_results(compile_kernel(func, resolved, "kernel"), inputs, expected, tolerance)


def assert_same_numbers(
    found: tvm.IRModule,
    expected: tvm.IRModule,
    tolerance: float,
    inputs: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Run two modules by plain TVM, and compare: unless these very ones passed.

    Modules with an operator of our own always run: they do not tell how it is defined.
    """
    given = inputs_of(expected) if inputs is None else inputs
    facts = (found, expected, *given, *given.values(), tolerance, run_plain, assert_close)
    if not _has_our_operators(found) and kernels.has_graphs(resolve_target(TARGET), facts):
        return
    assert_close(run_plain(found, given), run_plain(expected, given), tolerance)


def _has_our_operators(mod: tvm.IRModule) -> bool:
    return any(name.startswith(OUR_OPERATORS) for name in operator_names(mod["main"]))


def assert_results(
    kernel: Callable[..., None],
    inputs: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    tolerance: float,
) -> None:
    """Run a compiled kernel into arrays that hold no numbers yet, and compare."""
    found = [tvm.nd.array(_no_numbers(array)) for array in expected]
    kernel(*map(tvm.nd.array, inputs), *found)
    assert_close([array.numpy() for array in found], expected, tolerance)


def _no_numbers(like: np.ndarray) -> np.ndarray:
    if np.issubdtype(like.dtype, np.floating):
        return np.full_like(like, np.nan)
    return np.full_like(like, np.iinfo(like.dtype).min if like.dtype != bool else False)
