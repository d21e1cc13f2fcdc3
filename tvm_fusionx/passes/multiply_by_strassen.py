"""Multiply large matrices by seven products of quarters in the place of eight."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import tvm

from tvm_fusionx.ecg import Graph, to_relay
from tvm_fusionx.layout import multiply_by_strassen
from tvm_fusionx.passes.graph_pass import transform_graphs

logger = logging.getLogger(__name__)


@tvm.transform.module_pass(opt_level=0, name="tvm_fusionx.MultiplyByStrassen")
@dataclass(frozen=True)
class MultiplyByStrassen:
    """Compute large products with constant weights by one level of Strassen's scheme.

    It saves an eighth of their multiply-adds, and its results are less exact: the largest error is
    bounded by some three times that of a plain product, in proportion to the *largest* elements of
    both matrices, so that small results beside large ones lose digits (N. J. Higham, Accuracy and
    Stability of Numerical Algorithms, 2002, section 23.2.2). No build does it by itself. Put the
    pass before a build, or before the phase ``layout`` of :func:`tvm_fusionx.pipeline`.

    Before::

        nn.dense(%x, %w)

    After::

        %1 = nn.dense(add(strided_slice(%x), strided_slice(%x)), %w1); ...
        concatenate((add(subtract(add(%1, %4), %5), %7), ...))
    """

    def transform_module(self, mod: Any, ctx: Any) -> Any:
        """Return the module with seven products in the place of each large one."""

        def multiply(name: str, graph: Graph) -> Any:
            told = multiply_by_strassen(graph)
            for product, reason in told.items():
                logger.info("%s: %s", product, reason or "seven products of quarters")
            return to_relay(graph) if None in told.values() else None

        return transform_graphs(mod, multiply)
