"""One model compiled for several shapes: programs that share their weights and one library."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from tvm_fusionx._tvm.arrays import numpy_of
from tvm_fusionx.build.executors import VM, chosen_executor
from tvm_fusionx.build.fit import fitted
from tvm_fusionx.build.fused_build import DEFAULT_NAME, FusedBuild, build_fused, kernel_notes
from tvm_fusionx.build.library import Library, describe_library
from tvm_fusionx.build.vm_program import VmProgram, build_for_machine
from tvm_fusionx.errors import ShapeError
from tvm_fusionx.inputs import inputs_of
from tvm_fusionx.processors.targets import is_cpu
from tvm_fusionx.records import Record

Shapes = Mapping[str, Sequence[int]]
"""Shapes of inputs, by name."""


@dataclass
class Programs:
    """A model for several shapes; it runs what fits.

    Examples
    --------
    >>> model = fx.build("bert.onnx", "llvm", shapes=[{"ids": (1, 32)}, {"ids": (1, 128)}])
    ... # doctest: +SKIP
    >>> model.run(ids=np.ones((1, 20), "int64"))  # doctest: +SKIP
    """

    programs: tuple[Library, ...]
    """The smallest first. All have the same module, and weights that are equal are the same arrays.
    """

    builds: tuple[FusedBuild, ...] = field(default=(), repr=False, compare=False)
    """What each was made from, where they were built here."""

    _executors: dict[int, Any] = field(default_factory=dict, repr=False, compare=False)

    def run(self, **inputs: Any) -> list[np.ndarray]:
        """Return the outputs of the smallest program that the inputs fit.

        Smaller inputs are padded with zeros, and outputs that grow with them cut to their size.

        Raises
        ------
        InputError
            No program is large enough, or the inputs are not those of the model.
        """
        fit = fitted(self.programs, inputs)
        if fit.number not in self._executors:
            self._executors[fit.number] = _executor(fit.program)
        executor = self._executors[fit.number]
        # One at a time: an input may be called "key".
        for name, array in fit.inputs.items():
            executor.set_input(name, array)
        executor.run()
        count = executor.get_num_outputs()
        return fit.cut([numpy_of(executor.get_output(place)) for place in range(count)])


def _executor(program: Library) -> Any:
    target = tvm.target.Target(program.target)
    if not is_cpu(target):
        return program.executor(tvm.device(str(target.kind.name), 0))
    # The programs are there as long as their executors.
    return program.executor(shares_weights=True)


def build_programs(
    model: Any,
    target: str | tvm.target.Target,
    shapes: Sequence[Shapes],
    *,
    model_name: str = "model",
    constants: Mapping[str, Any] | None = None,
    on_stage: Callable[[str], None] = lambda stage: None,
    records: str | Path | Mapping[str, Record] | None = None,
    device: str | None = None,
    executor: str | None = None,
    **choices: Any,
) -> Programs | VmProgram:
    """Import and build a model once for each of some shapes.

    Parameters
    ----------
    model
        ONNX file or model, as for :func:`fx.from_onnx`.
    shapes
        For each program the shapes of all inputs whose extents are open.
    model_name
        For people.
    constants
        Inputs to bind, as for :func:`fx.from_onnx`.
    on_stage
        Told what is being done, in words.
    records, device, executor, **choices
        As for :func:`fx.build`.

    Returns
    -------
    programs
        For the virtual machine the one program.

    Raises
    ------
    ShapeError
        There are no shapes, or two are the same; or there are several, and the data decides others.
    """
    # Reading ONNX needs a package that the rest does not.
    from tvm_fusionx.frontend.from_onnx import from_onnx

    _check(shapes)
    builds, described = [], []
    for number, shape in enumerate(sorted(shapes, key=_size)):
        prefix = f"program {number + 1} of {len(shapes)}: " if len(shapes) > 1 else ""
        on_stage(prefix + "importing")
        mod, params = from_onnx(model, shape=dict(shape), constants=constants)
        if chosen_executor(mod, executor) == VM:
            _check_one(shapes)
            return build_for_machine(
                mod,
                target,
                params,
                records,
                device,
                model_name,
                _prefixed(on_stage, prefix),
                **choices,
            )
        build = build_fused(
            mod,
            target,
            params=params,
            records=records,
            device=device,
            on_stage=_prefixed(on_stage, prefix),
            name=f"program{number}" if len(shapes) > 1 else DEFAULT_NAME,
            **choices,
        )
        builds.append(build)
        described.append(
            describe_library(
                build.library,
                model=model_name,
                target=str(target),
                inputs=inputs_of(mod, params),
                kernels=kernel_notes(build),
            )
        )
    return Programs(tuple(sharing_weights(described)), tuple(builds))


def _prefixed(on_stage: Callable[[str], None], prefix: str) -> Callable[[str], None]:
    return lambda stage: on_stage(prefix + stage)


def sharing_weights(programs: Sequence[Library]) -> list[Library]:
    """Return programs with one module, in which equal weights are the same arrays."""
    module = programs[0].module
    for program in programs[1:]:
        module.import_module(program.module)
    seen: dict[str, Any] = {}
    shared = []
    for program in programs:
        params = {
            name: seen.setdefault(_digest(value), value) for name, value in program.params.items()
        }
        shared.append(replace(program, module=module, params=params))
    return shared


def _digest(value: Any) -> str:
    held = hashlib.sha256(value.numpy().tobytes()).hexdigest()
    return f"{value.dtype}{tuple(value.shape)}{held}"


def _check_one(shapes: Sequence[Shapes]) -> None:
    if len(shapes) > 1:
        raise ShapeError(
            "shapes",
            expected="one set of shapes for TVM's virtual machine",
            found=f"{len(shapes)}",
            next_step="Compile a library for each.",
        )


def _size(shape: Shapes) -> int:
    return sum(math.prod(extents) for extents in shape.values())


def _check(shapes: Sequence[Shapes]) -> None:
    are_shapes = isinstance(shapes, Sequence) and all(map(_is_shapes, shapes))
    distinct = {_text(each) for each in shapes} if are_shapes else set()
    if not distinct or len(distinct) < len(shapes):
        raise ShapeError(
            "shapes",
            expected="a list of at least one set of shapes, no two the same",
            found=str(shapes) if shapes else "none",
            next_step='Write them like [{"ids": (1, 32)}, {"ids": (1, 128)}].',
        )


def _text(shapes: Shapes) -> str:
    return str(sorted((name, tuple(map(int, extents))) for name, extents in shapes.items()))


def _is_shapes(shapes: Any) -> bool:
    return isinstance(shapes, Mapping) and all(
        isinstance(shape, Sequence)
        and all(isinstance(extent, (int, np.integer)) and extent >= 0 for extent in shape)
        for shape in shapes.values()
    )
