"""What rewriting removes from each model: operations, operators, kernels, and the time it takes.

    python benchmarks/rewriting.py MODEL.onnx ...

For each ONNX file (its inputs as arrays in ``MODEL.inputs.npz``, from which shapes are taken), one
row before and one after rewriting, and the rules that were applied. Nothing is compiled.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import tvm

import tvm_fusionx as fx
from tvm_fusionx._tvm import let_cure, simplification_passes
from tvm_fusionx.ecg import from_relay
from tvm_fusionx.ecg.flops import flops
from tvm_fusionx.ecg.fold import fold_constants
from tvm_fusionx.fusion import PlannerOptions
from tvm_fusionx.passes import PackLayouts
from tvm_fusionx.passes.fuse_by_mapping import fuse_module
from tvm_fusionx.passes.rewrite_graph import TVM_OPT_LEVEL, rewrite_module
from tvm_fusionx.schedules import resolve_target

TARGET = resolve_target("llvm -mcpu=native")


def measure(mod: Any) -> tuple[int, int, int]:
    """Return arithmetic operations, operators and planned kernels of a module."""
    graph = from_relay(tvm.relay.transform.InferType()(mod)["main"])
    fold_constants(graph)
    calls = graph.calls()
    _, plans = fuse_module(PackLayouts(TARGET)(mod), PlannerOptions())
    return sum(map(flops, calls)), len(calls), plans["main"].kernels


def simplified(mod: Any) -> Any:
    """Return the module after TVM's own simplifications alone: they are not rewriting's gain."""
    with let_cure(), tvm.transform.PassContext(opt_level=TVM_OPT_LEVEL):
        return tvm.transform.Sequential(simplification_passes())(mod)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    print(f"{'model':<16} {'':<6} {'MFLOP':>10} {'operators':>9} {'kernels':>7} {'seconds':>7}")
    for path in parser.parse_args().models:
        inputs = np.load(path.with_suffix(".inputs.npz"))
        mod, _ = fx.from_onnx(path, shape={name: inputs[name].shape for name in inputs.files})
        before = measure(simplified(mod))
        start = time.perf_counter()
        rewritten, applications = rewrite_module(mod)
        seconds = time.perf_counter() - start
        after = measure(rewritten)
        for label, (operations, operators, kernels) in (("before", before), ("after", after)):
            print(
                f"{path.stem:<16} {label:<6} {operations / 1e6:>10.2f} {operators:>9} {kernels:>7}"
                + (f" {seconds:>7.2f}" if label == "after" else "")
            )
        rules = Counter(item.rule for item in applications).most_common()
        print("   " + ", ".join(f"{name} {count}" for name, count in rules), flush=True)


if __name__ == "__main__":
    main()
