"""What Arm's instruction for matrices of bfloat16 computes, in numpy, bit by bit.

Arm ARM, section C7.2, BFMMLA, without FEAT_EBF16: products of two numbers are exact; a sum takes
two of them at a time, and both additions round to odd: what is not exact becomes the one of its two
neighbours whose last bit is one.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def added_to_odd(a: Array, b: Array) -> Array:
    """Return the float32 that sums of numbers of float32 round to."""
    x, y = a.astype("float64"), b.astype("float64")
    total = x + y
    # What is lost (Knuth's sum of two): with it, the sum is exact.
    back = total - x
    lost = (x - (total - back)) + (y - back)
    near = total.astype("float32")
    toward_zero = np.nextafter(near, np.float32(0))
    is_beyond = (np.abs(near.astype("float64")) > np.abs(total)) | (
        (near == total) & (np.sign(lost) * np.sign(total) < 0)
    )
    cut = np.where(is_beyond, toward_zero, near)
    is_inexact = (cut.astype("float64") != total) | (lost != 0)
    return (cut.view("uint32") | is_inexact).view("float32")


def matrix_product(left: Array, right: Array) -> Array:
    """Return ``[M, K]`` times ``[N, K]`` of bfloat16 as sums of float32 ``[M, N]``; 4 divides K."""
    x, w = left.astype("float32"), right.astype("float32")
    sums = np.zeros((len(x), len(w)), "float32")
    for k in range(0, x.shape[1], 2):
        # A product of two numbers of eight bits each is exact.
        first = x[:, None, k] * w[None, :, k]
        second = x[:, None, k + 1] * w[None, :, k + 1]
        sums = added_to_odd(sums, added_to_odd(first, second))
    return sums
