"""Small Relay modules for tests, and TVM's own answer to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tests.stand_in import target_here
from tvm_fusionx._tvm.cures import let_cure
from tvm_fusionx.ecg import Graph, from_relay
from tvm_fusionx.report.bench.plain_tvm import cured_config, run_once
from tvm_fusionx.schedules import resolve_target

TARGET = target_here()

# The project's tolerances, relative to the largest element of the expected output.
EXACT = 1e-6
REASSOCIATING = 1e-5


def var(name: str, *shape: int, dtype: str = "float32") -> relay.Var:
    """Return a variable of a static tensor type."""
    return relay.var(name, shape=shape, dtype=dtype)


def const(*shape: int, seed: int = 0, dtype: str = "float32") -> relay.Constant:
    """Return a constant of random elements."""
    return relay.const(np.random.default_rng(seed).standard_normal(shape).astype(dtype), dtype)


def module(*results: relay.Expr, params: Sequence[relay.Var] | None = None) -> tvm.IRModule:
    """Return a type-inferred module whose ``main`` returns `results`: a tuple if there are several.

    Parameters
    ----------
    params
        Parameters of ``main``; the free variables when None.
    """
    body = results[0] if len(results) == 1 else relay.Tuple(list(results))
    names = list(params) if params is not None else relay.analysis.free_vars(body)
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(names, body)))


def graph(*results: relay.Expr, params: Sequence[relay.Var] | None = None) -> Graph:
    """Return the graph of a function that returns `results`."""
    return from_relay(module(*results, params=params)["main"])


def inputs_of(mod: tvm.IRModule, seed: int = 0) -> dict[str, np.ndarray]:
    """Return random values, by name, for the parameters of ``main``."""
    generator = np.random.default_rng(seed)
    values = {}
    for param in mod["main"].params:
        type_ = param.checked_type
        shape = [int(extent) for extent in type_.shape]
        if "int" in type_.dtype or type_.dtype == "bool":
            values[param.name_hint] = generator.integers(0, 2, shape).astype(type_.dtype)
        else:
            values[param.name_hint] = generator.standard_normal(shape).astype(type_.dtype)
    return values


def run_plain(mod: tvm.IRModule, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Return the outputs of `mod`, every operator a kernel of TVM's own, as it stands."""
    # At level 0 it is the only pass that changes operators, and it infers types anew for each of
    # its patterns: a third of the time.
    context = tvm.transform.PassContext(
        opt_level=0, config=cured_config(), disabled_pass=["SimplifyExpr"]
    )
    with let_cure(), context:
        # TVM has no schedules for blocks of ours: their operators stand alone again.
        plain = relay.transform.DefuseOps()(relay.transform.InferType()(mod))
        return run_once(relay.build(plain, resolve_target(TARGET)), inputs)


def assert_close(
    found: Sequence[np.ndarray], expected: Sequence[np.ndarray], tolerance: float
) -> None:
    """Compare outputs: same shapes and dtypes, differences relative to the largest element."""
    assert len(found) == len(expected)
    for first, second in zip(found, expected, strict=True):
        assert first.shape == second.shape
        assert first.dtype == second.dtype
        if not np.issubdtype(second.dtype, np.floating):
            np.testing.assert_array_equal(first, second)
            continue
        finite = np.isfinite(second)
        np.testing.assert_array_equal(np.isfinite(first), finite)
        np.testing.assert_array_equal(first[~finite], second[~finite])
        scale = float(np.max(np.abs(second[finite]), initial=0.0))
        np.testing.assert_allclose(first[finite], second[finite], rtol=0, atol=tolerance * scale)


def operator_names(expr: Any) -> list[str]:
    """Return the operators called in `expr`, inside of blocks too, sorted."""
    names: list[str] = []

    def visit(node: Any) -> None:
        if isinstance(node, relay.Call) and isinstance(node.op, tvm.ir.Op):
            names.append(str(node.op.name))

    relay.analysis.post_order_visit(expr, visit)
    return sorted(names)


def blocks_of(mod: tvm.IRModule) -> list[relay.Function]:
    """Return the primitive functions called in ``main``, operands before users."""
    found: list[relay.Function] = []

    def visit(node: Any) -> None:
        if isinstance(node, relay.Call) and isinstance(node.op, relay.Function):
            found.append(node.op)

    relay.analysis.post_order_visit(mod["main"].body, visit)
    return found
