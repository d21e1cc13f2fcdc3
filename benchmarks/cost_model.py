"""Compare what the cost model says of a model's blocks with what they take.

    python benchmarks/cost_model.py model.onnx --input-shapes "x:[1,3,320,320]"

Every distinct block of the plan is built and timed alone, with answers kept in the profile
database. Printed are the blocks with estimated and measured microseconds, and how far the estimate
is off: the median factor, and the rank correlation that decides plans.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from pathlib import Path

import numpy as np
import scipy.stats

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tvm_fusionx as fx
from tvm_fusionx.cli.options import InputShapes
from tvm_fusionx.ecg import from_relay
from tvm_fusionx.fusion import plan
from tvm_fusionx.fusion.block_key import block_key
from tvm_fusionx.fusion.border import border_of
from tvm_fusionx.fusion.cost_model import block_cost
from tvm_fusionx.fusion.device_costs import DEFAULT_COSTS
from tvm_fusionx.fusion.profile_database import ProfileDatabase
from tvm_fusionx.measuring import BlockTimer, calibrate
from tvm_fusionx.passes import PackLayouts, RewriteGraph
from tvm_fusionx.schedules import resolve_target

TARGET = "llvm -mcpu=native"


def main() -> None:
    """Plan, measure, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("model", type=Path)
    parser.add_argument("--input-shapes", help='as "x:[1,3,320,320]"')
    parser.add_argument("--database", type=Path, help="profile database; a new one by default")
    parser.add_argument("--defaults", action="store_true", help="estimate with the shipped rates")
    arguments = parser.parse_args()
    shapes = arguments.input_shapes
    shape = InputShapes().convert(shapes, None, None) if shapes else None
    fx.threads()
    target = resolve_target(TARGET)
    costs = DEFAULT_COSTS if arguments.defaults else calibrate(target)
    print(costs)
    mod, _ = fx.from_onnx(arguments.model, shape=shape)
    for step in (RewriteGraph(), PackLayouts(target)):
        mod = step(mod)
    graph = from_relay(mod["main"])
    folder = tempfile.mkdtemp()
    timer = BlockTimer(
        target, ProfileDatabase(arguments.database or Path(folder) / "profiles.sqlite")
    )
    rows = {}
    for block in plan(graph).blocks:
        if block.is_reshape_only:
            continue
        border = border_of(graph, block.nodes, frozenset(graph.outputs))
        key = block_key(block.nodes, border)
        if key in rows:
            continue
        estimate = block_cost(block.nodes, border, costs).microseconds
        rows[key] = (timer(graph, block.nodes), estimate, block)
    for measured, estimate, block in sorted(rows.values(), key=lambda row: -row[0]):
        print(f"{measured:9.1f} {estimate:9.1f} {estimate / measured:6.2f}  {block.name}")
    known = [(m, e) for m, e, _ in rows.values() if math.isfinite(m)]
    logs = np.abs(np.log([e / m for m, e in known]))
    rank = scipy.stats.spearmanr(*zip(*known, strict=True)).statistic
    print(f"{len(known)} distinct blocks, {len(rows) - len(known)} that cannot be measured")
    print(f"median factor {math.exp(float(np.median(logs))):.2f}, rank correlation {rank:.3f}")


if __name__ == "__main__":
    main()
