"""One ONNX operator call, as converters see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend.binding import how_to_bind, origin
from tvm_fusionx.frontend.values import Tensor, Value

ASK_SUPPORT = "Export the model without it, or add a converter in tvm_fusionx/frontend/converters."
IF_IT_IS_RIGHT = "If the model is right, add a converter in tvm_fusionx/frontend/converters."
DOES_NOT_FIT = "Correct the shape or the value of what was bound, or export the model again."


class Node:
    """An ONNX node with its attributes decoded and its inputs translated.

    Attributes
    ----------
    name : str
        Unique and not empty.
    op_type : str
        Operator name; after its domain when that is not ONNX's own (``com.microsoft.Gelu``).
    version : int
        The opset version that last changed this operator's definition, at most the model's.
    attributes : Mapping
        Decoded: numbers, strings, lists, arrays, graphs.
    inputs : Sequence
        Translated inputs; None where an optional input is left out.
    outputs : Sequence of str
        Names; empty where an optional output is not wanted.
    defaults : Mapping
        Attributes that the operator's definition has a value for.
    elements : dict
        ONNX's element types of attributes that are tensors.
    """

    def __init__(
        self,
        name: str,
        op_type: str,
        version: int,
        attributes: Mapping[str, Any],
        inputs: Sequence[Value],
        outputs: Sequence[str],
        input_names: Sequence[str],
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.op_type = op_type
        self.version = version
        self.attributes = attributes
        self.inputs = inputs
        self.outputs = outputs
        self.input_names = input_names
        self.defaults = defaults or {}
        self.elements: dict[str, int] = {}

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute; where the node does not set it `default`, else the definition's."""
        if name in self.attributes:
            return self.attributes[name]
        return self.defaults.get(name) if default is None else default

    def has(self, position: int) -> bool:
        """Tell whether the optional input at `position` is given."""
        return position < len(self.inputs) and self.inputs[position] is not None

    def tensor(self, position: int) -> Tensor:
        """Return the input at `position`, which must be a tensor."""
        value = self.inputs[position] if position < len(self.inputs) else None
        if not isinstance(value, Tensor):
            found = "a sequence" if isinstance(value, list) else "nothing"
            raise self.refuse(f"a tensor as input {position}", found, ASK_SUPPORT)
        return value

    def maker(self, position: int, op_type: str) -> Node | None:
        """Return the node that computes an input, if it is of `op_type`."""
        made_by = self.tensor(position).maker
        return made_by if made_by is not None and made_by.op_type == op_type else None

    def expr(self, position: int = 0) -> Any:
        """Return the Relay expression of an input."""
        return self.tensor(position).expr

    def shape(self, position: int = 0) -> tuple[int, ...]:
        """Return the static shape of an input."""
        return self.tensor(position).shape

    def is_open(self, position: int) -> bool:
        """Tell whether an input is a tensor whose shape depends on the data."""
        value = self.inputs[position] if position < len(self.inputs) else None
        return isinstance(value, Tensor) and value.is_open

    def is_computed(self, position: int) -> bool:
        """Tell whether an input is given whose numbers are known at run time only."""
        return self.has(position) and self.tensor(position).array is None

    def rank(self, position: int = 0) -> int:
        """Return the number of dimensions."""
        return self.tensor(position).rank

    def dtype(self, position: int = 0) -> str:
        """Return the dtype of an input."""
        return self.tensor(position).dtype

    def array(self, position: int, purpose: str = "it decides a shape") -> np.ndarray[Any, Any]:
        """Return the numbers of an input that must be known while compiling.

        Parameters
        ----------
        purpose
            What they are needed for, to be told where they are not known.

        Raises
        ------
        UnsupportedOperatorError
            If they are computed at run time; it names the model's inputs to bind.
        """
        tensor = self.tensor(position)
        if tensor.array is None:
            name = self.input_names[position]
            raise self.refuse(
                f"input {position} ({name!r}) to be known while compiling, for {purpose}",
                origin(tensor.expr),
                how_to_bind(tensor.expr),
            )
        return np.asarray(tensor.array)

    def ints(self, position: int) -> list[int]:
        """Return a shape-like input as a list of integers."""
        return [int(i) for i in self.array(position).reshape(-1)]

    def scalar(self, position: int, purpose: str = "it decides a shape") -> Any:
        """Return a one-element constant input as a Python number."""
        array = self.array(position, purpose)
        if array.size != 1:
            raise self.refuse(f"one number as input {position}", f"shape {list(array.shape)}")
        return array.reshape(-1)[0].item()

    def ints_from(self, attribute: str, position: int) -> list[int] | None:
        """Return integers that older opsets keep in an attribute and newer ones in an input."""
        if self.has(position):
            return self.ints(position)
        value = self.attribute(attribute)
        return None if value is None else [int(i) for i in np.atleast_1d(value)]

    def axis(self, default: int, rank: int | None = None, name: str = "axis") -> int:
        """Return the axis attribute, counted from the front."""
        axis = int(self.attribute(name, default))
        size = self.rank() if rank is None else rank
        return axis + size if axis < 0 else axis

    def wants(self, position: int) -> bool:
        """Tell whether the model uses the optional output at `position`."""
        return position < len(self.outputs) and self.outputs[position] != ""

    def refuse(self, expected: str, found: str, next_step: str = ASK_SUPPORT) -> Exception:
        """Return the error that says why this node cannot be translated."""
        return UnsupportedOperatorError(
            f"{self.op_type} node {self.name!r}",
            expected=expected,
            found=found,
            next_step=next_step,
        )
