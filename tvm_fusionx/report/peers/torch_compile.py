"""PyTorch on the CPU, compiled by ``torch.compile`` with its weights frozen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx.report.peers import PreparedPeer
from tvm_fusionx.report.peers.conversions import Conversions
from tvm_fusionx.report.peers.torch_program import (
    arrays,
    load_module,
    tensors,
    told_in_one_line,
)


def prepare(
    model: Path, inputs: Mapping[str, np.ndarray], threads: int, _: Conversions
) -> PreparedPeer:
    """Return the compiled torch module.

    Freezing makes the weights constants, folded and packed for the library of matrix products. The
    search over kernels (``max-autotune``) is left out, as tuning is on every side.
    """
    import torch
    import torch._inductor.config

    # Before compiling: the number of threads is written into the generated code.
    torch.set_num_threads(threads)
    torch._dynamo.reset()
    compiled = torch.compile(load_module(model, inputs))
    values = tensors(inputs)

    def run() -> Any:
        # Freezing takes place without gradients only, and not in inference mode.
        with torch.no_grad():
            return compiled(*values)

    # The whole configuration and not an option of the call: tracing looks there too.
    freezing = torch._inductor.config.patch(freezing=True)
    with freezing, told_in_one_line("torch.compile"):
        run()
    return PreparedPeer("torch-compile", torch.__version__.split("+")[0], run=run, outputs=arrays)
