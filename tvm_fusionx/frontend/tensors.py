"""The numbers of tensors in a file, which may be damaged."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tvm_fusionx.errors import ModelError
from tvm_fusionx.frontend.element_types import dtype_of, element_type_name

DOWNLOAD_AGAIN = "The file is damaged or was not downloaded whole: get it again."
BITS_OF_A_BYTE = 8


def bits_of(element: int) -> int:
    """Return how many bits one element takes in a file."""
    name = element_type_name(element)
    digits = name.removeprefix("U").removeprefix("INT")
    if digits.isdigit():
        return int(digits)
    return int(np.dtype(helper.tensor_dtype_to_np_dtype(element)).itemsize) * BITS_OF_A_BYTE


def stored_bytes(tensor: Any) -> int:
    """Return how many bytes a tensor's elements take, packed as ONNX packs narrow ones."""
    return -(-math.prod(tensor.dims) * bits_of(tensor.data_type) // BITS_OF_A_BYTE)


def array_of(tensor: Any, thing: str) -> Any:
    """Return the numbers of a ``TensorProto`` as an array of the dtype that holds them.

    Raises
    ------
    UnsupportedOperatorError
        If no arithmetic takes the element type.
    ModelError
        If the tensor has not as many elements as its dimensions say.
    """
    dtype = dtype_of(tensor.data_type, thing)
    if any(dim < 0 for dim in tensor.dims):
        raise ModelError(
            thing,
            expected="dimensions that are not negative",
            found=str(list(tensor.dims)),
            next_step=DOWNLOAD_AGAIN,
        )
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise ModelError(
            thing,
            expected="numbers in the model",
            found="a reference to another file",
            next_step="Give the path of the model, or load it with its external data.",
        )
    if tensor.HasField("raw_data") and len(tensor.raw_data) != stored_bytes(tensor):
        raise ModelError(
            thing,
            expected=f"{stored_bytes(tensor)} bytes for shape {list(tensor.dims)}",
            found=f"{len(tensor.raw_data)}",
            next_step=DOWNLOAD_AGAIN,
        )
    try:
        array = numpy_helper.to_array(tensor)
    except Exception as error:
        raise ModelError(
            thing,
            expected=f"elements of {element_type_name(tensor.data_type)} for shape "
            f"{list(tensor.dims)}",
            found=" ".join(str(error).split()) or type(error).__name__,
            next_step=DOWNLOAD_AGAIN,
        ) from error
    if array.dtype.names is not None:
        # onnx 1.17 marks narrow integers by a field's name, and NumPy takes it for equal to none.
        array = array.view(dtype)
    return array.astype(dtype, copy=False)


def check_external_data(model: Any, folder: Path, thing: str) -> None:
    """Refuse weights that another file does not hold whole, before anything is read of it.

    Raises
    ------
    ModelError
        Naming the file, the tensor, and how many bytes are there.
    """
    for tensor in _external_tensors(model.graph):
        entries = {entry.key: entry.value for entry in tensor.external_data}
        path = folder / entries.get("location", "")
        expected = f"its external weights beside it in {folder}"
        if not path.is_file():
            raise ModelError(
                thing,
                expected=expected,
                found=f"no file {entries.get('location', '')!r}, which holds {tensor.name!r}",
                next_step="Copy the .data files that were exported with the model next to it.",
            )
        try:
            offset, length = int(entries.get("offset", 0)), int(entries.get("length", -1))
        except ValueError:
            offset = length = -1
        wanted, size = stored_bytes(tensor), path.stat().st_size
        length = size - offset if "length" not in entries else length
        if offset < 0 or length != wanted or offset + length > size:
            raise ModelError(
                f"weights {tensor.name!r} of {thing}",
                expected=f"{wanted} bytes in {path.name} from byte {offset}",
                found=f"{max(0, min(length, size - offset))} of a file of {size}",
                next_step=DOWNLOAD_AGAIN,
            )


def external_files(model: Any) -> tuple[str, ...]:
    """Return the names of the files beside a model that hold weights of it, each once."""
    entries = (entry for tensor in _external_tensors(model.graph) for entry in tensor.external_data)
    return tuple(sorted({entry.value for entry in entries if entry.key == "location"}))


def _external_tensors(graph: Any) -> Any:
    """Yield every tensor of a graph, its subgraphs and attributes, that lies in another file."""
    waiting = [graph]
    while waiting:
        current = waiting.pop()
        found = list(current.initializer)
        for node in current.node:
            for attribute in node.attribute:
                found.extend([attribute.t] if attribute.HasField("t") else attribute.tensors)
                waiting.extend([attribute.g] if attribute.HasField("g") else attribute.graphs)
        yield from (t for t in found if t.data_location == onnx.TensorProto.EXTERNAL)
