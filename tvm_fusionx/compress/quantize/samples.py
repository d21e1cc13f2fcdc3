"""Calibration inputs: arrays, an ``.npz`` file, or a folder of them, one sample at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx.errors import InputError
from tvm_fusionx.inputs import read_inputs

Sample = dict[str, np.ndarray]
"""One array for each input of the model, by name."""

Calibration = "str | os.PathLike[str] | Iterable[Mapping[str, Any] | Any]"

ELEMENT_TYPES = {
    **{1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64"},
    **{9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64"},
}
FILES = "one .npz file of an array for each input, or a folder of such files, one a sample"


class Samples:
    """The calibration set, read anew at each pass so that only one sample is in memory.

    Parameters
    ----------
    source
        A path (of an ``.npz`` file whose arrays have one axis for the samples, or of a folder with
        an ``.npz``, or for a model of one input an ``.npy``, for each sample), or a sequence of
        samples: dictionaries, or arrays where the model has one input.
    inputs
        The graph inputs (``ValueInfoProto``) that must be given.
    limit
        Samples to use at most.

    Raises
    ------
    InputError
        There is no sample, or one does not fit the model.
    TypeError
        `source` can be read only once.
    """

    def __init__(self, source: Any, inputs: Sequence[Any], limit: int | None = None) -> None:
        self._inputs = {info.name: _described(info) for info in inputs}
        self._limit = limit
        self._read = self._reader(source)
        self._count = sum(1 for _ in self)
        if not self._count:
            raise InputError(
                "calibration set",
                expected="at least one sample",
                found="none",
                next_step=f"Give {FILES}.",
            )

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Sample]:
        for number, sample in enumerate(islice(self._read(), self._limit)):
            yield self._checked(sample, number)

    def _reader(self, source: Any) -> Callable[[], Iterator[Any]]:
        if isinstance(source, (str, os.PathLike)):
            path = Path(source)
            if path.is_dir():
                files = sorted(p for p in path.iterdir() if p.suffix in (".npz", ".npy"))
                return lambda: (_read_file(file) for file in files)
            return lambda: self._split(read_inputs(path))
        if iter(source) is source:
            raise TypeError("the calibration set is read several times: give a list, no iterator")
        return lambda: iter(source)

    def _split(self, arrays: Mapping[str, np.ndarray]) -> Iterator[Sample]:
        """Yield the samples of arrays that have an axis for them, or one array for a sample."""
        count = None
        pieces: dict[str, list[np.ndarray]] = {}
        for name, array in arrays.items():
            if name not in self._inputs:
                raise self._unknown([name])
            pieces[name] = _cut(array, self._inputs[name][1])
            if count not in (None, len(pieces[name])):
                raise InputError(
                    f"calibration input {name!r}",
                    expected=f"{count} samples, as the other inputs have",
                    found=str(len(pieces[name])),
                    next_step="Give each array the same number of samples along its first axis.",
                )
            count = len(pieces[name])
        for index in range(count or 0):
            yield {name: parts[index] for name, parts in pieces.items()}

    def _unknown(self, names: Sequence[str]) -> InputError:
        return InputError(
            f"calibration input {names[0]!r}",
            expected=f"the inputs {', '.join(self._inputs)}",
            found=", ".join(map(repr, names)),
            next_step="Name the arrays as the model names its inputs.",
        )

    def _checked(self, sample: Any, number: int) -> Sample:
        if not isinstance(sample, Mapping):
            if len(self._inputs) != 1:
                raise self._unknown(["(an array without a name)"])
            sample = {next(iter(self._inputs)): sample}
        if set(sample) != set(self._inputs):
            raise self._unknown(sorted(set(sample) ^ set(self._inputs)))
        checked = {}
        for name, (dtype, dims) in self._inputs.items():
            array = np.asarray(sample[name])
            is_shape = dims is None or (
                array.ndim == len(dims)
                and all(dim in (None, size) for dim, size in zip(dims, array.shape, strict=True))
            )
            if str(array.dtype) != dtype or not is_shape:
                raise InputError(
                    f"calibration sample {number}, input {name!r}",
                    expected=f"{dtype} of {'any shape' if dims is None else _text(dims)}",
                    found=f"{array.dtype} of {list(array.shape)}",
                    next_step="Prepare the samples as the inputs of an inference are.",
                )
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise InputError(
                    f"calibration sample {number}, input {name!r}",
                    expected="finite numbers",
                    found="NaN or infinity",
                    next_step="Leave that sample out.",
                )
            checked[name] = array
        return checked


def _text(dims: Sequence[int | None]) -> str:
    return str(["?" if dim is None else dim for dim in dims])


def _described(info: Any) -> tuple[str, tuple[int | None, ...] | None]:
    tensor = info.type.tensor_type
    dims = None
    if tensor.HasField("shape"):
        dims = tuple(
            int(dim.dim_value) if dim.HasField("dim_value") and dim.dim_value >= 0 else None
            for dim in tensor.shape.dim
        )
    return ELEMENT_TYPES.get(int(tensor.elem_type), "a type of its own"), dims


def _read_file(path: Path) -> Any:
    if path.suffix == ".npz":
        return read_inputs(path)
    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(
            f"calibration file {path}",
            expected="an .npy file of numbers",
            found=f"{type(error).__name__}: {error}",
            next_step="Write one with numpy.save(path, array).",
        ) from error


def _cut(array: np.ndarray, dims: tuple[int | None, ...] | None) -> list[np.ndarray]:
    """Return the samples along the first axis: batches as large as the model takes them."""
    rank = array.ndim if dims is None else len(dims)
    if array.ndim == rank + 1:
        return list(array)
    batch = (dims[0] if dims else None) or 1
    if array.ndim != rank or rank == 0:
        return [array]
    # What is left over fills no batch.
    return [array[start : start + batch] for start in range(0, len(array) - batch + 1, batch)]
