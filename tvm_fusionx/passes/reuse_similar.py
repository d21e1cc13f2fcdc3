"""Let similar rows of convolutions and matrix products share products."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tvm

from tvm_fusionx.ecg import Graph, to_relay
from tvm_fusionx.layout import pack_convolutions, reuse_similar
from tvm_fusionx.passes.graph_pass import transform_graphs
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.processors.targets import is_cpu
from tvm_fusionx.reuse.choice import ATTRIBUTE, Choice, choices_of_text
from tvm_fusionx.schedules import resolve_target

logger = logging.getLogger(__name__)


@tvm.transform.module_pass(opt_level=0, name="tvm_fusionx.ReuseSimilar")
@dataclass(frozen=True)
class ReuseSimilar:
    """Replace the layers that calibration chose by ones that put similar rows together.

    The choices are the module's attribute ``fusionx.reuse``, which :func:`tvm_fusionx.from_onnx`
    reads from the file that ``fusionx reuse`` wrote. Results are approximate. A model without
    choices is left alone.

    Before::

        nn.relu(add(nn.contrib_conv2d_NCHWc(%x, %w), %bias))

    After::

        fusionx.reuse_conv2d(%x, %w, %projections, %thresholds, %bias)
    """

    target: Any
    """What the kernels are for; another target than a CPU keeps what it has."""

    choices: Mapping[str, Choice] | None = None
    """By the names of the ONNX nodes; those of the module when None."""

    def transform_module(self, mod: Any, ctx: Any) -> Any:
        """Return the module with layers that reuse products."""
        target = resolve_target(self.target)
        choices = self.choices
        if choices is None:
            text = str((mod.attrs or {}).get(ATTRIBUTE, ""))
            choices = choices_of_text(text) if text else {}
        if not choices or not is_cpu(target):
            return mod
        cpu = describe_cpu(target)
        found: set[str] = set()

        def reuse(_: str, graph: Graph) -> Any:
            pack_convolutions(graph, cpu)
            told = reuse_similar(graph, choices)
            found.update(told)
            for name, reason in told.items():
                if reason is not None:
                    logger.warning("%s computes all of its products: %s", name, reason)
            return to_relay(graph) if None in told.values() else None

        changed = transform_graphs(mod, reuse)
        for name in choices.keys() - found:
            logger.warning("%s computes all of its products: there is no such layer", name)
        return changed
