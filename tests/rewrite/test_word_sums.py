from __future__ import annotations

import itertools

import numpy as np
import pytest

from tvm_fusionx.rewrite.word_sums import why_words_overflow

WORD = np.iinfo("int16")


def test_any_two_products_fit_where_one_weight_is_the_least() -> None:
    """Sums are largest and smallest at the ends of both types."""
    ends = (-128, 127)
    for data in itertools.product(ends, repeat=2):
        for weights in itertools.product((-128, -127, 127), repeat=2):
            total = sum(x * w for x, w in zip(data, weights, strict=True))
            fits = WORD.min <= total <= WORD.max
            assert fits or weights == (-128, -128)


@pytest.mark.parametrize(
    ("weights", "because"),
    [
        ([[-127, -127], [127, 127]], None),
        # One an output.
        ([[-128, 5], [-128, 5]], None),
        ([[1, 2, 3], [-128, 5, -128]], "an output has 2 weights of -128"),
        ([[[-128, -128], [-128, 0]]], "an output has 3 weights of -128"),
        (np.zeros((4, 0)), None),
    ],
)
def test_two_of_the_least_do_not(weights: object, because: str | None) -> None:
    reason = why_words_overflow(np.asarray(weights, "int8"))
    assert reason is None if because is None else because in str(reason)
