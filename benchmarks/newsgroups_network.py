"""Train a small transformer on 20 Newsgroups, from a fixed seed, and write it as an ONNX file.

    python benchmarks/newsgroups.py data.npz --tokens 64 --vocabulary 4000
    python benchmarks/newsgroups_network.py data.npz OUT.onnx [--epochs 6] [--quick]

The largest network of the space that `search_text.py` searches, trained as its candidates are. A
file takes `quantize_accuracy.BATCH` documents of 64 words at a time, ``(N, 64)`` of int64. The
accuracy on the documents kept apart is printed.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from search_text import QUICK, SPACE, largest
from train_newsgroups import train

from tvm_fusionx.output_file import new_file
from tvm_fusionx.search.onnx_network import onnx_network
from tvm_fusionx.search.space_file import parse_space

SEED = 0
BATCH = 50


def main(words: Sequence[str] | None = None) -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="what newsgroups.py wrote")
    parser.add_argument("output", type=Path)
    parser.add_argument("--epochs", type=float, default=6.0)
    parser.add_argument("--quick", action="store_true", help="the smallest space's largest network")
    options = parser.parse_args(words)
    os.environ["NEWSGROUPS"] = str(options.data.resolve())
    os.environ["EPOCHS"] = str(options.epochs)
    candidate = largest(parse_space(QUICK if options.quick else SPACE))
    with tempfile.TemporaryDirectory() as folder:
        trained = train(candidate, {"share": 1.0, "seed": SEED, "folder": folder})
        with np.load(Path(folder) / "weights.npz", allow_pickle=False) as file:
            weights = {name: file[name] for name in file.files}
    with new_file(options.output) as scratch:
        onnx.save(onnx_network(candidate, weights, batch=BATCH), scratch)
    print(f"accuracy {trained['test_accuracy']:.4f} on documents kept apart")


if __name__ == "__main__":
    main()
