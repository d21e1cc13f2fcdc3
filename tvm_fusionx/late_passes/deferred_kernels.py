"""Kernels whose code is made when all of them are known: equal ones once, others side by side.

``relay.build`` asks for one block after the other and lowers each before it asks for the next,
equal ones too. It gets a placeholder, which costs its passes nothing; when it hands all functions
to the code generator, the kernels take their places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.late_passes.lower_kernel import Progress, lower_kernels
from tvm_fusionx.late_passes.share_kernels import passing_on

# Attribute of a placeholder: the number of the block that it stands for.
NUMBER = "fusionx.deferred"

# Called by placeholders, and defined nowhere: one that was left in its place does not link.
NO_CODE = "fusionx_kernel_without_code"


# Symbols and blocks as the placeholders were given them, to lowered functions or the symbols of
# what is compiled already.
Lower = Callable[
    [Sequence[tuple[str, Any]], tvm.target.Target, Progress], Sequence[tir.PrimFunc | str]
]


class DeferredKernels:
    """The scheduled blocks of one build for a CPU, and placeholders for them."""

    def __init__(self, target: tvm.target.Target) -> None:
        self.target = target
        self._blocks: list[Any] = []
        self._numbers: dict[int, int] = {}

    def placeholder(self, func: Any, block: Any = None) -> tir.PrimFunc:
        """Return what stands for `func`, a scheduled block; for the same object, the same one.

        Parameters
        ----------
        func
            A function with the parameters of the kernel.
        block
            What is given to lowering in the place of `func`, where that is not the kernel.
        """
        block = func if block is None else block
        number = self._numbers.setdefault(id(block), len(self._blocks))
        if number == len(self._blocks):
            self._blocks.append(block)
        call = tir.Evaluate(tir.call_extern("int32", NO_CODE, number))
        block = tir.Block([], [], [], "root", call)
        body = tir.BlockRealize([], True, block)
        return func.with_body(body).with_attr(NUMBER, number)

    def fill(
        self, mod: tvm.IRModule, on_progress: Progress, lower: Lower | None = None
    ) -> tuple[tvm.IRModule, dict[str, str]]:
        """Lower the blocks, and put them in the place of their placeholders.

        Parameters
        ----------
        mod
            Fully lowered host functions, as handed to a code generator.
        on_progress
            Told how many kernels are lowered of how many.
        lower
            What lowers blocks; :func:`lower_kernels` by default. A symbol in the place of a
            function is that of code that lies elsewhere: it is called.

        Returns
        -------
        mod
            The same symbols. Of those that stand for one block the first has its code, the others
            pass their arguments on to it.
        names
            For the symbol of each that passes on, that of the one with the code.
        """
        first: dict[int, str] = {}
        for variable, func in mod.functions.items():
            if NUMBER in func.attrs:
                first.setdefault(int(func.attrs[NUMBER]), str(variable.name_hint))
        blocks = [(name, self._blocks[number]) for number, name in first.items()]
        kernels = (lower or lower_kernels)(blocks, self.target, on_progress)
        lowered = dict(zip(first, kernels, strict=True))
        functions = {}
        names = {}
        for variable, func in mod.functions.items():
            if NUMBER not in func.attrs:
                functions[variable] = func
                continue
            number, name = int(func.attrs[NUMBER]), str(variable.name_hint)
            plain = func.without_attr(NUMBER)
            kernel = lowered[number]
            if first[number] != name:
                functions[variable] = passing_on(plain, first[number])
                names[name] = first[number]
            elif isinstance(kernel, str):
                functions[variable] = passing_on(plain, kernel)
            else:
                functions[variable] = tir.PrimFunc(
                    kernel.params, kernel.body, kernel.ret_type, kernel.buffer_map, plain.attrs
                )
        return tvm.IRModule(functions, attrs=mod.attrs), names
