from __future__ import annotations

import numpy as np

from tvm_fusionx.frontend.converters.windows import windows_of
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import Tensor


def windows(size: int, kernel: int, **attributes: object):
    tensor = Tensor.from_array(np.zeros((1, 1, size), "float32"))
    node = Node("n", "MaxPool", 12, attributes, [tensor], ["y"], ["x"])
    return windows_of(node, (kernel,))


def test_same_padding_puts_the_odd_element_where_asked() -> None:
    upper = windows(6, 3, auto_pad="SAME_UPPER", strides=[2])
    lower = windows(6, 3, auto_pad="SAME_LOWER", strides=[2])
    assert (upper.pads_begin, upper.pads_end) == ((0,), (1,))
    assert (lower.pads_begin, lower.pads_end) == ((1,), (0,))
    assert upper.output(0) == lower.output(0) == 3


def test_dilation_widens_a_window() -> None:
    assert windows(9, 3, dilations=[2]).extent(0) == 5
    assert windows(9, 3, dilations=[2]).output(0) == 5


def test_no_window_starts_behind_the_data() -> None:
    assert windows(4, 1, strides=[2], pads=[0, 0]).output(0, is_ceil=True) == 2
    assert windows(2, 2, strides=[3], pads=[0, 1]).output(0, is_ceil=True) == 1
    assert windows(5, 2, strides=[2]).output(0, is_ceil=True) == 3
    assert windows(5, 2, strides=[2]).output(0, is_ceil=False) == 2
