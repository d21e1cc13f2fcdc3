"""Inputs of any size to the smallest of a model's programs that they fit, and its outputs back.

An input that is smaller than its program's is padded with zeros behind its end, as batches of texts
are: a mask that the model takes says which places are real. An axis of an output that grows with an
axis of an input from program to program, as it is or in a smaller proportion, is cut where the
input ends; others stay whole: what has grown, as by joining two, may have padding anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_fusionx.build.library import Library
from tvm_fusionx.errors import InputError
from tvm_fusionx.inputs import InputSpec, check_inputs

# An input's name, and the number of one of its axes.
Axis = tuple[str, int]


@dataclass(frozen=True)
class Fit:
    """The program that some inputs fit, and what it is given for them."""

    number: int
    """Which of the programs, the smallest first."""

    program: Library
    """The program."""

    inputs: Mapping[str, np.ndarray]
    """The inputs in the program's shapes."""

    padded: Mapping[Axis, int]
    """For each axis that was padded, the extent that was given."""

    cuts: tuple[tuple[int | None, ...], ...]
    """For each output, where each of its axes ends; None where it stays whole."""

    def cut(self, outputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the program's outputs without what padding added."""
        return [
            output[tuple(slice(end) for end in ends)]
            for output, ends in zip(outputs, self.cuts, strict=True)
        ]

    def text(self) -> str:
        """Return which program it is, and what was padded."""
        inputs = " ".join(spec.shape_text for spec in self.program.inputs)
        axes = ", ".join(
            f"axis {axis} of {name} from {extent}" for (name, axis), extent in self.padded.items()
        )
        return inputs + (f"; zeros fill {axes}" if axes else "")


def fitted(programs: Sequence[Library], given: Mapping[str, Any]) -> Fit:
    """Return the first of some programs that inputs fit, and the inputs padded for it.

    Parameters
    ----------
    programs
        Of one model, the smallest first.
    given
        One array for each input, by name.

    Raises
    ------
    InputError
        A name, a dtype or a rank differs from the model's; an extent that is the same in all
        programs differs; or no program is large enough.
    """
    arrays = {name: _array(name, value) for name, value in given.items()}
    varying = varying_axes(programs)
    _check_together(programs, arrays)
    for number, program in enumerate(programs):
        if not all(_has_room(spec, arrays.get(spec.name), varying) for spec in program.inputs):
            continue
        whole = {name: _padded(array, name, program, varying) for name, array in arrays.items()}
        inputs = check_inputs(whole, program.inputs)
        padded = {
            (spec.name, axis): arrays[spec.name].shape[axis]
            for spec in program.inputs
            if spec.name in arrays
            for axis, extent in enumerate(spec.shape)
            if (spec.name, axis) in varying and arrays[spec.name].shape[axis] < extent
        }
        cuts = _cuts(programs, number, arrays) if padded else _whole(program)
        return Fit(number, program, inputs, padded, cuts)
    raise _too_large(programs, arrays, varying)


def varying_axes(programs: Sequence[Library]) -> set[Axis]:
    """Return the axes of inputs whose extents differ between programs."""
    first = {spec.name: spec.shape for spec in programs[0].inputs}
    return {
        (spec.name, axis)
        for program in programs
        for spec in program.inputs
        for axis, extent in enumerate(spec.shape)
        if extent != first[spec.name][axis]
    }


def _has_room(spec: InputSpec, array: np.ndarray | None, varying: set[Axis]) -> bool:
    # What is missing, or of another rank, is for the check of all inputs to tell.
    if array is None or array.ndim != len(spec.shape):
        return True
    return all(
        found <= extent or (spec.name, axis) not in varying
        for axis, (found, extent) in enumerate(zip(array.shape, spec.shape, strict=True))
    )


def _padded(array: np.ndarray, name: str, program: Library, varying: set[Axis]) -> np.ndarray:
    shape = next((spec.shape for spec in program.inputs if spec.name == name), array.shape)
    if array.ndim != len(shape):
        return array
    missing = [
        max(0, extent - found) if (name, axis) in varying else 0
        for axis, (extent, found) in enumerate(zip(shape, array.shape, strict=True))
    ]
    return np.pad(array, [(0, count) for count in missing]) if any(missing) else array


def _whole(program: Library) -> tuple[tuple[int | None, ...], ...]:
    return tuple((None,) * len(output.shape) for output in program.outputs)


def _cuts(
    programs: Sequence[Library], number: int, arrays: Mapping[str, np.ndarray]
) -> tuple[tuple[int | None, ...], ...]:
    given_extents = {
        (name, axis): arrays[name].shape[axis]
        for name, axis in sorted(varying_axes(programs))
        if name in arrays
    }
    extents = {
        (spec.name, axis): [_input(each, spec.name).shape[axis] for each in programs]
        for spec in programs[number].inputs
        for axis in range(len(spec.shape))
    }
    cuts = []
    for place, output in enumerate(programs[number].outputs):
        ends: list[int | None] = []
        for axis in range(len(output.shape)):
            own = [program.outputs[place].shape[axis] for program in programs]
            found = {
                source: -(-given * own[number] // extents[source][number])
                for source, given in given_extents.items()
                if _ends_with(own, extents[source])
            }
            if len(set(found.values())) > 1:
                raise _cannot_cut(output.name, axis, {each: given_extents[each] for each in found})
            ends.extend(set(found.values()) or [None])
        cuts.append(tuple(ends))
    return tuple(cuts)


def _cannot_cut(output: str, axis: int, given: Mapping[Axis, int]) -> InputError:
    names = ", ".join(f"axis {axis} of {name!r}" for name, axis in given)
    return InputError(
        names,
        expected="the same extents, for they grow alike in all programs: "
        f"axis {axis} of {output!r} may follow any of them",
        found=", ".join(map(str, given.values())),
        next_step="Pad the input so, or compile for a shape too in which they differ.",
    )


def _ends_with(ours: Sequence[int], theirs: Sequence[int]) -> bool:
    """Tell whether an output's extents are those of an input, or the same part of each."""
    return ours[0] <= theirs[0] and all(
        a * theirs[0] == b * ours[0] for a, b in zip(ours, theirs, strict=True)
    )


def _array(name: str, value: Any) -> np.ndarray:
    try:
        return np.asarray(value)
    except ValueError as error:
        raise InputError(
            f"input {name!r}",
            expected="an array, or lists of equal lengths",
            found=str(error).splitlines()[0],
            next_step="Give a numpy array.",
        ) from error


def _check_together(programs: Sequence[Library], arrays: Mapping[str, np.ndarray]) -> None:
    """Raise InputError where axes of several inputs grow together, and the inputs do not."""
    given: dict[tuple[int, ...], dict[str, set[int]]] = {}
    for name, axis in varying_axes(programs):
        if name in arrays and axis < arrays[name].ndim:
            extents = tuple(_input(program, name).shape[axis] for program in programs)
            own = given.setdefault(extents, {}).setdefault(name, set())
            own.add(arrays[name].shape[axis])
    for extents, found in given.items():
        first, *others = sorted(found)
        for other in others:
            if found[first] != found[other]:
                raise InputError(
                    f"inputs {first!r} and {other!r}",
                    expected=f"the same extents along the axes of {', '.join(map(str, extents))}, "
                    "which grow together from program to program",
                    found=f"{sorted(found[first])} and {sorted(found[other])}",
                    next_step="Give them alike, or compile for the combination too.",
                )


def _input(program: Library, name: str) -> InputSpec:
    return next(spec for spec in program.inputs if spec.name == name)


def _too_large(
    programs: Sequence[Library], arrays: Mapping[str, np.ndarray], varying: set[Axis]
) -> InputError:
    for name, axis in sorted(varying):
        most = max(_input(program, name).shape[axis] for program in programs)
        if name in arrays and arrays[name].shape[axis] > most:
            return InputError(
                f"input {name!r}",
                expected=f"at most {most} along axis {axis}, as the programs {_all(programs)}",
                found=f"shape {arrays[name].shape}",
                next_step="Give less, or compile for more with --input-shapes (shapes=).",
            )
    shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
    return InputError(
        "inputs",
        expected=f"shapes that fit one of the programs {_all(programs)}",
        found=shapes,
        next_step="Compile for these shapes too with --input-shapes (shapes=).",
    )


def _all(programs: Sequence[Library]) -> str:
    return "; ".join(" ".join(spec.shape_text for spec in each.inputs) for each in programs)
