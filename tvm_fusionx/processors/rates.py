"""How fast cores multiply, load, exchange and start work, and how large their caches are.

``processors.json`` has a row for each core by LLVM's name, and the source of each number. What a
row does not tell it inherits: from the row that it names as ``like``, and at last from the default.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("processors.json")

DEFAULT = "default"
LIKE = "like"

FLOAT_BYTES = 4

# A line of the caches, on every processor that is known here.
LINE_BYTES = 64


@dataclass(frozen=True)
class Rates:
    """The numbers of one core; ``processors.json`` says what each means."""

    l1_kib: int
    l2_kib: int
    llc_slice_kib: int
    multiply_add_units: int
    multiply_add_bits: int
    multiply_add_latency: int
    addition_latency: int
    loads_a_cycle: float
    l2_bytes_a_cycle: float
    llc_bytes_a_cycle: float
    memory_bytes_a_cycle: float
    memory_readers: int
    exchanges_slowly: bool
    wake_up_us: float
    scalable_bits: int
    byte_pair_cost: float


@dataclass(frozen=True)
class Fact:
    """One number of a core, and where it comes from."""

    value: Any
    source: str
    """The document, or the machine that it was measured on."""
    row: str
    """The row that tells it: the core's own, or the one that it is inherited from."""


@dataclass(frozen=True)
class Vectors:
    """The vectors of an instruction set."""

    feature: str
    """LLVM's name of the feature that has them; empty where no feature is needed."""
    bits: int
    registers: int
    """Architectural vector registers."""
    source: str
    extremes_keep_nan: bool = False
    """Whether the larger and the smaller of a NaN and a number are NaN in one instruction."""

    multiplies_by_lane: bool = False
    """Whether a multiply-add takes one operand from a lane of a register."""

    begins_with_bias: bool = False
    """Whether sums begin with what is added to them: a copy is as cheap as a zero, and no
    instruction adds from memory."""

    strip_rows: int = 0
    """Most output rows of a tile of a window that keeps channels apart; 0 for a row at a time."""

    widens_upper_half: bool = False
    """Whether the upper half of a register of halves is widened like the lower."""


@functools.cache
def read_file() -> dict[str, Any]:
    """Return what ``processors.json`` holds."""
    loaded: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return loaded


def core_names() -> tuple[str, ...]:
    """Return LLVM's names of the cores that have rows, in the order of the file."""
    return tuple(read_file()["cores"])


def meanings() -> dict[str, str]:
    """Return what each number of a row means, and its unit."""
    told: dict[str, str] = read_file()["numbers"]
    return told


@functools.cache
def facts_of(core: str) -> dict[str, Fact]:
    """Return each number of a core by its name; those of the default where the core has no row."""
    rows, sources = read_file()["cores"], read_file()["sources"]
    name = core if core in rows else DEFAULT
    found: dict[str, Fact] = {}
    while True:
        row = rows[name] if name != DEFAULT else read_file()[DEFAULT]
        for number, told in row.items():
            if number != LIKE and number not in found:
                value, source = told
                found[number] = Fact(value, sources[source], name)
        if name == DEFAULT:
            return {each: found[each] for each in meanings()}
        name = row.get(LIKE, DEFAULT)


@functools.cache
def rates_of(core: str) -> Rates:
    """Return the numbers of a core by LLVM's name; the default ones where it has no row."""
    facts = facts_of(core)
    return Rates(**{each.name: facts[each.name].value for each in fields(Rates)})


@functools.cache
def vector_sets() -> tuple[Vectors, ...]:
    """Return the vectors of each instruction set, the widest first: the first that one has."""
    return tuple(Vectors(**row) for row in read_file()["vectors"])


@functools.cache
def scalable_vectors() -> Vectors:
    """Return the vectors of which a program does not know the width; they are at least so wide."""
    return Vectors(**read_file()["scalable"])


def calibrated() -> dict[str, Any]:
    """Return what calibration measured on one machine, by the names of the cost model's rates."""
    return {name: value for name, value in read_file()["calibrated"].items() if name != "source"}


DEFAULT_RATES = rates_of(DEFAULT)
