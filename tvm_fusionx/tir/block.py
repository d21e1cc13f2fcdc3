"""What a fused block's PrimFunc consists of: its stages, who reads whom, which one dominates."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.tir.dot_call import is_dot_call, sides_of

# Operators whose scalar evaluation costs tens of multiplications (libm calls or long polynomials).
TRANSCENDENTALS = frozenset(
    "tir." + name
    for name in (
        *("exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "erf", "sigmoid", "pow"),
        *("sin", "cos", "tan", "atan", "atan2", "asin", "acos"),
        *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    )
)

ROOT_BLOCK = "root"

# TVM has LLVM compute it as float32, with casts around each operation; vectors of it that a
# template lays out by hand it does not compile.
BFLOAT16 = "bfloat16"


@dataclass(frozen=True)
class Iter:
    """One loop of a stage."""

    var: Any
    extent: int
    is_reduction: bool


@dataclass(frozen=True)
class Stage:
    """One TensorIR block of a fused block: one loop nest that writes one tensor (or a tuple)."""

    name: str
    block: Any
    iters: tuple[Iter, ...]
    reads: tuple[Any, ...]
    """Buffers read, each once, without the ones the stage writes."""
    writes: tuple[Any, ...]
    read_counts: Counter[Any]
    """How many loads the body makes from each buffer's data variable."""
    transcendentals: int
    """Calls of expensive functions in the body."""
    nodes: int
    """Expression nodes of the body, a measure of its size."""
    gathered: tuple[Any, ...]
    """Data variables of loads from places that are loaded, one for each element of a row."""

    @property
    def expensive(self) -> int:
        """What costs much more than a vector's arithmetic: expensive functions, and gathers."""
        return self.transcendentals + len(self.gathered)

    @property
    def is_reduction(self) -> bool:
        """Tell whether any loop accumulates."""
        return any(it.is_reduction for it in self.iters)

    @property
    def spatial(self) -> tuple[int, ...]:
        """Extents of the loops that do not accumulate."""
        return tuple(it.extent for it in self.iters if not it.is_reduction)

    @property
    def reduced(self) -> tuple[int, ...]:
        """Extents of the loops that accumulate."""
        return tuple(it.extent for it in self.iters if it.is_reduction)

    @property
    def points(self) -> int:
        """Number of executions of the body."""
        return math.prod(it.extent for it in self.iters)

    @property
    def sums_matrices(self) -> bool:
        """Tell whether the stage sums dot products of floats, which an instruction may multiply."""
        return self.sums_integers and str(self.writes[0].dtype) == "float32"

    @property
    def sums_integers(self) -> bool:
        """Tell whether the stage sums dot products of packed integers, or floats packed so."""
        return self.depth > 1

    @cached_property
    def depth(self) -> int:
        """Products that are added to a sum at once: 1 unless an operation multiplies groups."""
        value = getattr(self.block.body, "value", None)
        if not isinstance(value, tir.Add):
            return 1
        call = next((each for each in (value.a, value.b) if is_dot_call(each)), None)
        return 1 if call is None else len(sides_of(call)[0])

    @cached_property
    def is_plain_dot(self) -> bool:
        """Tell whether the stage sums products of two elements, neither cast nor computed.

        Those of bfloat16 are cast.
        """
        if not self.is_dot or self.sums_integers:
            return False
        own = self.writes[0]
        if str(own.dtype) == BFLOAT16:
            return False
        value = self.block.body.value
        product = value.b if _is_load_of(value.a, own) else value.a
        if not isinstance(product, tir.Mul):
            return False
        return all(_is_load_as(side, str(own.dtype)) for side in (product.a, product.b))

    @cached_property
    def multiplies_integers(self) -> bool:
        """Tell whether the stage adds products of two 16-bit integers to 32-bit ones."""
        if not self.is_dot or self.sums_integers or str(self.writes[0].dtype) != "int32":
            return False
        value = self.block.body.value
        product = value.b if _is_load_of(value.a, self.writes[0]) else value.a
        return isinstance(product, tir.Mul) and all(
            isinstance(side, tir.Cast) and _is_load_as(side.value, "int16")
            for side in (product.a, product.b)
        )

    @cached_property
    def is_dot(self) -> bool:
        """Tell whether the stage sums products of elements of two different tensors."""
        if not self.is_reduction or not isinstance(self.block.body, tir.BufferStore):
            return False
        value = self.block.body.value
        if not isinstance(value, tir.Add):
            return False
        own = self.writes[0]
        term = value.b if _is_load_of(value.a, own) else value.a
        if self.sums_integers:
            return True
        product = _strip_cast(term)
        if not isinstance(product, tir.Mul):
            return False
        left, right = loads_of(product.a), loads_of(product.b)
        if not left or not right:
            return False
        if {load.buffer.data for load in left}.isdisjoint(load.buffer.data for load in right):
            return True
        # Two parts of one tensor, such as queries and keys; but not the square of a deviation.
        are_plain = all(isinstance(side, tir.BufferLoad) for side in (product.a, product.b))
        return are_plain and not tvm.ir.structural_equal(product.a, product.b)


def _is_load_as(expr: Any, dtype: str) -> bool:
    return isinstance(expr, tir.BufferLoad) and str(expr.dtype) == dtype


def _strip_cast(expr: Any) -> Any:
    while isinstance(expr, tir.Cast):
        expr = expr.value
    return expr


def _is_load_of(expr: Any, buffer: Any) -> bool:
    return isinstance(expr, tir.BufferLoad) and expr.buffer.data.same_as(buffer.data)


def loads_of(expr: Any) -> list[Any]:
    """Return the loads of an expression, operands before what reads them."""
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferLoad):
            found.append(node)

    tir.stmt_functor.post_order_visit(expr, visit)
    return found


@dataclass(frozen=True)
class BlockInfo:
    """A fused block: its stages in program order and how they are connected."""

    func: Any
    processor: Cpu | Gpu
    """What runs the block."""
    stages: dict[str, Stage]
    consumers: dict[str, tuple[str, ...]]
    """Names of the stages that read what a stage writes."""
    producers: dict[str, tuple[str, ...]]
    outputs: tuple[str, ...]
    """Names of the stages that write a parameter of the function."""

    @property
    def cpu(self) -> Cpu:
        """The processor of a block for a CPU."""
        assert isinstance(self.processor, Cpu), self.processor
        return self.processor

    @property
    def gpu(self) -> Gpu:
        """The processor of a block for a GPU."""
        assert isinstance(self.processor, Gpu), self.processor
        return self.processor

    @property
    def reductions(self) -> tuple[Stage, ...]:
        """The stages that accumulate, in program order."""
        return tuple(stage for stage in self.stages.values() if stage.is_reduction)

    @property
    def dots(self) -> tuple[Stage, ...]:
        """The stages that sum products of two tensors (dense, batch_matmul, conv)."""
        return tuple(stage for stage in self.stages.values() if stage.is_dot)

    @property
    def anchor(self) -> Stage | None:
        """The dot with the most work, or None."""
        return max(self.dots, key=lambda stage: stage.points, default=None)

    def upstream(self, name: str) -> set[str]:
        """Return the stages whose values reach stage `name`."""
        return _reachable(name, self.producers)

    def downstream(self, name: str) -> set[str]:
        """Return the stages that stage `name`'s value reaches."""
        return _reachable(name, self.consumers)


def _reachable(start: str, edges: dict[str, tuple[str, ...]]) -> set[str]:
    seen: set[str] = set()
    stack = list(edges[start])
    while stack:
        name = stack.pop()
        if name not in seen:
            seen.add(name)
            stack.extend(edges[name])
    return seen


def collect_blocks(func: Any) -> list[Any]:
    """Return the ``tir.Block``s of `func` in program order, without the root."""
    blocks: list[Any] = []

    def visit(node: Any) -> None:
        if node.name_hint != ROOT_BLOCK:
            blocks.append(node)

    # ir_transform calls back for the listed kinds only: far cheaper than visiting every node.
    tir.stmt_functor.ir_transform(func.body, visit, None, ["tir.Block"])
    return blocks


# A kernel has a few dozen stages at most, and only those of the kernel at hand are met again.
STAGES_REMEMBERED = 64


@lru_cache(STAGES_REMEMBERED)
def describe_stage(block: Any) -> Stage:
    """Return what one ``tir.Block`` does; of the very same block, the very same answer.

    Blocks are immutable, and a template describes most of a kernel's anew after each of its steps.
    """
    iters = tuple(
        Iter(it.var, int(it.dom.extent), it.iter_type == tir.IterVar.CommReduce)
        for it in block.iter_vars
    )
    # Rows that lie together, as those of a table do, are read as any other.
    wide = (it.var for it in reversed(iters) if not it.is_reduction and it.extent > 1)
    last = next(wide, None)
    counts: Counter[Any] = Counter()
    buffers: dict[Any, Any] = {}
    expensive = nodes = 0
    gathered: list[Any] = []

    def visit(node: Any) -> None:
        nonlocal expensive, nodes
        nodes += 1
        if isinstance(node, tir.BufferLoad):
            counts[node.buffer.data] += 1
            buffers[node.buffer.data] = node.buffer
            places = [each for index in node.indices for each in loads_of(index)]
            if any(
                var.same_as(last) for each in places for var in tir.analysis.undefined_vars(each)
            ):
                gathered.append(node.buffer.data)
        elif isinstance(node, tir.Call) and getattr(node.op, "name", "") in TRANSCENDENTALS:
            expensive += 1

    tir.stmt_functor.post_order_visit(block.body, visit)
    writes = tuple(region.buffer for region in block.writes)
    written = {buffer.data for buffer in writes}
    reads = tuple(buffer for data, buffer in buffers.items() if data not in written)
    return Stage(
        block.name_hint, block, iters, reads, writes, counts, expensive, nodes, tuple(gathered)
    )


def describe_block(func: Any, processor: Cpu | Gpu) -> BlockInfo:
    """Return the stages of `func` (an unscheduled ``tir.PrimFunc``) and how they are connected."""
    stages = {block.name_hint: describe_stage(block) for block in collect_blocks(func)}
    writer = {buffer.data: name for name, stage in stages.items() for buffer in stage.writes}
    params = {buffer.data for buffer in func.buffer_map.values()}
    producers = {
        name: tuple(writer[buffer.data] for buffer in stage.reads if buffer.data in writer)
        for name, stage in stages.items()
    }
    consumers: dict[str, list[str]] = {name: [] for name in stages}
    for name, sources in producers.items():
        for source in sources:
            consumers[source].append(name)
    outputs = tuple(
        name
        for name, stage in stages.items()
        if any(buffer.data in params for buffer in stage.writes)
    )
    return BlockInfo(
        func,
        processor,
        stages,
        {name: tuple(names) for name, names in consumers.items()},
        producers,
        outputs,
    )
