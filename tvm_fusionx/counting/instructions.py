"""What kind of instruction an A64 instruction is, and what it reads, writes and multiplies.

Read from LLVM's text of it, which is the same for every alias and every extension.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

MULTIPLY_ADD = "multiply_add"
LOAD = "load"
STORE = "store"
MOVE = "move"
VECTOR = "vector"
BRANCH = "branch"
OTHER = "other"
KINDS = (MULTIPLY_ADD, LOAD, STORE, MOVE, VECTOR, BRANCH, OTHER)

# Bytes of a register by the letter of its name (Arm ARM, section B1.2).
REGISTER_BYTES = {"b": 1, "h": 2, "s": 4, "d": 8, "q": 16, "v": 16, "w": 4, "x": 8, "z": 16}
STACK_POINTER, FRAME_POINTER = "sp", "x29"

# Products in each lane of the sums (Arm ARM, chapter C7): an instruction of one product a lane has
# no row. The matrix ones fill 2 x 2 sums from 2 x 8 bytes, or from 2 x 4 halves.
PRODUCTS_IN_A_LANE = {
    **dict.fromkeys(("sdot", "udot", "usdot", "sudot"), 4),
    "bfdot": 2,
    **dict.fromkeys(("smmla", "ummla", "usmmla"), 8),
    "bfmmla": 4,
}
_LANE_WISE = (
    r"fmla|fmls|fmad|fmsb|fnmla|fnmls|fmlal2?|fmlsl2?|bfmlal[bt]|mla|mls|[su]ml[as]l2?|sqdml[as]l2?"
)
_MULTIPLY_ADD = re.compile(rf"(?:{_LANE_WISE}|fn?madd|fn?msub|{'|'.join(PRODUCTS_IN_A_LANE)})$")
_MOVE = re.compile(
    r"(?:mov|movi|mvni|fmov|dup|ins|[su]mov|zip[12]?|uzp[12]?|trn[12]?|ext|rev(?:16|32|64)?|tb[lx]"
    r"|splice|sel|movprfx|insr|index)$"
)
_BRANCH = re.compile(r"(?:b|bl|br|blr|ret|cbn?z|tbn?z|b[lr]?r?a[ab]z?|reta[ab]|bc?\.\w+)$")
_LOAD = re.compile(r"ld(?!g$)")
_STORE = re.compile(r"st(?!g$|2g$|z)")
_ATOMIC = re.compile(
    r"(?:(?:ld|st)(?:add|clr|eor|set|[su]max|[su]min)|swp|cas)(?P<pair>p?)a?l?(?P<narrow>[bh]?)$"
)
# Width of what is in memory where the register's name does not tell it.
_NARROW = ((re.compile(r"sw$"), 4), (re.compile(r"s?b$"), 1), (re.compile(r"s?h$"), 2))
_HAS_NARROW = re.compile(r"(?:ld|st)(?:u|t|a|l|x|n|r|p)*(?:r|p|ur|tr)?(?:s?[bh]|sw)$")
# Zero (wzr, xzr) is stored as any register of its width.
_REGISTER = re.compile(
    r"\b(?P<letter>[bhsdqvwxz])(?:zr\b|(?P<number>\d+)(?:\.(?P<lanes>\d*)(?P<kind>[bhsdq]))?)"
)
_VECTOR_OPERAND = re.compile(r"(?<![\w#])(?:[vzqdsh]\d+)\b")
_BASE = re.compile(r"\[([a-z]\w*)")
# Those of scalable vectors tell in the name how wide an element is in memory, and repeat one
# element, a quarter of 64 bytes or half of them.
_STRUCTURE = re.compile(
    r"(?:ld|st)(?:ff|nf|nt)?[1-4](?P<repeated>r(?P<part>[qo]?))?(?:s?(?P<width>[bhwd]))?$"
)
_PART_BYTES = {"q": 16, "o": 32}
_WIDTHS = {"b": 1, "h": 2, "w": 4, "d": 8}
_RANGE = re.compile(r"\{\s*(\w)(\d+)\.\w+\s*-\s*\w(\d+)")


@dataclass(frozen=True)
class Instruction:
    """What an instruction does once.

    Attributes
    ----------
    kind
        One of :data:`KINDS`. Moves are those within vectors and to and from them.
    loaded, stored
        Bytes.
    products
        Products that it adds to sums: 4 of ``fmla v0.4s, ...``.
    base
        The register that addresses memory; empty without.
    """

    kind: str
    loaded: int = 0
    stored: int = 0
    products: int = 0
    base: str = ""


@functools.lru_cache(maxsize=1 << 18)
def classify(text: str, scalable_bytes: int = 16) -> Instruction:
    """Return what the instruction `text` does.

    Parameters
    ----------
    text
        As LLVM writes it: ``ldp q0, q1, [x8, #32]``.
    scalable_bytes
        Bytes of a scalable (SVE) vector.
    """
    name, _, operands = text.replace("\t", " ").partition(" ")
    name = name.lower()
    if _BRANCH.match(name):
        return Instruction(BRANCH)
    if "[" in operands and (_LOAD.match(name) or _STORE.match(name) or _ATOMIC.match(name)):
        return _memory(name, operands, scalable_bytes)
    if _MULTIPLY_ADD.match(name) and _is_vector(operands):
        return Instruction(MULTIPLY_ADD, products=_products(name, operands, scalable_bytes))
    if _MOVE.match(name) and _is_vector(operands):
        return Instruction(MOVE)
    return Instruction(VECTOR if _is_vector(operands) else OTHER)


def _is_vector(operands: str) -> bool:
    return _VECTOR_OPERAND.search(operands) is not None


def _memory(name: str, operands: str, scalable_bytes: int) -> Instruction:
    inside = _BASE.search(operands)
    base = inside.group(1) if inside else ""
    size = _memory_bytes(name, operands.partition("[")[0], operands, scalable_bytes)
    if _ATOMIC.match(name):
        return Instruction(LOAD, loaded=size, stored=size, base=base)
    if name.startswith("ld"):
        return Instruction(LOAD, loaded=size, base=base)
    return Instruction(STORE, stored=size, base=base)


def _memory_bytes(name: str, registers: str, operands: str, scalable_bytes: int) -> int:
    """Return what a load or store moves."""
    structure = _STRUCTURE.match(name)
    if structure and "{" in operands:
        return _structure_bytes(structure, operands, scalable_bytes)
    found = list(_REGISTER.finditer(registers))
    atomic = _ATOMIC.match(name)
    if atomic:
        each = _WIDTHS.get(atomic["narrow"]) or REGISTER_BYTES[found[-1]["letter"]]
        return each * (2 if atomic["pair"] else 1)
    if name.startswith(("stx", "stlx")):
        found = found[1:]  # the first tells whether it succeeded
    narrow = _HAS_NARROW.match(name) and next((n for p, n in _NARROW if p.search(name)), None)
    total = 0
    for register in found:
        letter = register["letter"]
        total += narrow or (scalable_bytes if letter == "z" else REGISTER_BYTES[letter])
    return total


def _structure_bytes(match: re.Match[str], operands: str, scalable_bytes: int) -> int:
    """Return what ``ld1`` to ``st4`` move: whole registers, a lane of each, or one for all.

    Of scalable vectors all lanes count, whatever the predicate.
    """
    inside, _, behind = operands.partition("}")
    registers = list(_REGISTER.finditer(inside))
    spread = _RANGE.search(inside)
    count = int(spread[3]) - int(spread[2]) + 1 if spread else len(registers)
    first = registers[0]
    lane = REGISTER_BYTES[first["kind"]] if first["kind"] else REGISTER_BYTES["q"]
    width = _WIDTHS.get(match["width"], lane)
    if match["repeated"] or re.match(r"\[\d+\]", behind):
        return count * _PART_BYTES.get(match["part"], width)
    if first["letter"] == "z":
        return count * scalable_bytes // lane * width
    return count * int(first["lanes"] or 1) * lane


def _products(name: str, operands: str, scalable_bytes: int) -> int:
    sums = _REGISTER.search(operands)
    if sums is None:
        return 0
    lanes = 1
    if sums["letter"] == "z":
        lanes = scalable_bytes // REGISTER_BYTES[sums["kind"] or "q"]
    elif sums["lanes"]:
        lanes = int(sums["lanes"])
    return lanes * PRODUCTS_IN_A_LANE.get(name, 1)
