"""The pass that lets a core that is done take over what another has not begun.

TVM cuts a parallel loop into one part for each thread, and the kernel lasts as long as the slowest
of them: of two cores one that another program holds half of the time costs as much as both. Here
the loop is cut into more pieces than there are threads, each with a mark that says that somebody
has taken it. A thread begins where TVM lets it begin, takes pieces in order, goes on into the part
of the next thread, and round to where it began. As long as the cores are equally fast each takes
its own part and none else, in the order of before: what a core wrote in the kernel before is in its
cache.

It does not matter how many threads there are when the kernel runs. Results do not change, for the
iterations of a parallel loop do not depend on each other.
"""

from __future__ import annotations

from typing import Any

from tvm import tir

from tvm_fusionx.tir.llvm_functions import with_llvm_functions

# Pieces for each core: what a core waits for at the end is at most one piece, a sixteenth of its
# part. A mark costs some 8 ns to take; the smallest loops that are parallel last 5 us.
PIECES_A_CORE = 16

TAKE = "fusionx_take"
IS_TAKEN = "fusionx_is_taken"
UNKNOWN = "fusionx_unknown"

# TIR has no atomic operations. The order in which other threads see the marks does not matter: they
# see the operands since the loop began, and nobody reads results before it ends.
#
# The last returns its argument, of which LLVM knows nothing: an index that it can take apart it
# mixes with the others of an address, and misses that places are neighbours (the gathering of C3D's
# frames took 2.1 times as long).
FUNCTIONS_IN_LLVM = f"""
define i32 @{TAKE}(ptr %mark) {{
  %seen = load atomic i32, ptr %mark monotonic, align 4
  %is_free = icmp eq i32 %seen, 0
  br i1 %is_free, label %try, label %taken
try:
  %before = atomicrmw xchg ptr %mark, i32 1 monotonic
  %won = icmp eq i32 %before, 0
  %result = zext i1 %won to i32
  ret i32 %result
taken:
  ret i32 0
}}
define i32 @{IS_TAKEN}(ptr %mark) {{
  %seen = load atomic i32, ptr %mark monotonic, align 4
  ret i32 %seen
}}
define i32 @{UNKNOWN}(i32 %value) {{
  %same = call i32 asm "", "=r,0"(i32 %value)
  ret i32 %same
}}
"""

INDEX = "int32"


def steal_work(cores: int) -> Any:
    """Return the TIR pass that lets threads take over pieces of parallel loops, after lowering.

    Parameters
    ----------
    cores
        Threads that are expected: loops of no more iterations stay as they are.
    """

    @tir.transform.prim_func_pass(opt_level=0, name="tvm_fusionx.StealWork")
    def run(func: Any, mod: Any, ctx: Any) -> Any:
        has_changed = False

        def change(loop: Any) -> Any:
            nonlocal has_changed
            if not can_be_shared(loop) or int(loop.extent) <= cores:
                return None
            has_changed = True
            return _in_pieces(loop, PIECES_A_CORE * cores)

        body = tir.stmt_functor.ir_transform(func.body, None, change, ["tir.For"])
        if not has_changed:
            return func
        return func.with_body(with_llvm_functions(body, FUNCTIONS_IN_LLVM))

    return run


def can_be_shared(loop: Any) -> bool:
    """Tell whether `loop` is parallel and its iterations are known, from 0."""
    is_parallel = loop.kind == tir.ForKind.PARALLEL and isinstance(loop.extent, tir.IntImm)
    return is_parallel and isinstance(loop.min, tir.IntImm) and int(loop.min) == 0


def pieces_of(loop: Any) -> tuple[Any, int, Any] | None:
    """Return of a loop that the pass made a variable, how many values it has, and what runs once.

    None for every other loop. It is the pass read backwards, for those who look at lowered kernels.
    """
    if loop.kind != tir.ForKind.PARALLEL or not _asks(loop.body, IS_TAKEN):
        return None
    walk = loop.body.then_case
    if not isinstance(walk, tir.For) or not isinstance(walk.body, tir.LetStmt):
        return None
    taken = walk.body.body
    if not _asks(taken, TAKE) or not isinstance(loop.extent, tir.IntImm):
        return None
    return walk.body.var, int(loop.extent), taken.then_case


def _asks(stmt: Any, function: str) -> bool:
    """Tell whether a statement is a choice, without another case, by what a function answers."""
    if not isinstance(stmt, tir.IfThenElse) or stmt.else_case is not None:
        return False
    call: Any = getattr(stmt.condition, "a", None)
    if not isinstance(call, tir.Call) or call.op.name != "tir.call_extern":
        return False
    return str(call.args[0].value) == function


def _in_pieces(loop: Any, most: int) -> Any:
    """Return `loop` in at most `most` pieces of as many iterations each, that threads take."""
    extent = int(loop.extent)
    size = -(-extent // most)
    pieces = -(-extent // size)
    marks = tir.decl_buffer((pieces,), INDEX, "taken")
    first, step, piece = (tir.Var(name, INDEX) for name in ("first", "step", "piece"))

    def asked(function: str, place: Any) -> Any:
        mark = tir.address_of(tir.BufferLoad(marks, [place]))
        return tir.call_extern(INDEX, function, mark)

    around = tir.truncmod(first + step, tir.const(pieces, INDEX))
    taken = tir.IfThenElse(asked(TAKE, piece) != 0, _iterations(loop, piece, size), None)
    visit = tir.LetStmt(piece, tir.call_extern(INDEX, UNKNOWN, around), taken)
    walk = tir.For(step, 0, pieces, tir.ForKind.SERIAL, visit)
    # Whoever has walked leaves no piece: its other iterations end here.
    begin = tir.IfThenElse(asked(IS_TAKEN, first) == 0, walk, None)
    threads = tir.For(first, 0, pieces, tir.ForKind.PARALLEL, begin)
    place = tir.Var("place", INDEX)
    clear = tir.For(place, 0, pieces, tir.ForKind.SERIAL, tir.BufferStore(marks, 0, [place]))
    always = tir.const(True, "bool")
    return tir.Allocate(marks.data, INDEX, [pieces], always, tir.SeqStmt([clear, threads]))


def _iterations(loop: Any, piece: Any, size: int) -> Any:
    """Return the iterations of one piece of `loop`."""
    extent, kind = int(loop.extent), loop.loop_var.dtype
    index = tir.Cast(kind, piece) if kind != INDEX else piece
    if size == 1:
        return tir.stmt_functor.substitute(loop.body, {loop.loop_var: index})
    start = index * tir.const(size, kind)
    end = tir.Min(start + size, tir.const(extent, kind))
    count = tir.const(size, kind) if extent % size == 0 else end - start
    inner = tir.Var(str(loop.loop_var.name), kind)
    body = tir.stmt_functor.substitute(loop.body, {loop.loop_var: start + inner})
    return tir.For(inner, tir.const(0, kind), count, tir.ForKind.SERIAL, body)
