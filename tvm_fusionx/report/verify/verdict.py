"""What verification found: a verdict for each block, one for the outputs, and what they mean."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx.errors import WrongResultError
from tvm_fusionx.report.verify.difference import DEFAULT_TOLERANCE, Difference, worst

PLAIN = "plain TVM"
EXACT = "float64"


@dataclass(frozen=True)
class BlockVerdict:
    """One block beside the same arithmetic in plain TVM or in float64, on its true inputs.

    Attributes
    ----------
    name
        The block's name.
    operators
        Names of the model's nodes in it.
    difference
        The worst of its outputs.
    reference
        What it is the difference from: plain TVM, or where that disagrees, float64.
    ok
        Whether the difference is within the tolerance.
    tolerance
        Bound on the difference: of results that lie in 16 bits, a step of their type.
    saturated
        How many numbers of its results are beyond the type they lie in (see `stored_as`), which
        holds its largest number in their place. Of a mask that is meant so.
    stored_as
        The type of these results; else empty.
    """

    name: str
    operators: tuple[str, ...]
    difference: Difference
    ok: bool
    reference: str = PLAIN
    tolerance: float = DEFAULT_TOLERANCE
    saturated: int = 0
    stored_as: str = ""


@dataclass(frozen=True)
class VerifyReport:
    """What :func:`verify` found.

    Attributes
    ----------
    ok
        Whether every block and every output of the model is within the tolerance.
    tolerance
        Bound on :attr:`Difference.max_rel`; integers must be equal.
    reference
        Who gave the end-to-end reference.
    end_to_end
        One difference for each output of the model.
    blocks
        One verdict a block, in execution order.
    reproduction
        Folder of the standalone reproduction of the first wrong block, or None.
    end_to_end_tolerance
        What the model's outputs were held to: `tolerance`, or more where `allowance` says why.
    allowance
        Why the outputs may be further from the reference than `tolerance`; else empty.
    outputs
        What the compiled model computed.
    """

    ok: bool
    tolerance: float
    reference: str
    end_to_end: tuple[Difference, ...]
    blocks: tuple[BlockVerdict, ...]
    reproduction: Path | None = None
    end_to_end_tolerance: float = DEFAULT_TOLERANCE
    allowance: str = ""
    outputs: tuple[np.ndarray, ...] = field(default=(), repr=False, compare=False)

    @property
    def first_wrong(self) -> BlockVerdict | None:
        """Return the first block in execution order that is wrong on its true inputs, or None."""
        return next((block for block in self.blocks if not block.ok), None)

    @property
    def first_saturated(self) -> BlockVerdict | None:
        """Return the first block with results beyond the type they lie in, or None."""
        return next((block for block in self.blocks if block.saturated), None)

    @property
    def worst_end_to_end(self) -> Difference:
        """Return the difference of the output that is furthest from its reference."""
        return worst(list(self.end_to_end))

    def summary(self) -> str:
        """Return the verdict in one sentence."""
        whole = self.worst_end_to_end
        numbers = (
            whole.problem
            or f"max abs {whole.max_abs:.3g}, max rel {whole.max_rel:.3g}, "
            f"cosine {whole.cosine:.9f}, {whole.nans} NaN, {whole.infs} Inf"
        )
        if self.ok:
            return (
                f"All {len(self.blocks)} blocks are within {self.tolerance:g}"
                f"{self._steps_text()}, and all "
                f"{len(self.end_to_end)} outputs within {self.end_to_end_tolerance:.2g} of "
                f"{self.reference} ({numbers}){self._allowance_text()}."
            )
        if self.first_wrong is not None:
            return (
                f"Block {self.first_wrong.name} is the first wrong one (max rel "
                f"{self.first_wrong.difference.max_rel:.3g} on its true inputs); "
                f"end to end: {numbers}."
            )
        if self.first_saturated is not None:
            return (
                f"The outputs differ from {self.reference} ({numbers}){self._allowance_text()}. "
                f"{_saturation_text(self.first_saturated)}"
            )
        return (
            f"The outputs differ from {self.reference} ({numbers}){self._allowance_text()}, "
            "though each block is right on its true inputs: the difference was made by import or "
            "rewriting, before fusion."
        )

    def _steps_text(self) -> str:
        loosest = max((block.tolerance for block in self.blocks), default=self.tolerance)
        return f" or a step of their type, {loosest:.2g}" if loosest > self.tolerance else ""

    def _allowance_text(self) -> str:
        return f"; {self.allowance}" if self.allowance else ""

    def text(self) -> str:
        """Return the report as plain text: the verdict, then one line a block, worst first."""
        rows = sorted(self.blocks, key=lambda block: (block.ok, -block.difference.max_rel))
        lines = [self.summary()]
        for block in rows:
            d = block.difference
            verdict = "ok   " if block.ok else "WRONG"
            lines.append(
                f"{verdict} {block.name}: max abs {d.max_abs:.3g}, max rel {d.max_rel:.3g}, "
                f"cosine {d.cosine:.9f}, {d.nans} NaN, {d.infs} Inf {d.problem}".rstrip()
                + (f", {block.saturated} beyond {block.stored_as}" if block.saturated else "")
            )
        return "\n".join(lines)

    def __str__(self) -> str:
        """Return :meth:`text`."""
        return self.text()

    def to_json(self) -> dict[str, Any]:
        """Return the report as a dictionary that ``json.dumps`` takes."""
        return {
            "ok": self.ok,
            "tolerance": self.tolerance,
            "reference": self.reference,
            "end_to_end_tolerance": self.end_to_end_tolerance,
            "allowance": self.allowance,
            "end_to_end": [difference.to_json() for difference in self.end_to_end],
            "blocks": [
                {
                    "name": block.name,
                    "operators": list(block.operators),
                    "ok": block.ok,
                    "reference": block.reference,
                    "tolerance": block.tolerance,
                    "saturated": block.saturated,
                    **block.difference.to_json(),
                }
                for block in self.blocks
            ],
            "first_wrong": self.first_wrong.name if self.first_wrong else None,
            "reproduction": str(self.reproduction) if self.reproduction else None,
        }

    def save_json(self, path: str | Path) -> None:
        """Write :meth:`to_json` to `path`."""
        Path(path).write_text(json.dumps(self.to_json(), indent=2), encoding="utf-8")

    def raise_if_wrong(self) -> None:
        """Raise when something is outside the tolerance.

        Raises
        ------
        WrongResultError
            With :meth:`summary` as the finding.
        """
        if not self.ok:
            raise WrongResultError(
                "verification",
                expected=f"every block and output within {self.tolerance:g}",
                found=self.summary(),
                next_step="Run `fusionx verify --bisect` for a standalone reproduction.",
            )


def _saturation_text(block: BlockVerdict) -> str:
    """Return which block has results that its type does not hold, and what to do."""
    operators = f" ({', '.join(block.operators)})" if block.operators else ""
    wider = 'precision="bfloat16", which reaches as far as float32, or ' * (
        block.stored_as == "float16"
    )
    return (
        f"Block {block.name}{operators} is the first with results beyond {block.stored_as}: "
        f"{block.saturated} numbers lie there as its largest one. Build with {wider}without "
        "precision, or scale the weights of that block down."
    )
