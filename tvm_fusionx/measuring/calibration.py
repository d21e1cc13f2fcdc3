"""Measure the constants of the cost model on this device: seven small programs, a few seconds."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx.fusion.device_costs import DeviceCosts
from tvm_fusionx.lowering import lowering
from tvm_fusionx.measuring.block_timer import time_library
from tvm_fusionx.measuring.places import costs_path, setting_of
from tvm_fusionx.passes import FuseByMapping, PackLayouts
from tvm_fusionx.schedules import resolve_target

logger = logging.getLogger(__name__)

# Tensors of float32: two in the cache with their copies, both worth several threads, and one far
# beyond any last level cache.
QUARTER = (64, 512)
SMALL = (128, 1024)
LARGE = (8192, 4096)
FLOAT_BYTES = 4
# Matrix product: the shape of a feed-forward layer of a small language model.
PRODUCT = (128, 768, 768)
# Operators in a row: enough that a kernel's arithmetic outweighs its traffic.
CHAIN = 16
# No powers of two: those fall into the same lines of the cache, which few models' tensors do.
TURNED = (720, 1000)
ROUNDS = 3
# Waking one thread through shared memory takes about as long as two misses of the cache.
LEAST_LAUNCH_US = 0.2
LEAST_MICROSECONDS = 1e-3

TimeModule = Callable[[Any, tvm.IRModule], float]
"""Runs a library and returns the microseconds of one run."""


def calibrated_costs(
    target: str | tvm.target.Target, time_module: TimeModule | None = None
) -> DeviceCosts:
    """Return the costs of this machine: those that were measured before, else measured now.

    Parameters
    ----------
    target
        What kernels are built for.
    time_module
        How a built module is timed, for tests; by :func:`time_library` when None.

    Raises
    ------
    RecordError
        The file of measured costs is damaged.
    OutputFileError
        It cannot be written.
    """
    path = costs_path(setting_of(target))
    if path.is_file():
        return DeviceCosts.load(path)
    costs = calibrate(target, time_module)
    path.parent.mkdir(parents=True, exist_ok=True)
    costs.save(path)
    logger.info("calibrated this device: %s", path)
    return costs


def calibrate(
    target: str | tvm.target.Target, time_module: TimeModule | None = None
) -> DeviceCosts:
    """Measure the rates of this machine through the real build.

    Parameters
    ----------
    target
        What kernels are built for.
    time_module
        How a built module is timed, for tests; by :func:`time_library` when None.
    """
    timed = time_module or time_library
    built = {name: _built(expr, target, fuse) for name, (expr, fuse) in _programs().items()}
    taken = {
        # The least: what disturbs a measurement makes it longer.
        name: max(LEAST_MICROSECONDS, min(timed(*program) for _ in range(ROUNDS)))
        for name, program in built.items()
    }
    # Kernels one after the other, as in a model; a line through two sizes of them meets a kernel
    # without work where it starts.
    quarter, whole = taken["quarter"] / CHAIN, taken["whole"] / CHAIN
    ratio = _elements(SMALL) / _elements(QUARTER)
    launch = max(LEAST_LAUNCH_US, quarter - (whole - quarter) / (ratio - 1))

    def rate(amount: float, microseconds: float) -> float:
        # A kernel that is hardly slower than an empty one still cannot be infinitely fast.
        return amount / max(microseconds - launch, microseconds / CHAIN)

    small, large = _elements(SMALL), _elements(LARGE)
    rows, depth, columns = PRODUCT
    return DeviceCosts(
        launch_us=launch,
        memory_bytes_per_us=rate(2 * large * FLOAT_BYTES, taken["large"]),
        cache_bytes_per_us=rate(2 * small * FLOAT_BYTES, whole),
        products_per_us=rate(rows * depth * columns, taken["product"]),
        elements_per_us=rate(CHAIN * small, taken["cheap"]),
        transcendentals_per_us=rate(CHAIN * small, taken["dear"]),
        moved_per_us=rate(_elements(TURNED), taken["moved"]),
    )


def _elements(shape: tuple[int, ...]) -> int:
    return math.prod(shape)


def _built(
    expr: relay.Expr, target: str | tvm.target.Target, fuse: bool
) -> tuple[Any, tvm.IRModule]:
    resolved = resolve_target(target)
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(expr))
    # Without rewriting: no law may shorten a chain.
    passes = [PackLayouts(resolved), FuseByMapping(resolved, fuse=fuse)]
    with lowering(resolved):
        return relay.build(tvm.transform.Sequential(passes)(mod), resolved), mod


def _programs() -> dict[str, tuple[relay.Expr, bool]]:
    """Return what is timed, and whether its operators become one kernel."""

    def tensor(shape: tuple[int, ...]) -> relay.Expr:
        return relay.var("x", shape=shape)

    def chain(shape: tuple[int, ...], *operators: Callable[[relay.Expr], relay.Expr]) -> relay.Expr:
        value = tensor(shape)
        for step in range(CHAIN):
            value = operators[step % len(operators)](value)
        return value

    def scale(value: relay.Expr) -> relay.Expr:
        return value * relay.const(1.5)

    def shift(value: relay.Expr) -> relay.Expr:
        return relay.const(1.5) - value

    rows, depth, columns = PRODUCT
    weights = relay.const(np.ones((columns, depth), "float32"))
    return {
        "quarter": (chain(QUARTER, relay.negative, relay.nn.relu), False),
        "whole": (chain(SMALL, relay.negative, relay.nn.relu), False),
        "large": (relay.nn.relu(tensor(LARGE)), True),
        "product": (relay.nn.dense(tensor((rows, depth)), weights), True),
        "cheap": (chain(SMALL, scale, relay.abs, shift, relay.nn.relu), True),
        "dear": (chain(SMALL, relay.tanh, relay.exp), True),
        "moved": (relay.transpose(tensor(TURNED)), True),
    }
