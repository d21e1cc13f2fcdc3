"""Latency and planning time against depth, sequence, resolution and batch, with fitted exponents.

    python benchmarks/cost_growth.py [--axis depth] [--json cost_growth.json]

One number of a small network grows and nothing else: layers of a transformer, its tokens, the side
of a picture, or the pictures in a batch. Latency is ours and TVM's default, in turns; planning is
``fx.pipeline``, rewriting and fusion, without code generation. An exponent is the slope of a
straight line through the logarithms: 1 is linear. The file goes beside the newest run of the zoo.

Building takes minutes and cares for no noise, timing takes seconds and does: --repeat 0 with
--libraries FOLDER builds alone, and later calls with the folder time what lies there, an axis or a
size at a time. One folder holds what one commit built; what the file holds already stays in it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relay

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from measured_runs import GROWTH, commit_here, newest_run

import tvm_fusionx as fx
from tvm_fusionx.build.fused_build import build_fused
from tvm_fusionx.build.kernels import KernelGraph
from tvm_fusionx.output_file import new_file
from tvm_fusionx.report.bench.bench import describe_device
from tvm_fusionx.report.bench.plain_tvm import build_plain, load, set_inputs
from tvm_fusionx.report.bench.timing import threads_apart, time_interleaved
from tvm_fusionx.schedules import resolve_target

TARGET = "llvm -mcpu=native"
REPEAT = 20
FEATURES, HEADS = 128, 4
# Of the axes that are held while another grows.
LAYERS, TOKENS = 2, 64
CHANNELS, STAGES, SIDE = 16, 4, 64
EPSILON = 1e-5
ROOT_OF_HALF = 0.7071067811865476


@dataclass(frozen=True)
class Point:
    """One size of a network: its kernels, milliseconds a run, seconds of planning, and commit."""

    size: int
    kernels: int
    planning_s: float
    fusionx_ms: float
    tvm_ms: float
    commit: str = ""


def transformer(layers: int, tokens: int) -> relay.Expr:
    """Return encoder layers of 128 features and 4 heads, after layer norm each."""
    generator = np.random.default_rng(7)

    def weight(*shape: int) -> relay.Expr:
        return relay.const(generator.standard_normal(shape).astype("float32") / np.sqrt(shape[-1]))

    def dense(value: relay.Expr, units: int, features: int) -> relay.Expr:
        product = relay.nn.dense(value, weight(units, features))
        return relay.nn.bias_add(product, weight(units), axis=-1)

    def norm(value: relay.Expr) -> relay.Expr:
        scale, shift = relay.const(np.ones(FEATURES, "float32")), weight(FEATURES)
        return relay.nn.layer_norm(value, scale, shift, epsilon=EPSILON)

    def heads(value: relay.Expr) -> relay.Expr:
        split = relay.reshape(value, (tokens, HEADS, FEATURES // HEADS))
        return relay.transpose(split, (1, 0, 2))

    value: relay.Expr = relay.var("x", shape=(tokens, FEATURES))
    for _ in range(layers):
        query, key, content = (heads(dense(value, FEATURES, FEATURES)) for _ in range(3))
        scale = relay.const(np.float32((FEATURES / HEADS) ** -0.5))
        weights = relay.nn.softmax(relay.nn.batch_matmul(query, key) * scale)
        mixed = relay.nn.batch_matmul(weights, relay.transpose(content, (0, 2, 1)))
        merged = relay.reshape(relay.transpose(mixed, (1, 0, 2)), (tokens, FEATURES))
        value = norm(value + dense(merged, FEATURES, FEATURES))
        hidden = dense(value, 4 * FEATURES, FEATURES)
        half, one = relay.const(0.5), relay.const(1.0)
        active = hidden * half * (one + relay.erf(hidden * relay.const(ROOT_OF_HALF)))
        value = norm(value + dense(active, FEATURES, 4 * FEATURES))
    return value


def convolutions(side: int, batch: int) -> relay.Expr:
    """Return a first layer and residual pairs of 3x3 convolutions, half the side of the picture."""
    generator = np.random.default_rng(7)

    def convolve(value: relay.Expr, inner: int, stride: int = 1) -> relay.Expr:
        kernel = generator.standard_normal((CHANNELS, inner, 3, 3)).astype("float32")
        kernel /= np.sqrt(inner * 9)
        bias = relay.const(generator.standard_normal((CHANNELS, 1, 1)).astype("float32"))
        made = relay.nn.conv2d(
            value,
            relay.const(kernel),
            strides=stride,
            padding=(1, 1),
            channels=CHANNELS,
            kernel_size=(3, 3),
        )
        return relay.add(made, bias)

    image = relay.var("x", shape=(batch, 3, side, side))
    value = relay.nn.relu(convolve(image, 3, 2))
    for _ in range(STAGES):
        inner = relay.nn.relu(convolve(value, CHANNELS))
        value = relay.nn.relu(convolve(inner, CHANNELS) + value)
    return relay.nn.global_avg_pool2d(value)


# Axis -> the network of a size, and the sizes.
AXES: Mapping[str, tuple[Callable[[int], relay.Expr], tuple[int, ...]]] = {
    "depth": (lambda layers: transformer(layers, TOKENS), (2, 4, 8, 16, 32, 48)),
    "sequence": (lambda tokens: transformer(LAYERS, tokens), (32, 64, 128, 256, 512, 1024, 2048)),
    "resolution": (lambda side: convolutions(side, 1), (160, 320, 640, 1280)),
    "batch": (lambda batch: convolutions(SIDE, batch), (1, 2, 4, 8, 16)),
}


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Return the slope of log(values) over log(sizes)."""
    slope, _ = np.polyfit(np.log(sizes), np.log(values), 1)
    return float(slope)


def exponents(points: Sequence[Point]) -> dict[str, float]:
    """Return the exponent of each measured number."""
    sizes = [point.size for point in points]
    return {
        name: exponent(sizes, [getattr(point, name) for point in points])
        for name in ("planning_s", "fusionx_ms", "tvm_ms")
    }


def module_of(expr: relay.Expr) -> tvm.IRModule:
    """Return a network as a module with its types."""
    return relay.transform.InferType()(tvm.IRModule.from_expr(expr))


def built(mod: tvm.IRModule, target: tvm.target.Target, folder: Path, name: str) -> dict[str, Path]:
    """Build our side and TVM's into files of the folder, where they are not there."""
    builders: dict[str, Callable[[], Any]] = {
        "fusionx": lambda: build_fused(mod, target).library,
        "tvm": lambda: build_plain(mod, target),
    }
    paths = {side: folder / f"{name}-{side}.so" for side in builders}
    folder.mkdir(parents=True, exist_ok=True)
    for side, path in paths.items():
        if not path.is_file():
            with new_file(path) as scratch:
                builders[side]().export_library(str(scratch))
    return paths


def measure(
    mod: tvm.IRModule, size: int, target: tvm.target.Target, repeat: int, paths: Mapping[str, Path]
) -> Point:
    """Plan one network, and time what was built of it."""
    started = time.perf_counter()
    fx.pipeline(target)(mod)
    planning_s = time.perf_counter() - started
    (parameter,) = mod["main"].params
    shape = tuple(map(int, parameter.checked_type.shape))
    value = np.random.default_rng(1).standard_normal(shape).astype("float32")
    libraries = {side: tvm.runtime.load_module(str(path.resolve())) for side, path in paths.items()}
    runs: dict[str, Callable[[], Any]] = {}
    for side, library in libraries.items():
        executor = load(library)
        set_inputs(executor, {parameter.name_hint: value})
        runs[side] = executor.run
    with threads_apart(fx.threads()):
        latency, failures = time_interleaved(runs, repeat)
    if failures:
        raise RuntimeError(f"size {size}: {failures}")
    kernels = len(KernelGraph.from_json(libraries["fusionx"]["get_graph_json"]()).kernels)
    ours, tvms = latency["fusionx"].median, latency["tvm"].median
    return Point(size, kernels, planning_s, ours, tvms, commit_here())


def merged(old: Mapping[str, Any], points: Sequence[Point]) -> dict[str, Any]:
    """Return an axis with new points in the place of older ones of their sizes."""
    known = [Point(**point) for point in old.get("points", [])]
    every = {point.size: point for point in (*known, *points)}
    ordered = [every[size] for size in sorted(every)]
    slopes = exponents(ordered) if len(ordered) > 1 else {}
    return {"points": [asdict(point) for point in ordered], "exponents": slopes}


def main() -> None:
    """Measure the axes asked for, print a table each, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--axis", choices=sorted(AXES), action="append")
    parser.add_argument("--sizes", type=int, nargs="+", help="in place of an axis's own")
    parser.add_argument("--repeat", type=int, default=REPEAT, help="timed runs a side; 0 builds")
    parser.add_argument("--libraries", type=Path, help="keep what is built here, or time it")
    parser.add_argument("--json", type=Path, help="in place of the newest run's folder")
    options = parser.parse_args()
    fx.threads()
    newest = newest_run(device=describe_device())
    path = options.json or (newest / GROWTH if newest is not None else Path(GROWTH))
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.libraries or Path(scratch)
        for axis in options.axis or AXES:
            points = _measured(axis, options, folder)
            if not points:
                continue
            # After each axis: a later one may fail.
            found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
            found[axis] = merged(found.get(axis, {}), points)
            with new_file(path) as written:
                written.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            slopes = found[axis]["exponents"].values()
            print(f"{'exponent':>12} {'':8} " + " ".join(f"{value:9.2f}" for value in slopes))


def _measured(axis: str, options: argparse.Namespace, folder: Path) -> list[Point]:
    """Build an axis's networks, and time them where that is asked for."""
    make, sizes = AXES[axis]
    target = resolve_target(TARGET)
    print(f"{axis:>12} {'kernels':>8} {'planning s':>11} {'ours ms':>9} {'TVM ms':>9}")
    points = []
    for size in options.sizes or sizes:
        mod = module_of(make(size))
        paths = built(mod, target, folder, f"{axis}-{size}")
        if not options.repeat:
            print(f"{size:12} built", flush=True)
            continue
        point = measure(mod, size, target, options.repeat, paths)
        points.append(point)
        print(
            f"{size:12} {point.kernels:8} {point.planning_s:11.3f}"
            f" {point.fusionx_ms:9.3f} {point.tvm_ms:9.3f}",
            flush=True,
        )
    return points


if __name__ == "__main__":
    main()
