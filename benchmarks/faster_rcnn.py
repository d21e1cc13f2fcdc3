"""Compile Faster R-CNN whole for TVM's virtual machine and compare it with ONNX Runtime.

    python benchmarks/faster_rcnn.py --maps 2 --pictures 6 --json out.json

The network (``tests/faster_rcnn.py``) is small, and has both tails whose shapes the data decides:
proposals and detections. Building takes about half a minute of one core, nearly all of it in TVM's
lowering of open operators. Exit code 0 if each picture has the same detections, else 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tvm_fusionx as fx
from tests.data_models import TOLERANCE, by_onnxruntime
from tests.faster_rcnn import SIDE, STRIDES, faster_rcnn
from tests.tiny_models import TARGET


def difference(found: Any, wanted: Any) -> float:
    """Return the largest difference, relative to the largest number; infinite between shapes."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return float("inf")
    if not wanted.size:
        return 0.0
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def measure(maps: int, pictures: int) -> dict[str, Any]:
    """Build once, run each picture, and return what was found."""
    model = faster_rcnn(maps)
    began = time.process_time()
    mod, params = fx.from_onnx(model)
    program = fx.build(mod, TARGET, params=params)
    seconds = time.process_time() - began
    rows = []
    for seed in range(pictures):
        picture = np.random.default_rng(seed).random((1, 3, SIDE, SIDE)).astype("float32")
        wanted = by_onnxruntime(model, {"picture": picture})
        found = program.run(picture=picture)
        errors = [difference(*pair) for pair in zip(found, wanted, strict=True)]
        rows.append({"detections": len(wanted[1]), "max_rel_error": max(errors)})
    return {
        "maps": maps,
        "build_cpu_seconds": round(seconds, 1),
        "templates": dict(Counter(note.template for note in program.kernels)),
        "pictures": rows,
    }


def main() -> int:
    """Print a row a picture and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--maps", type=int, choices=range(1, len(STRIDES) + 1), default=2)
    parser.add_argument("--pictures", type=int, default=6)
    parser.add_argument("--json", type=Path, help="write what was found to this file")
    options = parser.parse_args()
    found = measure(options.maps, options.pictures)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    print(f"built in {found['build_cpu_seconds']} s of one core: {found['templates']}")
    for seed, row in enumerate(found["pictures"]):
        print(f"picture {seed}: {row['detections']} detections, {row['max_rel_error']:.1e}")
    return int(any(row["max_rel_error"] > TOLERANCE for row in found["pictures"]))


if __name__ == "__main__":
    sys.exit(main())
