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
from tvm_fusionx.build.versions import (
    core_asker,
    each_target,
    fitting_loaded,
    needs_of,
    resolved_targets,
)
from tvm_fusionx.build.vm_program import VmProgram, build_for_machine
from tvm_fusionx.errors import ShapeError
from tvm_fusionx.inputs import inputs_of
from tvm_fusionx.processors.targets import Targets, is_cpu
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
    """The smallest first; for several targets all of the first's before the second's. All have the
    same module, and weights that are equal are the same arrays.
    """

    builds: tuple[FusedBuild, ...] = field(default=(), repr=False, compare=False)
    """What each was made from, where they were built here."""

    _fitting: list[Library] = field(default_factory=list, repr=False, compare=False)
    _executors: dict[int, Any] = field(default_factory=dict, repr=False, compare=False)

    def run(self, **inputs: Any) -> list[np.ndarray]:
        """Return the outputs of the smallest program that the inputs fit.

        Smaller inputs are padded with zeros, and outputs that grow with them cut to their size.

        Raises
        ------
        InputError
            No program is large enough, or the inputs are not those of the model.
        TargetError
            They are for several targets, and none is for this core.
        """
        self._fitting = self._fitting or [*fitting_loaded(self.programs, self.programs[0].module)]
        fit = fitted(self._fitting, inputs)
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
    target: Targets,
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
    """Import and build a model once for each of some targets and shapes.

    Parameters
    ----------
    model
        ONNX file or model, as for :func:`fx.from_onnx`; or a Relay module, for one set of shapes.
    target
        Target string or object; or several for AArch64, plainest first. See
        :mod:`tvm_fusionx.build.versions`.
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
    _check(shapes)
    targets = resolved_targets(target)
    cases = [
        (version, shape) for version in range(len(targets)) for shape in sorted(shapes, key=_size)
    ]
    builds, described = [], []
    for number, (version, shape) in enumerate(cases):
        prefix = f"program {number + 1} of {len(cases)}: " if len(cases) > 1 else ""
        on_stage(prefix + "importing")
        mod, params = _imported(model, shape, constants)
        if chosen_executor(mod, executor) == VM:
            _check_one(cases)
            return build_for_machine(
                mod,
                targets[0],
                params,
                records,
                device,
                model_name,
                _prefixed(on_stage, prefix),
                **choices,
            )
        build = build_fused(
            mod,
            targets[version],
            params=params,
            records=records,
            device=device,
            on_stage=_prefixed(on_stage, prefix),
            name=f"program{number}" if len(cases) > 1 else DEFAULT_NAME,
            **choices,
        )
        builds.append(build)
        described.append(
            describe_library(
                build.library,
                model=model_name,
                target=str(each_target(target)[version]),
                inputs=inputs_of(mod, params),
                kernels=kernel_notes(build),
                needs=needs_of(targets, version),
            )
        )
    programs = sharing_weights(described)
    if len(targets) > 1:
        programs[0].module.import_module(core_asker(targets[0]))
    return Programs(tuple(programs), tuple(builds))


def _imported(
    model: Any, shape: Shapes, constants: Mapping[str, Any] | None
) -> tuple[tvm.IRModule, Mapping[str, Any]]:
    if isinstance(model, tvm.IRModule):
        return model, {}
    # Reading ONNX needs a package that the rest does not.
    from tvm_fusionx.frontend.from_onnx import from_onnx

    return from_onnx(model, shape=dict(shape), constants=constants)


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


def _check_one(cases: Sequence[Any]) -> None:
    if len(cases) > 1:
        raise ShapeError(
            "shapes",
            expected="one set of shapes, and one target, for TVM's virtual machine",
            found=f"{len(cases)} programs",
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
