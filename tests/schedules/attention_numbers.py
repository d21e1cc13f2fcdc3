"""What an attention gives in float64, and what our kernel gives."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relay

from tests.relay_modules import REASSOCIATING, TARGET, assert_close
from tests.schedules.blocked_blocks import as_block
from tests.schedules.matrix_blocks import attention
from tvm_fusionx.lowering import lowering
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.schedules import resolve_target

Arrays = dict[str, np.ndarray]

SCALE = 0.25


def operands(heads: int, rows: int, columns: int, depth: int, width: int) -> Arrays:
    """Return random operands of :func:`tests.schedules.matrix_blocks.attention`."""
    generator = np.random.default_rng(rows * columns)
    shapes = {
        "q": (rows, heads * depth),
        "k": (columns, heads * depth),
        "mask": (1, 1, 1, columns),
        "v": (columns, heads * width),
    }
    return {name: generator.standard_normal(s).astype("float32") for name, s in shapes.items()}


def softmax(scores: np.ndarray) -> np.ndarray:
    """Return the softmax of the last axis."""
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def expected(arrays: Arrays, heads: int) -> np.ndarray:
    """Return the attention of `arrays`, in float64."""

    def split(name: str) -> np.ndarray:
        matrix = arrays[name].astype("float64")
        return np.asarray(matrix.reshape(len(matrix), heads, -1).transpose(1, 0, 2))

    scores = split("q") @ split("k").transpose(0, 2, 1) * SCALE + arrays["mask"][0]
    result = softmax(scores) @ split("v")
    return np.asarray(result.transpose(1, 0, 2).reshape(len(arrays["q"]), -1))


def assert_attends(
    heads: int,
    rows: int,
    columns: int,
    depth: int,
    width: int,
    arrays: Arrays | None = None,
    target: str = TARGET,
) -> None:
    """Build an attention, check the template that serves it, and compare it with float64."""
    arrays = arrays or operands(heads, rows, columns, depth, width)
    found = built(attention(heads, rows, columns, depth, width), arrays, target)
    wanted = expected(arrays, heads).astype("float32")
    assert_close([found], [wanted], REASSOCIATING)


def built(body: relay.Expr, arrays: Arrays, target: str = TARGET) -> np.ndarray:
    """Return what the kernel of the block `body` gives."""
    resolved = resolve_target(tvm.target.Target(target) if "num-cores" in target else target)
    with lowering(resolved) as log:
        library = relay.build(as_block(body), resolved)
    served = [(entry.template, entry.fallback_reason) for entry in log.entries]
    assert served == [("streamed_attention", None)]
    (found,) = run_once(library, arrays)
    return np.asarray(found)
