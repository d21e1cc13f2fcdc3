"""What the parts of a model take of memory: all of it, or what a machine runs between data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm_fusionx.build.memory import ModelMemory, size_text
from tvm_fusionx.report.memory.table import memory_lines


@dataclass(frozen=True)
class Part:
    """A part of a model, or the whole.

    Attributes
    ----------
    name
        Of the model, or of the function that the part is.
    memory
        Its plan.
    written
        Where the last byte ends that a run wrote in its arena; None where there was none.
    """

    name: str
    memory: ModelMemory
    written: int | None = None

    @property
    def lines(self) -> list[str]:
        """Return what it takes, and what a run wrote."""
        lines = memory_lines(self.memory)
        if self.written is not None:
            lines.append(f"a run wrote {size_text(self.written)} of the arena")
        return lines

    @property
    def as_json(self) -> dict[str, Any]:
        """Return the same in plain types."""
        told = self.memory.as_json()
        if self.written is not None:
            told["written_arena_bytes"] = self.written
        return told


def parts_lines(parts: Sequence[Part], reason: str | None) -> list[str]:
    """Return what is told of a model: of the whole, or of the parts that a machine runs.

    Parameters
    ----------
    parts
        One, or those between what the data decides.
    reason
        What the model needs the virtual machine for; None where it needs none.
    """
    if reason is None:
        return [line for part in parts for line in part.lines]
    lines = [
        f"TVM's virtual machine runs it: {reason}",
        "It takes memory as it runs. Parts whose shapes are known, each as if it were alone"
        + (":" if parts else ": none"),
    ]
    for part in parts:
        lines += ["", part.name, *part.lines]
    return lines


def parts_json(parts: Sequence[Part], reason: str | None) -> dict[str, Any]:
    """Return the same in plain types: of the whole as it is, of parts as a list of those."""
    if reason is None:
        return parts[0].as_json
    return {
        "virtual_machine": reason,
        "parts": [{"name": part.name, **part.as_json} for part in parts],
    }
