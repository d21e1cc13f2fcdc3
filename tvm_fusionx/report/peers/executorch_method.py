"""ExecuTorch on the CPU, with its XNNPACK back end, in float32."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx.report.peers import PreparedPeer
from tvm_fusionx.report.peers.conversions import Conversions
from tvm_fusionx.report.peers.torch_program import (
    arrays,
    convert_apart,
    program_file,
    program_sources,
    tensors,
)

CONVERTED = "model.pte"
CONVERT = """
import sys, torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
program = torch.export.load(sys.argv[1])
lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()]).to_executorch()
open(sys.argv[2], "wb").write(lowered.buffer)
"""


def prepare(
    model: Path,
    inputs: Mapping[str, np.ndarray],
    threads: int,
    conversions: Conversions,
) -> PreparedPeer:
    """Convert the model's exported program and return its method ``forward``."""
    from executorch.extension.pybindings import portable_lib
    from executorch.runtime import Runtime

    version = metadata.version("executorch")

    def convert(folder: Path) -> None:
        exported = program_file(model, inputs, folder)
        convert_apart("to_executorch", CONVERT, exported, folder / CONVERTED)

    sources = [*program_sources(model, inputs), CONVERT, version]
    with conversions.made("executorch", sources, convert) as folder:
        code = (folder / CONVERTED).read_bytes()
    portable_lib._unsafe_reset_threadpool(threads)
    program = Runtime.get().load_program(code)
    method, values = program.load_method("forward"), list(tensors(inputs))

    # The method's memory is the program's, which this holds.
    def run(program: Any = program) -> Any:
        return method.execute(values)

    return PreparedPeer(
        name="executorch",
        version=version,
        run=run,
        outputs=arrays,
    )
