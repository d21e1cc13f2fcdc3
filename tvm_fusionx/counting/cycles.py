"""Cycles of code on Arm cores, by LLVM's models of their pipelines (llvm-mca).

A model knows ports, latencies and the width of the front end, and takes every access to memory for
a hit in the first-level cache and every branch for foretold. It repeats a piece of code: what is no
loop is thereby overlapped with itself. So cycles are estimates, better for hot loops than for code
that runs once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from tvm_fusionx.counting.llvm_tools import run_tool

# LLVM's models; that of the Cortex-A76, A77 and A78 is Neoverse N1's, and N2's is the A710's.
CYCLE_CORES = ("neoverse-n1", "neoverse-n2", "cortex-a55", "neoverse-v1")
REPEATED = 100
OPTIONS = (
    "--mtriple=aarch64",
    "--mattr=+all",
    "--json",
    "--instruction-info=0",
    "--resource-pressure=0",
    "--skip-unsupported-instructions=any",
)
# What llvm-mca has no model for: branches, and what talks to the system.
_SKIPPED = re.compile(
    r"(?:b|bl|br|blr|ret|cbn?z|tbn?z|bc?\.\w+|svc|mrs|msr|adrp?|hint|nop|udf|brk|dmb|dsb|isb|yield"
    r"|bti|paci?\w*|auti?\w*|dc|ic|rdvl|cntvct)(?: |$)"
)


def cycles_of(pieces: Sequence[Sequence[str]], core: str) -> list[float]:
    """Return the cycles of one turn of each piece of code on `core`.

    Parameters
    ----------
    pieces
        The text of instructions; branches count for nothing.
    core
        LLVM's name of the core, as of :data:`CYCLE_CORES`.

    Raises
    ------
    MissingDependencyError
        There is no llvm-mca, or it does not know the core.
    """
    kept = [[text for text in piece if not _SKIPPED.match(text)] for piece in pieces]
    regions = [place for place, lines in enumerate(kept) if lines]
    if not regions:
        return [0.0] * len(pieces)
    source = []
    for place in regions:
        source += [f"// LLVM-MCA-BEGIN p{place}", *kept[place], "// LLVM-MCA-END"]
    printed = run_tool(
        "llvm-mca",
        [*OPTIONS, f"--mcpu={core}", f"--iterations={REPEATED}"],
        "\n".join(source) + "\n",
    )
    found = [0.0] * len(pieces)
    for region in json.loads(printed)["CodeRegions"]:
        # A piece of which nothing is modelled has no summary.
        summary = region.get("SummaryView")
        if summary is not None:
            found[int(region["Name"][1:])] = summary["TotalCycles"] / REPEATED
    return found
