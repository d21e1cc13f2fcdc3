"""Write the table of processors as a page of the documentation, from `processors.json`.

    python benchmarks/processors_page.py   # docs/processors.md

A row is added to `tvm_fusionx/processors/processors.json`; a test compares the page with what this
gives.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tvm
from measured_runs import ROOT
from tvm.target import codegen

from tvm_fusionx.processors.cpu import Cpu, describe_cpu
from tvm_fusionx.processors.rates import (
    DEFAULT,
    FLOAT_BYTES,
    LIKE,
    Fact,
    Vectors,
    core_names,
    facts_of,
    meanings,
    read_file,
    scalable_vectors,
    vector_sets,
)

PAGE = ROOT / "docs" / "processors.md"
TRIPLES = ("x86_64-linux-gnu", "aarch64-linux-gnu")
# Bits of the element types that lanes are told of.
ELEMENTS = {"float32": 32, "float16, bfloat16": 16, "int8": 8}

BEGIN = """# Processors

What schedules know of a processor: one row a core, by LLVM's name (`-mcpu=`). Made by
`python benchmarks/processors_page.py` from `tvm_fusionx/processors/processors.json`; where each
number comes from stands below the table.

A number in brackets is inherited: from the row that this one is like, and at last from the row
`default`, which holds for every processor that the table does not name. Most of the default is that
of Zen 4, on which templates are measured: of a core that inherits a number, it is not known.
"""


def page() -> str:
    """Return the page."""
    return "\n".join([BEGIN, *_vectors(), *_numbers(), *_cores(), *_sources()])


def _vectors() -> list[str]:
    lanes = [f"lanes of {each}" for each in ELEMENTS]
    head = [
        "feature",
        "bits",
        "registers",
        *lanes,
        "multiplies by a lane",
        "begins with a bias",
        "rows of a strip",
        "source",
    ]
    sets = [*vector_sets(), scalable_vectors()]
    return [
        "## Vectors",
        "",
        "The first of these features that a target has gives its vectors, and lanes by element",
        "type follow from their width. Scalable vectors, the last row, are at least so wide, and a",
        "core's row tells how wide; templates use the vectors of fixed width there. Where a",
        "multiply-add takes an operand from a lane, tiles load shared elements as vectors. So many",
        "rows at most are summed together in windows that keep channels apart. Where sums begin",
        "with a bias, no instruction adds it behind them.",
        "",
        *_table(head, [_vector_row(each) for each in sets]),
    ]


def _vector_row(vectors: Vectors) -> list[str]:
    lanes = [str(vectors.bits // bits) for bits in ELEMENTS.values()]
    name = f"`{vectors.feature}`" if vectors.feature else "none of them"
    begins = "yes" if vectors.begins_with_bias else ""
    rows = str(vectors.strip_rows or "")
    by_lane = "yes" if vectors.multiplies_by_lane else ""
    return [
        name,
        str(vectors.bits),
        str(vectors.registers),
        *lanes,
        by_lane,
        begins,
        rows,
        vectors.source,
    ]


def _numbers() -> list[str]:
    rows = [
        [f"`{name}`", meaning, _value(facts_of(DEFAULT)[name]), facts_of(DEFAULT)[name].source]
        for name, meaning in meanings().items()
    ]
    return [
        "## Numbers",
        "",
        *_table(["number", "meaning", "default", "source of the default"], rows),
        "The rest is derived: multiply-adds of a native vector that begin in a cycle, from",
        "`multiply_add_units` and `multiply_add_bits`; the sums that hide their latency,",
        "`multiply_add_units` x `multiply_add_latency`; what a kernel may fill of the second",
        "level, half of it.",
        "",
    ]


def _cores() -> list[str]:
    names = [*core_names(), DEFAULT]
    head = ["core", "vectors", "multiply-adds", *(f"`{name}`" for name in meanings())]
    return ["## Cores", "", *_table(head, [_core_row(name) for name in names])]


def _core_row(name: str) -> list[str]:
    told = [
        _value(fact) if fact.row == name else f"({_value(fact)})"
        for fact in facts_of(name).values()
    ]
    if name == DEFAULT:
        return [f"`{name}`", "", "", *told]
    cpu = _cpu(name)
    bits = cpu.lanes * FLOAT_BYTES * 8
    return [f"`{name}`", f"{cpu.registers} of {bits} bits", str(cpu.multiply_adds), *told]


def _cpu(name: str) -> Cpu:
    """Return a core of the table as schedules see it."""
    for triple in TRIPLES:
        known = codegen.llvm_get_cpu_archlist(tvm.target.Target(f"llvm -mtriple={triple}"))
        if name in set(map(str, known)):
            return describe_cpu(tvm.target.Target(f"llvm -mtriple={triple} -mcpu={name}"))
    raise LookupError(f"LLVM knows no {name}; its names are those of `llc -mcpu=help`")


def _sources() -> list[str]:
    """Return the sources, and which of them each row's own numbers come from."""
    lines = ["## Sources", ""]
    lines += [f"- **{key}**: {source}." for key, source in read_file()["sources"].items()]
    lines += ["", "The numbers that a row tells itself, by their sources:", ""]
    for name, row in read_file()["cores"].items():
        own: dict[str, list[str]] = {}
        for number, told in row.items():
            if number != LIKE:
                own.setdefault(told[1], []).append(f"`{number}`")
        parts = [f"{', '.join(numbers)} ({key})" for key, numbers in own.items()]
        if LIKE in row:
            parts.append(f"the rest as `{row[LIKE]}`")
        lines.append(f"- `{name}`: {'; '.join(parts)}.")
    return [*lines, ""]


def _value(fact: Fact) -> str:
    if isinstance(fact.value, bool):
        return "yes" if fact.value else "no"
    return f"{fact.value:g}" if isinstance(fact.value, float) else str(fact.value)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
    ]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{len(core_names())} processors written to {PAGE.relative_to(ROOT)}")
