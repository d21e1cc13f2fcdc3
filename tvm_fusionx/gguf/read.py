"""Read a GGUF file: what it says of the model, and its tensors as they lie in it."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx._tvm.presence import missing_package
from tvm_fusionx.errors import ModelError
from tvm_fusionx.gguf.block_tensor import FORMATS, BlockTensor, as_blocks

Array = np.ndarray[Any, Any]

# What the package's reader raises where a file ends too early or is none.
_READER_ERRORS = (ValueError, IndexError, KeyError, OverflowError, TypeError, struct.error)

FLOATS = ("F16", "F32")


@dataclass(frozen=True)
class GgufFile:
    """A file that was read; tensors stay in the file until they are asked for."""

    path: Path
    """Where it is."""

    metadata: Mapping[str, Any]
    """What it says of the model, by key."""

    tensors: Mapping[str, Any] = field(repr=False)
    """The package's tensors, by name."""

    def get(self, key: str, default: Any = None) -> Any:
        """Return what the file says under `key`.

        Raises
        ------
        ModelError
            It says nothing, and there is no default.
        """
        value = self.metadata.get(key, default)
        if value is None:
            raise ModelError(
                f"{self.path}: key {key!r}",
                expected="a value, as files of this architecture have",
                found="no such key",
                next_step="Convert the model again with llama.cpp's convert_hf_to_gguf.py.",
            )
        return value

    def tensor(self, name: str, shape: tuple[int, ...]) -> Array | BlockTensor:
        """Return a tensor: float32, or blocks as they are.

        Parameters
        ----------
        name
            In the file.
        shape
            What it must have.

        Raises
        ------
        ModelError
            There is none, its shape is another, or its quantization is not known.
        """
        if name not in self.tensors:
            raise ModelError(
                f"{self.path}: tensor {name!r}",
                expected=f"a tensor of shape {list(shape)}",
                found="no such tensor",
                next_step="Give a file of a whole model, converted for llama.cpp.",
            )
        held = self.tensors[name]
        found = tuple(int(extent) for extent in reversed(held.shape))
        if found != shape:
            raise ModelError(
                f"{self.path}: tensor {name!r}",
                expected=f"shape {list(shape)}, as the file's keys tell",
                found=str(list(found)),
                next_step="The file is damaged or of another kind of model.",
            )
        kind = str(held.tensor_type.name)
        if kind in FLOATS:
            return np.asarray(held.data).reshape(shape).astype("float32")
        if kind in FORMATS:
            return as_blocks(kind, np.asarray(held.data), shape)
        raise ModelError(
            f"{self.path}: tensor {name!r}",
            expected=f"a quantization of {', '.join((*FORMATS, *FLOATS))}",
            found=kind,
            next_step="Quantize the model to Q4_0, Q4_1 or Q8_0 with llama-quantize.",
        )


def read_gguf(path: str | os.PathLike[str]) -> GgufFile:
    """Read the header of a GGUF file.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    file
        Arrays of keys (the vocabulary) as lists.

    Raises
    ------
    ModelError
        There is no file, it is no GGUF file, or it ends too early.
    MissingDependencyError
        The package ``gguf`` is not installed.
    """
    try:
        import gguf
    except ModuleNotFoundError as error:
        raise missing_package(error) from error
    where = Path(path)
    if not where.is_file():
        raise ModelError(
            f"model {where}",
            expected="a GGUF file",
            found="a folder" if where.is_dir() else "no such file",
            next_step="Check the path.",
        )
    try:
        reader = gguf.GGUFReader(where)
        metadata = {name: each.contents() for name, each in reader.fields.items()}
    except _READER_ERRORS as error:
        size = where.stat().st_size
        raise ModelError(
            f"model {where}",
            expected="a whole GGUF file",
            found=f"{size} bytes that are none ({error})",
            next_step="Copy or download it again: it may have been cut off.",
        ) from error
    return GgufFile(where, metadata, {str(each.name): each for each in reader.tensors})
