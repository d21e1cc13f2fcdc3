"""Which of TVM's executors runs a model: the graph executor, or the virtual machine."""

from __future__ import annotations

import logging
from typing import Any

from tvm import relay

from tvm_fusionx.build.pipeline import check_static
from tvm_fusionx.errors import TargetError
from tvm_fusionx.passes.outline_static import decided_by_data, needs_run_time

logger = logging.getLogger(__name__)

GRAPH = "graph"
VM = "vm"
EXECUTORS = (GRAPH, VM)


def chosen_executor(mod: Any, executor: str | None) -> str:
    """Return what runs a module: `executor`, or by default the first that can.

    The choice of the virtual machine is logged with its reason.

    Raises
    ------
    TargetError
        There is no such executor.
    ShapeError
        The graph executor is asked for, and the data decides a shape or what is computed; it names
        the operator and the node of the ONNX model.
    """
    if executor not in (None, *EXECUTORS):
        raise TargetError(
            "executor",
            expected=" or ".join(map(repr, EXECUTORS)),
            found=repr(executor),
            next_step="Leave it out: what a model needs is found.",
        )
    typed = relay.transform.InferType()(mod)
    if executor is None:
        executor = VM if needs_run_time(typed) and _has_static_inputs(typed) else GRAPH
        if executor == VM:
            logger.info("built for TVM's virtual machine: %s", why_virtual_machine(typed))
    if executor == GRAPH:
        check_static(typed)
    return executor


def why_virtual_machine(typed: Any) -> str:
    """Return in words what a typed module needs the virtual machine for."""
    found = decided_by_data(typed)
    if found is None:
        return "it was asked for"
    operator, node, kind = found
    return (
        f"the data decides what {operator}{f' of node {node!r}' if node else ''} returns ({kind})"
    )


def _has_static_inputs(typed: Any) -> bool:
    # An input of unknown shape makes a whole network open, with no template for any of it.
    return all("?" not in str(param.checked_type) for param in typed["main"].params)
