"""PyTorch on the CPU, one operator after the other."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx.report.peers import PreparedPeer
from tvm_fusionx.report.peers.conversions import Conversions
from tvm_fusionx.report.peers.torch_program import arrays, load_module, tensors

IMAGE_AXES = 4
# Runs of each memory format before the quicker is taken.
TRIALS = 3


def prepare(
    model: Path, inputs: Mapping[str, np.ndarray], threads: int, _: Conversions
) -> PreparedPeer:
    """Return the model's torch module in inference mode, in the quicker of its memory formats.

    PyTorch advises channels last for convolutions; it does not help every model.
    """
    import torch

    torch.set_num_threads(threads)
    module, values = load_module(model, inputs), tensors(inputs)
    run = _runner(module, values)
    quickest = _seconds(run)
    if any(value.dim() == IMAGE_AXES for value in values):
        last = [
            value.contiguous(memory_format=torch.channels_last)
            if value.dim() == IMAGE_AXES
            else value
            for value in values
        ]
        turned = _runner(
            load_module(model, inputs).to(memory_format=torch.channels_last), tuple(last)
        )
        with contextlib.suppress(RuntimeError):  # one that views its tensors takes one format only
            run = turned if _seconds(turned) < quickest else run
    return PreparedPeer(
        name="torch",
        version=torch.__version__.split("+")[0],
        run=run,
        outputs=arrays,
        count_kernels=lambda: count_operators(run),
    )


def count_operators(run: Callable[[], Any]) -> int:
    """Return the operators that PyTorch dispatches in a run and that make a tensor, not a view."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            results = func._schema.returns
            is_view = any(r.alias_info is not None and not r.alias_info.is_write for r in results)
            self.count += not is_view
            return func(*args, **(kwargs or {}))

    with Counting() as counting:
        run()
    return counting.count


def _runner(module: Any, values: tuple[Any, ...]) -> Callable[[], Any]:
    import torch

    def run() -> Any:
        with torch.inference_mode():
            return module(*values)

    return run


def _seconds(run: Callable[[], Any]) -> float:
    taken = []
    for _ in range(TRIALS):
        started = time.perf_counter()
        run()
        taken.append(time.perf_counter() - started)
    return min(taken)
