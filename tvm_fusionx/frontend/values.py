"""What an ONNX value is during translation: a tensor of known type, or a sequence of tensors."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx.frontend.element_types import ELEMENTS, STORED_WIDER


def constant(array: Any) -> Any:
    """Return `array` as a ``relay.Constant`` of the same dtype and shape."""
    return relay.Constant(tvm.nd.array(np.asarray(array, order="C")))


class Tensor:
    """A tensor with static shape: numbers known now, or a Relay expression.

    Attributes
    ----------
    shape : tuple of int
    dtype : str
        NumPy's name, e.g. ``"float32"``.
    array : numpy.ndarray or None
        The numbers, where they are known while compiling.
    element : int
        ONNX's element type, which for four-bit integers says more than `dtype`.
    maker : tvm_fusionx.frontend.node.Node or None
        The ONNX node that computes it, for converters that know a better form of two nodes.
    """

    __slots__ = ("_expr", "array", "dtype", "element", "maker", "shape")

    def __init__(self, expr: Any, shape: tuple[int, ...], dtype: str, array: Any = None) -> None:
        self._expr = expr
        self.shape = shape
        self.dtype = dtype
        self.array = array
        self.element = ELEMENTS[dtype]
        self.maker: Any = None

    @classmethod
    def from_array(cls, array: Any) -> Tensor:
        """Return a tensor whose numbers are known."""
        array = np.asarray(array)
        return cls(None, tuple(array.shape), str(array.dtype), array)

    @classmethod
    def from_expr(cls, expr: Any) -> Tensor:
        """Return a tensor computed by `expr`, whose type has been inferred.

        Raises
        ------
        DynamicShapeError
            If a dimension depends on the data.
        """
        if isinstance(expr, relay.Constant):
            return cls.from_array(expr.data.numpy())
        tensor_type = expr.checked_type
        if not isinstance(tensor_type, relay.TensorType):
            raise TypeError(f"expected a tensor, the converter returned {tensor_type}")
        if not all(isinstance(dim, tvm.tir.IntImm) for dim in tensor_type.shape):
            raise DynamicShapeError(str(tensor_type))
        shape = tuple(int(dim) for dim in tensor_type.shape)
        if 0 in shape:
            # An empty tensor holds no data to wait for, and TVM cannot allocate one.
            return cls.from_array(np.zeros(shape, tensor_type.dtype))
        return cls(expr, shape, tensor_type.dtype)

    @property
    def expr(self) -> Any:
        """The Relay expression; a constant is made on first use."""
        if self._expr is None:
            self._expr = constant(self.array)
        return self._expr

    @property
    def is_narrow(self) -> bool:
        """Tell whether few operators take this element type."""
        return self.element in STORED_WIDER or self.dtype == "bfloat16"

    @property
    def rank(self) -> int:
        """Return the number of dimensions."""
        return len(self.shape)


class DynamicShapeError(ValueError):
    """A tensor's shape depends on the data, so no static kernel can be made for it."""


# An ONNX value: a tensor, a sequence of tensors, or an optional without content.
Value: TypeAlias = "Tensor | list[Tensor] | None"
