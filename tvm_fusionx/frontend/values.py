"""What an ONNX value is during translation: a tensor of known type, or a sequence of tensors."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx._tvm.arrays import numpy_of
from tvm_fusionx.frontend.element_types import ELEMENTS, STORED_WIDER


def constant(array: Any) -> Any:
    """Return `array` as a ``relay.Constant`` of the same dtype and shape."""
    return relay.Constant(tvm.nd.array(np.asarray(array, order="C")))


class Tensor:
    """A tensor of known rank: numbers known now, or a Relay expression.

    Attributes
    ----------
    dims : tuple of int or None
        The shape; None where an extent depends on the data.
    dtype : str
        NumPy's name, e.g. ``"float32"``.
    array : numpy.ndarray or None
        The numbers, where they are known while compiling.
    element : int
        ONNX's element type, which for four-bit integers says more than `dtype`.
    maker : tvm_fusionx.frontend.node.Node or None
        The ONNX node that computes it, for converters that know a better form of two nodes.
    """

    __slots__ = ("_expr", "array", "dims", "dtype", "element", "maker")

    def __init__(
        self, expr: Any, dims: tuple[int | None, ...], dtype: str, array: Any = None
    ) -> None:
        self._expr = expr
        self.dims = dims
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
        """Return a tensor computed by `expr`, whose type has been inferred."""
        if isinstance(expr, relay.Constant):
            return cls.from_array(numpy_of(expr.data))
        tensor_type = expr.checked_type
        if not isinstance(tensor_type, relay.TensorType):
            raise TypeError(f"expected a tensor, the converter returned {tensor_type}")
        dims = tuple(
            int(dim) if isinstance(dim, tvm.tir.IntImm) else None for dim in tensor_type.shape
        )
        if 0 in dims and None not in dims:
            # An empty tensor holds no data to wait for, and TVM cannot allocate one.
            return cls.from_array(np.zeros(dims, tensor_type.dtype))
        return cls(expr, dims, tensor_type.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, of whole numbers.

        Raises
        ------
        DynamicShapeError
            If an extent depends on the data.
        """
        known = tuple(dim for dim in self.dims if dim is not None)
        if len(known) < len(self.dims):
            raise DynamicShapeError(f"{self.dtype} {self.shape_text}")
        return known

    @property
    def is_open(self) -> bool:
        """Tell whether an extent depends on the data."""
        return None in self.dims

    @property
    def shape_text(self) -> str:
        """The shape for people, with a question mark for what depends on the data."""
        return f"[{', '.join('?' if dim is None else str(dim) for dim in self.dims)}]"

    @property
    def expr(self) -> Any:
        """The Relay expression; a constant is made on first use."""
        if self._expr is None:
            self._expr = constant(self.array)
        return self._expr

    @property
    def is_narrow(self) -> bool:
        """Tell whether few operators take this element type."""
        return self.element in STORED_WIDER

    @property
    def rank(self) -> int:
        """Return the number of dimensions."""
        return len(self.dims)

    @property
    def relay_type(self) -> Any:
        """The type that a variable for the tensor has."""
        dims = [relay.Any() if dim is None else dim for dim in self.dims]
        return relay.TensorType(dims, self.dtype)


class DynamicShapeError(ValueError):
    """A tensor's shape depends on the data, so no static kernel can be made for it."""


# An ONNX value: a tensor, a sequence of tensors, or an optional without content.
Value: TypeAlias = "Tensor | list[Tensor] | None"
