"""Einstein summation, as transposes, batched matrix products and sums."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.converters.shapes import reshape, transpose
from tvm_fusionx.frontend.converters.slicing import take
from tvm_fusionx.frontend.node import Node

# Labels that stand for the axes an ellipsis covers; the equation's own are letters.
ELLIPSIS_LABELS = "0123456789"


@dataclass(frozen=True)
class Labelled:
    """An expression whose axes have labels."""

    expr: Any
    labels: str
    shape: tuple[int, ...]

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each axis."""
        return dict(zip(self.labels, self.shape, strict=True))

    def ordered(self, labels: str) -> Labelled:
        """Return the same tensor with its axes in the order of `labels`."""
        order = [self.labels.index(label) for label in labels]
        expr = transpose(self.expr, order)
        return Labelled(expr, labels, tuple(self.shape[i] for i in order))

    def summed(self, labels: str) -> Labelled:
        """Return the sum over the axes in `labels`."""
        axes = [i for i, label in enumerate(self.labels) if label in labels]
        if not axes:
            return self
        kept = [i for i in range(len(self.labels)) if i not in axes]
        expr = relay.sum(self.expr, axes)
        shape = tuple(self.shape[i] for i in kept)
        return Labelled(expr, "".join(self.labels[i] for i in kept), shape)

    def as_matrices(self, batch: str, rows: str, columns: str) -> Any:
        """Return the tensor as [batch, rows, columns], several axes to each."""
        turned = self.ordered(batch + rows + columns)
        sizes = self.sizes
        return reshape(
            turned.expr, [math.prod(sizes[i] for i in part) for part in (batch, rows, columns)]
        )


def _without_repeats(operand: Labelled) -> Labelled:
    """Return the diagonal of axes that share a label."""
    for label in set(operand.labels):
        while operand.labels.count(label) > 1:
            first = operand.labels.index(label)
            second = operand.labels.index(label, first + 1)
            rest = [i for i in range(len(operand.labels)) if i not in (first, second)]
            size = operand.shape[first]
            turned = transpose(operand.expr, [first, second, *rest])
            shape = tuple(operand.shape[i] for i in rest)
            flat = reshape(turned, (size * size, *shape))
            labels = label + "".join(operand.labels[i] for i in rest)
            diagonal = take(flat, np.arange(size) * (size + 1), 0)
            operand = Labelled(diagonal, labels, (size, *shape))
    return operand


def _contract(a: Labelled, b: Labelled, needed: set[str]) -> Labelled:
    """Multiply two operands and sum over the labels that nothing else needs."""
    a = a.summed("".join(set(a.labels) - needed - set(b.labels)))
    b = b.summed("".join(set(b.labels) - needed - set(a.labels)))
    shared = [label for label in a.labels if label in b.labels]
    batch = "".join(label for label in shared if label in needed)
    contracted = "".join(label for label in shared if label not in needed)
    rows = "".join(label for label in a.labels if label not in b.labels)
    columns = "".join(label for label in b.labels if label not in a.labels)
    product = relay.nn.batch_matmul(
        a.as_matrices(batch, rows, contracted), b.as_matrices(batch, columns, contracted)
    )
    labels = batch + rows + columns
    sizes = {**a.sizes, **b.sizes}
    shape = tuple(sizes[label] for label in labels)
    return Labelled(reshape(product, shape), labels, shape)


def _parse(equation: str, ranks: list[int]) -> tuple[list[str], str]:
    """Return one label per axis of every operand and of the output, the ellipses written out."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    covered = max(
        (
            rank - len(term.replace("...", ""))
            for term, rank in zip(terms, ranks, strict=True)
            if "..." in term
        ),
        default=0,
    )
    labels = []
    for term, rank in zip(terms, ranks, strict=True):
        count = rank - len(term.replace("...", ""))
        labels.append(term.replace("...", ELLIPSIS_LABELS[covered - count : covered]))
    if not arrow:
        once = sorted(c for c in set(left) if c.isalpha() and left.count(c) == 1)
        right = ("..." if "..." in left else "") + "".join(once)
    return labels, right.replace("...", ELLIPSIS_LABELS[:covered])


@converter("Einsum", through=28, because="TVM sums element by element, and fails on scalar results")
def convert_einsum(node: Node) -> Any:
    """Contract the operands from left to right."""
    shapes = [node.shape(i) for i in range(len(node.inputs))]
    terms, output = _parse(node.attribute("equation"), [len(shape) for shape in shapes])
    for shape, term in zip(shapes, terms, strict=True):
        sizes = dict(zip(term, shape, strict=True))
        others = {
            k: v for s, t in zip(shapes, terms, strict=True) for k, v in zip(t, s, strict=True)
        }
        if any(others[label] != size for label, size in sizes.items()):
            raise node.refuse("one size for each label", f"operands {[list(s) for s in shapes]}")
    operands = [
        _without_repeats(Labelled(node.expr(i), term, shapes[i])) for i, term in enumerate(terms)
    ]
    result = operands[0]
    for position, operand in enumerate(operands[1:], start=1):
        needed = set(output).union(*(rest.labels for rest in operands[position + 1 :]))
        result = _contract(result, operand, needed)
    result = result.summed("".join(set(result.labels) - set(output)))
    return result.ordered(output).expr
