"""A pruned torch module as plain ONNX: the zeros are where they were, and the numbers too."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from tvm_fusionx.compress.prune.onnx_layers import find_constants
from tvm_fusionx.compress.prune.torch_layers import torch
from tvm_fusionx.compress.quantize.model_graph import ModelGraph
from tvm_fusionx.errors import ModelError, WrongResultError

logger = logging.getLogger(__name__)

OPSET = 17

# Of the largest output: float32 sums in another order, and norms folded into weights.
TOLERANCE = 1e-4

# Below it a whole output is zero.
LEAST_SCALE = 1e-30


def export_module(
    module: Any, example: Sequence[Any], options: Mapping[str, Any] | None = None
) -> Any:
    """Return a module as a ``ModelProto`` with batch norms folded.

    Parameters
    ----------
    module
        In whatever mode; it is exported as for inference.
    example
        Its positional inputs, tensors.
    options
        Passed on to ``torch.onnx.export``, such as ``input_names`` and ``dynamic_axes``.

    Raises
    ------
    ModelError
        The module cannot be exported.
    """
    module.eval()
    file = io.BytesIO()
    settings = {"opset_version": OPSET, "dynamo": False, **(options or {})}
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            torch.onnx.export(module, tuple(example), file, **settings)
    except Exception as error:
        raise ModelError(
            f"module {type(module).__name__}",
            expected="one that torch.onnx.export can write",
            found=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}",
            next_step="Give `example` as the module takes it, or `export` with what it needs.",
        ) from error
    return onnx.load_model_from_string(file.getvalue())


def check_zeros(model: Any, zeros: int) -> None:
    """Make sure that the weights of a model's layers have the zeros that were cut.

    Only all of them can be counted: an exporter folds norms into weights, stacks the directions of
    a recurrent layer, and takes attention apart.

    Parameters
    ----------
    model
        ``ModelProto``.
    zeros
        Of all pruned layers together.

    Raises
    ------
    WrongResultError
        There are fewer.
    """
    graph = ModelGraph(model)
    arrays = [graph.array(constant) for _, constant in find_constants(graph)]
    found = sum(each.size - int(np.count_nonzero(each)) for each in arrays if each is not None)
    if found < zeros:
        raise WrongResultError(
            "the exported model",
            expected=f"{zeros} zeros in its weights, as in the module's layers",
            found=str(found),
            next_step="Export with do_constant_folding, and without what changes weights.",
        )


def check_numbers(model: Any, module: Any, example: Sequence[Any]) -> float | None:
    """Return how far ONNX Runtime's outputs are from torch's, relative to the largest.

    None where ONNX Runtime is not installed.

    Raises
    ------
    WrongResultError
        They are further apart than rounding explains.
    """
    try:
        import onnxruntime
    except ImportError:
        logger.warning("the exported model is not compared: onnxruntime is not installed")
        return None
    module.eval()
    with torch.no_grad():
        told = module(*example)
    wanted = [each.detach().cpu().numpy() for each in _flat(told)]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [each.name for each in session.get_inputs()]
    feeds = {name: each.detach().cpu().numpy() for name, each in zip(names, example, strict=False)}
    found = session.run(None, feeds)
    worst = 0.0
    for one, other in zip(wanted, found, strict=False):
        scale = max(float(np.abs(one).max(initial=0)), LEAST_SCALE)
        worst = max(worst, float(np.abs(one - other).max(initial=0)) / scale)
    if worst > TOLERANCE or len(found) < len(wanted):
        raise WrongResultError(
            "the exported model",
            expected=f"torch's {len(wanted)} outputs, within {TOLERANCE:g} of the largest",
            found=f"{len(found)} outputs, {worst:.2e} apart",
            next_step="Is the module the same each time it is asked, in eval() mode?",
        )
    return worst


def _flat(told: Any) -> list[Any]:
    """Return the tensors of an answer in order, as the exporter numbers them."""
    waiting, tensors = [told], []
    while waiting:
        each = waiting.pop(0)
        if isinstance(each, torch.Tensor):
            tensors.append(each)
        elif isinstance(each, (tuple, list)):
            waiting = [*each, *waiting]
    return tensors
