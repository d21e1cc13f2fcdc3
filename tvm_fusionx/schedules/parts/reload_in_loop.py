"""Load what a sum multiplies by anew for every tile, where LLVM would load it before their loop.

The weights of a tile of channels do not change in the loop over its pixels. Where sums are short,
LLVM writes them out, loads all weights before that loop, and keeps on the stack those for which it
has no register. Behind an address that it cannot foresee they are loaded where they are multiplied,
in pairs.
"""

from __future__ import annotations

from typing import Any

from tvm import tir

from tvm_fusionx.schedules.parts.hidden_numbers import hidden_zero, with_hidden_numbers

# Marks the outermost loop over a sum's terms; its value does not matter.
RELOADED = "fusionx_reloaded"


def reload_in_loop(func: Any, data: Any) -> Any:
    """Return a scheduled `func` whose marked sums load buffers other than `data` where they add.

    Only of parameters: what the kernel itself writes is summed in registers.

    Parameters
    ----------
    data
        Variable of the buffer that the sums move over, which changes with each tile.
    """
    given = [func.buffer_map[param].data for param in func.params]

    def marked(loop: Any) -> Any:
        if RELOADED not in loop.annotations:
            return None
        var, zero = hidden_zero("weights")

        def moved(load: Any) -> Any:
            if load.buffer.data.same_as(data) or not any(map(load.buffer.data.same_as, given)):
                return None
            *outer, last = load.indices
            return tir.BufferLoad(load.buffer, [*outer, last + var.astype(last.dtype)])

        body = tir.stmt_functor.ir_transform(loop.body, None, moved, ["tir.BufferLoad"])
        plain = tir.For(loop.loop_var, loop.min, loop.extent, loop.kind, body)
        return with_hidden_numbers(tir.LetStmt(var, zero, plain))

    return func.with_body(tir.stmt_functor.ir_transform(func.body, None, marked, ["tir.For"]))
