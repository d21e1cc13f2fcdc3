from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.converters.microsoft.by_onnx_runtime import Call, check, floats, translate
from tvm_fusionx.errors import UnsupportedOperatorError

pytestmark = pytest.mark.slow

HEADS = {"num_heads": 4, "kv_num_heads": 2}
SIZE = 16
ALL = (True, True, True)
COS, SIN = floats(20, SIZE // 2), floats(20, SIZE // 2, seed=1)


def call(
    batch: int,
    steps: int,
    room: int,
    lengths: Any,
    total: int,
    *,
    more: tuple[Any, ...] = (),
    known: tuple[int, ...] = (6,),
    packed: bool = False,
    size: int = SIZE,
    dtype: str = "float32",
    outputs: Any = ALL,
    ignored: Any = None,
    **attributes: Any,
) -> Call:
    """Return a call whose last keys have the indices `lengths`."""
    widths = (4 * size, 2 * size, 2 * size)
    parts = [floats(batch, steps, width, seed=i) for i, width in enumerate(widths)]
    if packed:
        parts = [np.concatenate(parts, -1), None, None]
    past = [floats(batch, 2, room, size, seed=i) for i in (3, 4)]
    inputs = [
        *(part if part is None else part.astype(dtype) for part in (*parts, *past)),
        np.asarray(lengths, "int32"),
        np.asarray(total, "int32"),
        *(m.astype(dtype) if m is not None and m.dtype == np.float32 else m for m in more),
    ]
    return Call(
        "GroupQueryAttention",
        inputs,
        {**HEADS, **attributes},
        known,
        outputs,
        ignored={} if ignored is None else ignored,
    )


def test_first_calls_agree_with_onnx_runtime() -> None:
    # The second entry is padded behind its second position.
    behind = (1, slice(2, None))
    check(
        [
            call(1, 3, 0, [2], 3),
            call(1, 3, 0, [2], 3, packed=True, scale=0.5),
            call(2, 3, 0, [2, 2], 3, softcap=2.0),
            call(2, 3, 0, [2, 1], 3, ignored={0: behind}),
            call(1, 3, 8, [2], 3),
            call(1, 6, 0, [5], 6, local_window_size=2),
            call(1, 6, 0, [5], 6, local_window_size=2, softcap=3.0, packed=True),
            call(2, 3, 0, [2, 2], 3, causal=0),
        ]
    )


def test_further_calls_agree_with_onnx_runtime() -> None:
    check(
        [
            call(1, 1, 5, [5], 6),
            call(1, 1, 5, [5], 6, known=(5, 6)),
            call(2, 1, 8, [5, 3], 6),
            call(2, 1, 8, [5, 3], 6, known=(5, 6)),
            call(1, 3, 5, [7], 8),
            call(1, 3, 5, [7], 8, known=(5, 6), packed=True),
            call(2, 1, 8, [7, 3], 8, local_window_size=3),
            call(1, 3, 10, [7], 8, local_window_size=3),
            call(1, 1, 0, [0], 1),
        ]
    )


@pytest.mark.parametrize("interleaved", [0, 1])
def test_positions_turn_queries_and_keys(interleaved: int) -> None:
    turn = {"do_rotary": 1, "rotary_interleaved": interleaved}
    ids = np.asarray([[5, 6, 7]], "int64")
    check(
        [
            call(1, 3, 0, [2], 3, more=(COS, SIN), known=(6, 7, 8), **turn),
            call(2, 3, 0, [2, 2], 3, more=(COS, SIN), packed=True, **turn),
            call(2, 1, 8, [5, 3], 6, more=(COS, SIN), known=(6, 7, 8), **turn),
            call(1, 3, 5, [7], 8, more=(COS, SIN), **turn),
            call(1, 3, 5, [7], 8, more=(COS, SIN), size=32, **turn),
            call(1, 3, 5, [7], 8, more=(COS, SIN, ids), **turn),
            call(1, 3, 0, [2], 3, more=(COS, SIN, ids), **turn),
        ]
    )


def test_sinks_take_a_part_of_each_softmax() -> None:
    sink = floats(4, seed=7)
    none = (None,) * 4
    check(
        [
            call(1, 3, 0, [2], 3, smooth_softmax=1),
            call(2, 1, 8, [5, 3], 6, smooth_softmax=1, local_window_size=3),
            call(1, 3, 0, [2], 3, more=(*none, sink)),
            call(1, 3, 5, [7], 8, more=(*none, sink), softcap=2.0),
        ]
    )


def test_biases_are_added_to_the_scores() -> None:
    before = (None,) * 3
    check(
        [
            call(1, 3, 0, [2], 3, more=(*before, floats(1, 4, 3, 3))),
            call(1, 3, 5, [7], 8, more=(*before, floats(1, 1, 3, 8))),
            call(2, 1, 8, [5, 3], 6, more=(*before, floats(2, 4, 1, 6))),
        ]
    )


def test_halves_agree_with_onnx_runtime() -> None:
    check(
        [
            call(1, 3, 0, [2], 3, dtype="float16"),
            call(2, 1, 8, [5, 3], 6, dtype="float16", packed=True),
            call(1, 3, 5, [7], 8, dtype="float16", more=(COS, SIN), do_rotary=1),
        ]
    )


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match="Bind 'call0_input6'"):
        translate(call(1, 3, 0, [2], 3, known=()))
    with pytest.raises(UnsupportedOperatorError, match="one batch entry or one new position"):
        translate(call(2, 3, 8, [5, 5], 6))
    with pytest.raises(UnsupportedOperatorError, match="cos_cache and sin_cache beside"):
        translate(call(1, 3, 0, [2], 3, do_rotary=1))
    with pytest.raises(UnsupportedOperatorError, match="local_window_size=-1 beside causal=0"):
        translate(call(1, 3, 0, [2], 3, causal=0, local_window_size=2))
