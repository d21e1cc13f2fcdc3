"""Take blocks apart: the same arithmetic as plain operators, every block's result visible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx.build.kernels import BLOCK_ATTRIBUTE, NODES_ATTRIBUTE
from tvm_fusionx.ecg.block_calls import is_block_call, operands_of, post_order


@dataclass(frozen=True)
class Block:
    """One block of a fused module.

    Attributes
    ----------
    name
        Value of the attribute ``fusionx.block``.
    operators
        Names of the model's nodes in it.
    call
        The call of the block in ``main``.
    first_output, number_of_outputs
        Where its tensors stand among the outputs of the exposed module.
    """

    name: str
    operators: tuple[str, ...]
    call: relay.Call
    first_output: int
    number_of_outputs: int

    @property
    def function(self) -> relay.Function:
        """Return the block's own function."""
        return self.call.op


@dataclass(frozen=True)
class ExposedModule:
    """A module without blocks whose ``main`` returns every block's result.

    Attributes
    ----------
    module
        ``main`` returns one flat tuple: the tensors of every block, in execution order.
    blocks
        The blocks in that order.
    """

    module: tvm.IRModule
    blocks: tuple[Block, ...]


def expose_blocks(fused: tvm.IRModule) -> ExposedModule:
    """Inline every block of `fused` and return all of their results.

    Parameters
    ----------
    fused
        A typed module after ``fx.pipeline``: each operator of ``main`` sits in an inline function
        with ``Primitive=1`` and a name in ``fusionx.block``. It is not changed.
    """
    main = fused["main"]
    replacement: dict[Any, Any] = {}
    blocks: list[Block] = []
    outputs: list[Any] = []
    for expr in post_order(main.body):
        replacement[expr] = _rebuilt(expr, replacement)
        if is_block_call(expr):
            fields = _tensors(replacement[expr], expr.checked_type)
            attributes = expr.op.attrs
            operators = str(attributes.get(NODES_ATTRIBUTE, "")).split(",")
            blocks.append(
                Block(
                    name=str(attributes.get(BLOCK_ATTRIBUTE, f"block {len(blocks)}")),
                    operators=tuple(name for name in operators if name),
                    call=expr,
                    first_output=len(outputs),
                    number_of_outputs=len(fields),
                )
            )
            outputs.extend(fields)
    exposed = tvm.IRModule.from_expr(relay.Function(main.params, relay.Tuple(outputs)))
    return ExposedModule(relay.transform.InferType()(exposed), tuple(blocks))


def _rebuilt(expr: Any, replacement: dict[Any, Any]) -> Any:
    operands = [replacement[operand] for operand in operands_of(expr)]
    if is_block_call(expr):
        return relay.bind(expr.op.body, dict(zip(expr.op.params, operands, strict=True)))
    if isinstance(expr, relay.Call):
        return relay.Call(expr.op, operands, expr.attrs, expr.type_args, expr.span)
    if isinstance(expr, relay.Tuple):
        return relay.Tuple(operands)
    if isinstance(expr, relay.TupleGetItem):
        return relay.TupleGetItem(operands[0], expr.index)
    return expr


def _tensors(value: Any, value_type: Any) -> list[Any]:
    if isinstance(value_type, relay.TupleType):
        return [relay.TupleGetItem(value, index) for index in range(len(value_type.fields))]
    return [value]
