"""Time planning over deeper and deeper networks, and fit the exponent of its growth.

    python benchmarks/planning_growth.py
    python benchmarks/planning_growth.py --family convolutions --nodes 1000 4000 16000

Each network is a stack of equal layers, so its nodes grow and nothing else: transformer layers that
all read one attention mask, convolutions with residuals, or one long elementwise chain. Timed are
the steps of ``FuseByMapping``: graph from Relay, plan, graph to Relay. The exponent is the slope of
a straight line through the logarithms; 1 is linear.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import tvm
from tvm import relay

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import itertools

from tvm_fusionx.ecg import from_relay, to_relay
from tvm_fusionx.fusion import PlannerOptions, plan
from tvm_fusionx.passes.fuse_by_mapping import relay_blocks

DEFAULT_NODES = (625, 1250, 2500, 5000, 10000, 20000)
ROWS, WIDTH, HEADS = 64, 128, 4
CHANNELS, SIDE = 32, 28
EPSILON = 1e-5
STEPS = ("from_relay", "plan", "to_relay")


def _weight(*shape: int) -> relay.Expr:
    return relay.const(np.ones(shape, "float32"))


def _layer_norm(value: relay.Expr, scale: relay.Expr) -> relay.Expr:
    centred = value - relay.mean(value, axis=-1, keepdims=True)
    variance = relay.mean(centred * centred, axis=-1, keepdims=True)
    return centred / relay.sqrt(variance + relay.const(EPSILON)) * scale + scale


def _transformer(nodes: int) -> relay.Expr:
    """Return layers of attention and a feed-forward part over one mask."""
    mask = relay.reshape(relay.var("mask", shape=(ROWS,)), (1, 1, ROWS)) * relay.const(-1e4)
    square, scale, bias = _weight(WIDTH, WIDTH), _weight(WIDTH), _weight(WIDTH)

    def project(value: relay.Expr) -> relay.Expr:
        return relay.nn.dense(value, square) + bias

    def heads(value: relay.Expr) -> relay.Expr:
        split = relay.reshape(project(value), (ROWS, HEADS, WIDTH // HEADS))
        return relay.transpose(split, (1, 0, 2))

    value = relay.var("x", shape=(ROWS, WIDTH))
    for layer in range(max(1, nodes // 50)):
        # A factor of its own keeps the projections of one layer apart: equal calls are one node.
        q, k, v = (heads(value * relay.const(1.0 + layer + n / 4)) for n in range(3))
        scores = relay.nn.batch_matmul(q, k) * relay.const(0.125) + mask
        raised = relay.exp(scores - relay.max(scores, axis=-1, keepdims=True))
        weights = raised / relay.sum(raised, axis=-1, keepdims=True)
        mixed = relay.nn.batch_matmul(weights, relay.transpose(v, (0, 2, 1)))
        merged = relay.reshape(relay.transpose(mixed, (1, 0, 2)), (ROWS, WIDTH))
        value = _layer_norm(project(merged) + value, scale)
        hidden = project(value)
        hidden = hidden * (relay.erf(hidden * relay.const(0.707)) + relay.const(1.0))
        value = _layer_norm(project(hidden) + value, scale)
    return value


def _convolutions(nodes: int) -> relay.Expr:
    """Return convolutions with residuals."""
    kernel, bias = _weight(CHANNELS, CHANNELS, 3, 3), _weight(CHANNELS, 1, 1)
    value = relay.var("x", shape=(1, CHANNELS, SIDE, SIDE))
    for _ in range(max(1, nodes // 6)):
        inner = relay.nn.relu(relay.nn.conv2d(value, kernel, padding=(1, 1)) + bias)
        inner = relay.nn.conv2d(inner, kernel, padding=(1, 1))
        value = relay.nn.relu(inner + value)
    return value


def _chain(nodes: int) -> relay.Expr:
    """Return one chain of elementwise calls."""
    value = relay.var("x", shape=(ROWS, WIDTH))
    for number in range(max(1, nodes // 2)):
        value = relay.tanh(value * relay.const(1.0 + number))
    return value


FAMILIES: dict[str, Callable[[int], relay.Expr]] = {
    "transformer": _transformer,
    "convolutions": _convolutions,
    "chain": _chain,
}


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Return the slope of log(seconds) over log(sizes)."""
    slope, _ = np.polyfit(np.log(sizes), np.log(seconds), 1)
    return float(slope)


def measure(
    expr: relay.Expr, options: PlannerOptions, repeats: int
) -> tuple[int, int, list[float]]:
    """Return the calls, the kernels, and the least seconds of each step."""
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(expr))
    best = [math.inf] * len(STEPS)
    for _ in range(repeats):
        gc.collect()
        marks = [time.perf_counter()]
        graph = from_relay(mod["main"])
        marks.append(time.perf_counter())
        made = plan(graph, options)
        marks.append(time.perf_counter())
        to_relay(graph, relay_blocks(made))
        marks.append(time.perf_counter())
        took = [after - before for before, after in itertools.pairwise(marks)]
        best = [min(pair) for pair in zip(best, took, strict=True)]
    return len(graph.calls()), made.kernels, best


def main() -> None:
    """Time every family, print a table and the exponents."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--family", choices=sorted(FAMILIES), action="append")
    parser.add_argument("--nodes", type=int, nargs="+", default=DEFAULT_NODES)
    parser.add_argument("--repeats", type=int, default=2, help="runs a size; the fastest counts")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    found = {}
    for family in arguments.family or FAMILIES:
        rows = [
            measure(FAMILIES[family](nodes), PlannerOptions(), arguments.repeats)
            for nodes in arguments.nodes
        ]
        print(
            f"{family}: {'nodes':>8} {'kernels':>8} " + " ".join(f"{s + ' s':>12}" for s in STEPS)
        )
        for calls, kernels, seconds in rows:
            cells = " ".join(f"{value:12.3f}" for value in seconds)
            print(f"{'':{len(family)}}  {calls:8} {kernels:8} {cells}", flush=True)
        sizes = [calls for calls, _, _ in rows]
        exponents = {
            step: exponent(sizes, [seconds[place] for _, _, seconds in rows])
            for place, step in enumerate(STEPS)
        }
        print(f"{family}: exponents " + ", ".join(f"{s} {e:.2f}" for s, e in exponents.items()))
        found[family] = {"rows": rows, "exponents": exponents}
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
