"""Words of A64 code as text, by LLVM's disassembler."""

from __future__ import annotations

import re
import struct
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tvm_fusionx.counting.llvm_tools import run_tool

WORD_BYTES = 4
_LINE = re.compile(r"\s*(?P<address>[0-9a-f]+):\s+(?P<word>[0-9a-f]{8})\s+(?P<text>.*)$")
_SYMBOL = re.compile(r"[0-9a-f]+ <(?P<name>[^>]+)>:$")
_SYMBOL_REMARK = re.compile(r"\s*<[^>]*>\s*$")
UNKNOWN = "udf"
WHOLE = ("--disassemble-all", "--disassemble-zeroes")
OPTIONS = ("--mattr=+all", "--no-print-imm-hex")


@dataclass(frozen=True)
class Line:
    """An instruction: where it lies, its word, and its text; targets of branches are addresses."""

    address: int
    word: int
    text: str


def disassemble(words: Sequence[int], address: int = 0) -> list[Line]:
    """Return code that lies at `address`, word by word; what is no instruction is ``udf``."""
    if not words:
        return []
    with tempfile.TemporaryDirectory(prefix="fusionx-code-") as folder:
        raw, made = Path(folder) / "code.bin", Path(folder) / "code.o"
        raw.write_bytes(struct.pack(f"<{len(words)}I", *words))
        run_tool("llvm-objcopy", ["-I", "binary", "-O", "elf64-littleaarch64", str(raw), str(made)])
        printed = run_tool(
            "llvm-objdump",
            [*WHOLE, *OPTIONS, f"--adjust-vma={address:#x}", str(made)],
        )
    found = {line.address: line for _, lines in read_lines(printed) for line in lines}
    at = [address + WORD_BYTES * place for place in range(len(words))]
    return [
        found.get(each, Line(each, word, UNKNOWN)) for each, word in zip(at, words, strict=True)
    ]


def disassemble_each(words: Iterable[int]) -> dict[int, str]:
    """Return the text of each different word, whatever lies around it."""
    return {line.word: line.text for line in disassemble(sorted(set(words)))}


def disassemble_file(path: str | Path) -> dict[str, list[Line]]:
    """Return the code of each function of an object file or library, by its symbol."""
    printed = run_tool("llvm-objdump", ["--disassemble", *OPTIONS, str(path)])
    return {name: lines for name, lines in read_lines(printed) if lines}


def read_lines(printed: str) -> list[tuple[str, list[Line]]]:
    """Return the symbols that ``llvm-objdump`` printed, each with the code behind it."""
    found: list[tuple[str, list[Line]]] = [("", [])]
    for row in printed.splitlines():
        symbol = _SYMBOL.match(row)
        if symbol is not None:
            found.append((symbol["name"], []))
            continue
        match = _LINE.match(row)
        if match is not None:
            text = _SYMBOL_REMARK.sub("", match["text"].split("//")[0].strip())
            known = UNKNOWN if "<unknown>" in row else text.replace("\t", " ")
            found[-1][1].append(Line(int(match["address"], 16), int(match["word"], 16), known))
    return found
