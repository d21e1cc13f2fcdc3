"""A model for TVM's virtual machine: what the data decides is decided while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.runtime import vm as vm_runtime

from tvm_fusionx._tvm.arrays import numpy_of
from tvm_fusionx._tvm.interrupts import interruptible
from tvm_fusionx._tvm.quick_calls import quick_calls
from tvm_fusionx.build.executors import why_virtual_machine
from tvm_fusionx.build.fused_build import work_of_entry
from tvm_fusionx.build.kernels import KernelNote
from tvm_fusionx.build.library import build_versions
from tvm_fusionx.build.parameters import bind_parameters
from tvm_fusionx.build.pipeline import pipeline
from tvm_fusionx.ecg.block_calls import count_blocks
from tvm_fusionx.errors import TargetError
from tvm_fusionx.inputs import InputSpec, check_inputs, inputs_of
from tvm_fusionx.lowering import lowering
from tvm_fusionx.processors.targets import is_cpu
from tvm_fusionx.records import Record
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.schedules.block_work import Work

MAIN = "main"

# As the graph executor's factory calls the model that it makes executors of.
DEFAULT_NAME = "default"


@dataclass(frozen=True)
class OutputSpec:
    """Name, extents and dtype of one output; None for an extent that the data decides."""

    name: str
    dims: tuple[int | None, ...]
    dtype: str

    def __str__(self) -> str:
        """Return the form of an input, with a question mark for what the data decides."""
        shown = ",".join("?" if dim is None else str(dim) for dim in self.dims)
        return f"{self.name}:[{shown}] {self.dtype}"


@dataclass
class VmProgram:
    """A compiled model: bytecode of TVM's virtual machine, and the kernels that it calls.

    Examples
    --------
    >>> mod, params = fx.from_onnx("yolo_with_nms.onnx")  # doctest: +SKIP
    >>> model = fx.build(mod, "llvm")  # doctest: +SKIP
    >>> (boxes,) = model.run(images=np.ones((1, 3, 640, 640), "float32"))  # doctest: +SKIP
    """

    bytecode: bytes = field(repr=False)
    """What the machine does, and the constants."""

    module: Any
    """The kernels' code."""

    model: str
    """Name of the model."""

    target: str
    """The TVM target string that it was built for."""

    inputs: tuple[InputSpec, ...]
    """What it takes."""

    outputs: tuple[OutputSpec, ...]
    """What it returns."""

    kernels: tuple[KernelNote, ...] = ()
    """One note for each kernel, by name."""

    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of what built it."""

    reason: str = ""
    """Why the graph executor cannot run it."""

    build: VmBuild | None = field(default=None, repr=False, compare=False)
    """What it was made from, where it was built here."""

    _machine: Any = field(default=None, repr=False, compare=False)

    def executable(self) -> Any:
        """Return what a machine runs: bytecode and kernels, as TVM loads them."""
        return vm_runtime.Executable.load_exec(bytearray(self.bytecode), self.module)

    def machine(self) -> Any:
        """Return a virtual machine of its own, on the first CPU."""
        return vm_runtime.VirtualMachine(self.executable(), tvm.cpu(0))

    def __getitem__(self, name: str) -> Any:
        """Return what ``graph_executor.GraphModule`` takes: ``program["default"](tvm.cpu())``."""
        if name != DEFAULT_NAME:
            raise KeyError(name)
        return lambda *devices: GraphLikeModule(self.machine(), self.inputs)

    def run(self, **inputs: Any) -> list[np.ndarray]:
        """Return the outputs for one array for each input, by name.

        Raises
        ------
        InputError
            The inputs are not those of the model.
        """
        arrays = check_inputs(inputs, self.inputs)
        if self._machine is None:
            self._machine = self.machine()
        return outputs_of(self._machine, arrays)


class GraphLikeModule:
    """A virtual machine with the functions of a graph executor, for programs written for one."""

    def __init__(self, machine: Any, inputs: tuple[InputSpec, ...]) -> None:
        self._machine = machine
        self._inputs = {spec.name: tvm.nd.empty(spec.shape, spec.dtype) for spec in inputs}
        self._outputs: list[Any] = []

    def __getitem__(self, name: str) -> Any:
        """Return a function by the graph executor's name of it."""
        return getattr(self, f"_{name}", None) or getattr(self, name)

    def _get_input(self, name: str | int) -> Any:
        if isinstance(name, int):
            return list(self._inputs.values())[name]
        return self._inputs.get(name)

    def _set_input(self, name: str | int, value: Any) -> None:
        self._get_input(name).copyfrom(value)

    def _get_num_inputs(self) -> int:
        return len(self._inputs)

    def _get_input_index(self, name: str) -> int:
        return list(self._inputs).index(name) if name in self._inputs else -1

    def _get_input_info(self) -> dict[str, Any]:
        return {
            "shape": {name: list(each.shape) for name, each in self._inputs.items()},
            "dtype": {name: each.dtype for name, each in self._inputs.items()},
        }

    def _load_params(self, params: bytearray) -> None:
        for name, value in relay.load_param_dict(params).items():
            self._set_input(name, value)

    _share_params = _load_params

    def run(self) -> None:
        """Compute the outputs."""
        self._outputs = _flat(self._machine.invoke(MAIN, *self._inputs.values()))

    def _get_num_outputs(self) -> int:
        return len(self._outputs)

    def _get_output(self, place: int, into: Any = None) -> Any:
        return self._outputs[place] if into is None else self._outputs[place].copyto(into)


def outputs_of(machine: Any, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Return what a machine's ``main`` returns for arrays in the order of its inputs."""
    result = machine.invoke(MAIN, *map(tvm.nd.array, arrays.values()))
    return [numpy_of(part) for part in _flat(result)]


def _flat(result: Any) -> list[Any]:
    if isinstance(result, tvm.nd.NDArray):
        return [result]
    return [part for field in result for part in _flat(field)]


@dataclass(frozen=True)
class VmBuild:
    """The module that a program was built from, after all passes, and the log of its lowering."""

    module: Any
    log: Any


@interruptible()
@quick_calls()
def build_for_machine(
    mod: Any,
    target: str | tvm.target.Target,
    params: Mapping[str, Any] | None = None,
    records: str | Path | Mapping[str, Record] | None = None,
    device: str | None = None,
    model_name: str = "model",
    on_stage: Callable[[str], None] = lambda stage: None,
    **choices: Any,
) -> VmProgram:
    """Fuse what is static in `mod`, and build all of it for the virtual machine.

    Parameters
    ----------
    model_name
        For people.
    mod, target, params, records, device, on_stage, **choices
        As for :func:`tvm_fusionx.build.fused_build.build_fused`.

    Raises
    ------
    TargetError
        The target is no CPU.
    """
    resolved = resolve_target(target)
    if not is_cpu(resolved):
        raise TargetError(
            "TVM's virtual machine",
            expected="a CPU, where what the data decides is read",
            found=str(resolved),
            next_step="Cut the model before what the data decides, or compile it for a CPU.",
        )
    bound = relay.transform.InferType()(bind_parameters(mod, params))
    on_stage("planning")
    fused = pipeline(resolved, **choices)(bound)
    blocks = count_blocks(fused)
    # What is static was legalized before; in other kernels it marks operands of `take`, and no
    # kernel can hold the mark.
    outer = tvm.transform.PassContext.current()
    context = tvm.transform.PassContext(
        opt_level=outer.opt_level,
        disabled_pass=[*map(str, outer.disabled_pass), "Legalize"],
        instruments=list(outer.instruments),
        config=dict(outer.config.items()),
    )
    with context, lowering(resolved, records, device) as log:
        log.on_entry = lambda: on_stage(
            f"scheduling kernel {min(len(log.entries), blocks)} of {blocks}"
        )
        log.on_lowered = lambda done, count: on_stage(f"lowering kernel {done} of {count}")
        log.on_code = lambda: on_stage(f"making code of {len(log.entries)} kernels")
        executable = relay.vm.compile(fused, target=resolved)
        bytecode, module = executable.save()
    counted: dict[str, Work] = {}
    notes = (
        KernelNote(
            entry.name,
            template=entry.template,
            is_tuned=entry.is_tuned,
            work=work_of_entry(entry, counted),
        )
        # Functions of a module have no order of their own.
        for entry in sorted(log.entries, key=lambda entry: entry.name)
    )
    return VmProgram(
        bytes(bytecode),
        module,
        model_name,
        str(resolved),
        inputs_of(bound),
        outputs_told(bound["main"].ret_type),
        tuple(notes),
        build_versions(),
        why_virtual_machine(bound),
        VmBuild(fused, log),
    )


def outputs_told(kind: Any) -> tuple[OutputSpec, ...]:
    """Return what a function of this result type returns, by place."""
    parts = list(kind.fields) if isinstance(kind, tvm.ir.TupleType) else [kind]
    return tuple(
        OutputSpec(
            f"output_{place}",
            tuple(int(e) if isinstance(e, tvm.tir.IntImm) else None for e in part.shape),
            str(part.dtype),
        )
        for place, part in enumerate(parts)
    )
