"""The inputs a model takes: described, checked, read from a file, made up."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx._tvm.arrays import BFLOAT16, is_floating, with_brains
from tvm_fusionx.errors import InputError

Params = Mapping[str, Any]
"""Values of parameters, by name."""

Arrays = Mapping[str, np.ndarray]
"""One array for each input, by name."""

# Integer inputs are most often indices, into a table at least this long in every model we know: a
# token type, the shortest, has two rows.
RANDOM_INTEGER_END = 2


@dataclass(frozen=True)
class InputSpec:
    """Name, shape and dtype of one input."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        """Return the form of the flag ``--input-shapes``, with the dtype."""
        return f"{self.shape_text} {self.dtype}"

    @property
    def shape_text(self) -> str:
        """Return the form of the flag ``--input-shapes``."""
        return f"{self.name}:[{','.join(map(str, self.shape))}]"


def inputs_of(mod: Any, params: Mapping[str, Any] | None = None) -> tuple[InputSpec, ...]:
    """Return what ``main`` of a typed Relay module takes, without the parameters in `params`."""
    return tuple(
        InputSpec(
            str(var.name_hint),
            tuple(int(extent) for extent in var.checked_type.shape),
            str(var.checked_type.dtype),
        )
        for var in mod["main"].params
        if str(var.name_hint) not in (params or {})
    )


def random_inputs(specs: tuple[InputSpec, ...], seed: int = 0) -> dict[str, np.ndarray]:
    """Return inputs drawn from a seeded generator.

    Parameters
    ----------
    seed
        Equal seeds give equal inputs on every machine.

    Returns
    -------
    dict of str to numpy.ndarray
        Normal for floating point, 0 or 1 for integers and booleans. An input whose name says that
        it masks, an attention mask, is all ones: a row masked out entirely is NaN in some models.
    """
    generator = np.random.default_rng(seed)
    values = {}
    for spec in specs:
        dtype = np.dtype(spec.dtype)
        if is_floating(dtype):
            value: np.ndarray = generator.standard_normal(spec.shape)
        elif "mask" in spec.name:
            value = np.ones(spec.shape)
        else:
            value = generator.integers(0, RANDOM_INTEGER_END, spec.shape)
        values[spec.name] = np.asarray(value).astype(dtype)
    return values


def fill_inputs(
    given: Mapping[str, Any], specs: tuple[InputSpec, ...], mode: str
) -> dict[str, np.ndarray]:
    """Return `given` with an array for each other input: zeros, ones, or seeded random values."""
    made = random_inputs(specs)
    if mode != "random":
        made = {name: np.full_like(value, mode == "ones") for name, value in made.items()}
    return {**made, **given}


def check_inputs(inputs: Mapping[str, Any], specs: tuple[InputSpec, ...]) -> dict[str, np.ndarray]:
    """Return `inputs` as arrays in the order of `specs`.

    What takes bfloat16 takes ``ml_dtypes.bfloat16``, and the bits of such numbers in uint16.

    Raises
    ------
    InputError
        A name, a shape or a dtype differs. Nothing is converted: a cast that loses values would be
        a wrong answer without a word.
    """
    wanted = {spec.name: spec for spec in specs}
    unknown = [name for name in inputs if name not in wanted]
    missing = [name for name in wanted if name not in inputs]
    if unknown or missing:
        raise InputError(
            f"input {(unknown or missing)[0]!r}",
            expected=f"the inputs {', '.join(map(str, specs)) or '(none)'}",
            found=f"{', '.join(map(repr, inputs)) or 'none'}"
            + (f" (missing: {', '.join(map(repr, missing))})" if missing else ""),
            next_step="Name the arrays as the model names its inputs.",
        )
    arrays = {}
    for name, spec in wanted.items():
        value = with_brains(np.asarray(inputs[name]), spec.dtype)
        if value.shape != spec.shape:
            raise InputError(
                f"input {name!r}",
                expected=f"shape {spec.shape}",
                found=f"shape {value.shape}",
                next_step="Give an array of that shape, or compile for yours with --input-shapes.",
            )
        if str(value.dtype) != spec.dtype:
            raise InputError(
                f"input {name!r}",
                expected=f"dtype {spec.dtype}",
                found=f"dtype {value.dtype}",
                next_step=_how_to_convert(spec.dtype),
            )
        arrays[name] = value
    return arrays


def _how_to_convert(dtype: str) -> str:
    if dtype == BFLOAT16:
        return (
            "Convert it with array.astype(ml_dtypes.bfloat16), or give the numbers' bits in uint16."
        )
    return f"Convert it with numpy: array.astype({dtype!r})."


def read_inputs(path: str | Path) -> dict[str, np.ndarray]:
    """Return the arrays of an ``.npz`` file by name; nothing in it is unpickled.

    NumPy writes bfloat16 as two bytes without a meaning; they are read as bfloat16.

    Raises
    ------
    InputError
        The file is missing, damaged, not an ``.npz`` file, or holds Python objects.
    """
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("a single array without a name (.npy)")
        with archive:
            return {name: with_brains(archive[name]) for name in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(
            f"inputs file {path}",
            expected="an .npz file of named numeric arrays",
            found=_without_numpys_advice(error),
            next_step="Write one with numpy.savez(path, name=array, ...).",
        ) from error


def write_arrays(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an ``.npz`` file at `path`, whatever the arrays are called.

    ``numpy.savez`` takes names as its keywords and has some of its own, such as ``file``.
    """
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def _without_numpys_advice(error: Exception) -> str:
    """Return what is wrong with a file; NumPy's words go on to how it could be loaded unsafely."""
    text = f"{type(error).__name__}: {error}"
    if "pickle" in text:
        return "Python objects, which are not read, or a file of another kind"
    return text
