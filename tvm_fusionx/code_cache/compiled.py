"""The kernels of one build: taken from where they are kept, the others compiled and kept."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import tvm
from tvm import tir

from tvm_fusionx._tvm.linked_objects import WithObjects
from tvm_fusionx._tvm.object_files import object_code
from tvm_fusionx.code_cache.decision import Decision
from tvm_fusionx.code_cache.entry import Entry
from tvm_fusionx.code_cache.folder import KernelFolder
from tvm_fusionx.code_cache.keys import kernel_keys, symbol_of
from tvm_fusionx.code_cache.loaded import is_called_here, load_kernels, why_not_here
from tvm_fusionx.code_cache.setting import folder_in_use
from tvm_fusionx.late_passes.context import ADD_LOWER_PASS
from tvm_fusionx.late_passes.lower_kernel import (
    Progress,
    like,
    lower_kernel,
    lower_kernels,
    side_by_side,
)
from tvm_fusionx.late_passes.workspaces import Workspace, workspaces_of
from tvm_fusionx.processors.targets import is_cpu

logger = logging.getLogger(__name__)

# In the table of names of an object that calls functions of TVM's registry: it needs the module
# that it belongs to, which one object of several modules has not.
CONTEXT_OF_MODULE = b"__tvm_module_ctx"
# Attribute of a lowered function that stands for its module; several are linked together here.
ENTRY = "tir.is_entry_func"


class Block(Protocol):
    """A block of a build, as :class:`tvm_fusionx.blocks.block.Block`."""

    key: str
    """What its decision is kept under; empty where it is not."""

    decision: Decision | None
    """What an earlier build decided of it."""

    @property
    def func(self) -> Any:
        """The scheduled function, which is made when it is asked for."""

    def decided(self, kernel: str) -> Decision:
        """Return what is kept of it."""


def kept_kernels(target: tvm.target.Target, denormals: str) -> CompiledKernels | None:
    """Return what keeps the kernels of a build that begins here; None where nothing can.

    Passes of a user's own change kernels, and nothing tells what they do; an instrument wants to
    see every pass.
    """
    around = tvm.transform.PassContext.current()
    if not is_cpu(target) or ADD_LOWER_PASS in around.config or list(around.instruments):
        return None
    problem = why_not_here() if is_called_here(target) else None
    if problem is not None:
        logger.info("kernels are not kept: %s", problem)
        return None
    folder = folder_in_use()
    return None if folder is None else CompiledKernels(target, denormals, folder)


@dataclass
class CompiledKernels:
    """Takes the place of lowering in one build.

    Attributes
    ----------
    target
        A CPU.
    denormals
        What the passes of the current context do with them.
    folder
        Where kernels are kept.
    workspaces
        Of the kernels whose code lies elsewhere, by the symbol that they were asked for under.
    lowered
        What lowers each of these again, for who asks for more than its code.
    taken, made
        How many were found, and how many compiled.
    """

    target: tvm.target.Target
    denormals: str
    folder: KernelFolder
    workspaces: dict[str, Workspace] = field(default_factory=dict)
    lowered: dict[str, Callable[[], tir.PrimFunc]] = field(default_factory=dict)
    taken: int = 0
    made: int = 0
    _objects: dict[str, bytes] = field(default_factory=dict)

    def lower(
        self, blocks: Sequence[tuple[str, Block]], target: tvm.target.Target, on_progress: Progress
    ) -> list[tir.PrimFunc | str]:
        """Return the symbol of each kernel's code; the lowered function of one that is not kept.

        As :data:`tvm_fusionx.late_passes.deferred_kernels.Lower` has it.
        """
        if not blocks:
            return []
        found: dict[str, Entry] = {}
        missing: dict[str, Block] = {}
        keys = [self._found(block, found, missing) for _, block in blocks]
        self.taken = skipped = len(found)

        def told(done: int, count: int) -> None:
            on_progress(skipped + done, skipped + count)

        if not missing:
            told(0, 0)
        items = [(key, block.func) for key, block in missing.items()]
        made = side_by_side(self._compiled, items, told)
        new = {key: entry for key, entry in zip(missing, made, strict=True) if entry is not None}
        found.update(new)
        self.made = len(new)
        self._keep(new, [(key, block) for key, (_, block) in zip(keys, blocks, strict=True)])
        problem = self._load(found)
        if problem is not None:
            logger.warning("%s; they are compiled once more", problem)
            self.taken = self.made = 0
            plain = [(name, block.func) for name, block in blocks]
            return list(lower_kernels(plain, target, on_progress))
        logger.info("%d kernels as they were kept, %d compiled", self.taken, self.made)
        return self._answers(blocks, keys, found)

    def with_objects(self, mod: tvm.IRModule) -> tvm.IRModule | WithObjects:
        """Return the functions of a build, and the code that they call."""
        if not self._objects:
            return mod
        # In one order, so that libraries are the same bytes each time.
        return WithObjects(mod, tuple(self._objects[symbol] for symbol in sorted(self._objects)))

    @functools.cached_property
    def _key_of(self) -> Callable[[Any], str]:
        return kernel_keys(self.target, self.denormals)

    def _found(
        self,
        block: Block,
        found: dict[str, Entry],
        missing: dict[str, Block],
    ) -> str:
        """Return the key of a block's code, which is noted as found or as missing."""
        told = None if block.decision is None else block.decision.kernel
        if told is not None and self._is_known(told, found, missing):
            return told
        key = self._key_of(block.func)
        if not self._is_known(key, found, missing):
            missing[key] = block
        return key

    def _is_known(self, key: str, found: dict[str, Entry], missing: dict[str, Block]) -> bool:
        if key not in found and key not in missing:
            entry = self.folder.read(key)
            if entry is None:
                return False
            found[key] = entry
        return True

    def _keep(self, new: dict[str, Entry], blocks: Sequence[tuple[str, Block]]) -> None:
        written = [self.folder.write(key, entry) for key, entry in new.items()]
        problems = list(filter(None, written))
        if problems:
            logger.warning("%d of %d kernels not kept: %s", len(problems), len(new), problems[0])
        undecided = [(key, each) for key, each in blocks if each.key and each.decision is None]
        for key, block in undecided if not problems else ():
            decision = block.decided(key)
            if decision is not None:
                self.folder.write_decision(block.key, decision)
        if new or undecided:
            self.folder.evict()

    def _compiled(self, item: tuple[str, Any]) -> Entry | None:
        """Compile a kernel; return None where its code is none that may be shared."""
        key, func = item
        symbol = symbol_of(key)
        mod = tvm.IRModule({symbol: lower_kernel(func, self.target, symbol).without_attr(ENTRY)})
        code = object_code(tvm.target.codegen.build_module(mod, self.target))
        if CONTEXT_OF_MODULE in code:
            return None
        return Entry(code, workspaces_of(mod).get(symbol, Workspace()))

    def _load(self, found: dict[str, Entry]) -> str | None:
        if not is_called_here(self.target):
            return None
        return load_kernels({symbol_of(key): entry.code for key, entry in found.items()})

    def _answers(
        self, blocks: Sequence[tuple[str, Block]], keys: Sequence[str], found: dict[str, Entry]
    ) -> list[tir.PrimFunc | str]:
        context = like(tvm.transform.PassContext.current())
        answers: list[tir.PrimFunc | str] = []
        for (name, block), key in zip(blocks, keys, strict=True):
            again = self._again(context, block, name)
            if key not in found:
                answers.append(again())
                continue
            symbol = symbol_of(key)
            self._objects[symbol] = found[key].code
            if found[key].workspace != Workspace():
                self.workspaces[name] = found[key].workspace
            self.lowered[name] = again
            answers.append(symbol)
        return answers

    def _again(
        self, context: tvm.transform.PassContext, block: Block, name: str
    ) -> Callable[[], tir.PrimFunc]:
        def lower() -> tir.PrimFunc:
            with like(context):
                return lower_kernel(block.func, self.target, name)

        return lower
