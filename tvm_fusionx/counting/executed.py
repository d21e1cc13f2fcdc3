"""What ran, instruction by instruction, grouped by function."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tvm_fusionx.counting.disassembly import WORD_BYTES
from tvm_fusionx.counting.functions import FunctionTable, read_functions
from tvm_fusionx.counting.loops import has_frame
from tvm_fusionx.counting.trace import Block, Trace

# Counts of neighbours that differ by less belong to one stretch of code: a loop whose first turn
# was peeled is still one loop.
SAME_COUNT = 0.02

OUTSIDE = "(no file)"


@dataclass(frozen=True)
class Step:
    """An instruction at its address, and how often it ran."""

    address: int
    word: int
    count: int


@dataclass(frozen=True)
class Function:
    """What ran of one function.

    Attributes
    ----------
    name
        Its symbol; empty where the file has no symbols.
    module
        Name of the file.
    steps
        By address.
    moved
        Bytes into and out of the first-level cache, and the second-level one.
    """

    name: str
    module: str
    steps: tuple[Step, ...]
    moved: tuple[int, int, int, int]

    @property
    def instructions(self) -> int:
        """Return how many instructions ran."""
        return sum(step.count for step in self.steps)

    def has_frame(self, texts: Mapping[int, str]) -> bool:
        """Tell whether ``x29`` holds its frame; of code without symbols that cannot be told."""
        return bool(self.name) and has_frame([texts[step.word] for step in self.steps])


def functions_of(trace: Trace) -> list[Function]:
    """Return what ran, the function with most instructions first."""
    tables: dict[str, FunctionTable] = {}
    grouped: dict[tuple[str, str], list[Block]] = defaultdict(list)
    for block in trace.blocks:
        mapping = trace.mapping_of(block.address)
        if mapping is None:
            grouped["", OUTSIDE].append(block)
            continue
        if mapping.path not in tables:
            tables[mapping.path] = read_functions(mapping.path)
        offset = block.address - mapping.start + mapping.offset
        name = tables[mapping.path].name_at(offset) or ""
        grouped[name, Path(mapping.path).name].append(block)
    found = [
        Function(name, module, _steps(blocks), _moved(blocks))
        for (name, module), blocks in grouped.items()
    ]
    return sorted(found, key=lambda each: -each.instructions)


def _steps(blocks: Sequence[Block]) -> tuple[Step, ...]:
    """Return each instruction once: QEMU translates the same code into blocks that overlap."""
    counts: Counter[tuple[int, int]] = Counter()
    for block in blocks:
        for place, word in enumerate(block.words):
            counts[block.address + WORD_BYTES * place, word] += block.count
    return tuple(Step(address, word, count) for (address, word), count in sorted(counts.items()))


def _moved(blocks: Sequence[Block]) -> tuple[int, int, int, int]:
    first, second, third, fourth = (sum(block.moved[way] for block in blocks) for way in range(4))
    return first, second, third, fourth


def pieces_of(steps: Sequence[Step]) -> list[list[Step]]:
    """Return the stretches of neighbouring instructions that ran equally often."""
    pieces: list[list[Step]] = []
    for step in steps:
        if pieces and _continues(pieces[-1], step):
            pieces[-1].append(step)
        else:
            pieces.append([step])
    return pieces


def _continues(piece: Sequence[Step], step: Step) -> bool:
    is_next = piece[-1].address + WORD_BYTES == step.address
    return is_next and abs(piece[0].count - step.count) <= SAME_COUNT * piece[0].count
