"""Build the blocks of a report in a process of its own first.

Attributes that no model has can end a process inside TVM, where no error is raised: a stride of
zero divides by it. Here that is an error of the report, and names the block.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tvm_fusionx.report.slow.fields import damaged
from tvm_fusionx.report.slow.replay import build_block
from tvm_fusionx.report.slow.slow_report import SlowReport, read_slow_report
from tvm_fusionx.schedules import resolve_target

# The largest block of the zoo takes 20 seconds to build on two cores.
SECONDS_A_BLOCK = 120

# A child that an error of ours ends: the parent meets the same one and raises it.
SCRIPT = """
import sys
from tvm_fusionx.errors import FusionXError
from tvm_fusionx.report.slow.tried_apart import build_all
try:
    build_all(sys.argv[1], sys.argv[2])
except FusionXError:
    pass
"""


def try_apart(path: str | Path, report: SlowReport, target: str) -> None:
    """Make sure that building the blocks of a report ends no process.

    Parameters
    ----------
    path
        The file that `report` was read from.
    target
        What it is built for.

    Raises
    ------
    ReportFileError
        The process that built a block was ended, or took too long.
    """
    command = [sys.executable, "-c", SCRIPT, str(path), target]
    seconds = SECONDS_A_BLOCK * max(1, len(report.blocks))
    try:
        ran = subprocess.run(command, capture_output=True, timeout=seconds, check=False)
        told, how = ran.stdout, "" if ran.returncode == 0 else f"it ended with {ran.returncode}"
    except subprocess.TimeoutExpired as error:
        told, how = error.stdout or b"", f"it did not end in {seconds} s"
    if how:
        where = f"report {path}, block {max(0, len(told.split()) - 1)}"
        raise damaged(where, "a block that TVM builds in a process of its own", how)


def build_all(path: str, target: str) -> None:
    """Build each block of a report, telling the number of each on a line before it is begun."""
    resolved = resolve_target(target)
    for place, block in enumerate(read_slow_report(path).blocks):
        sys.stdout.write(f"{place}\n")
        sys.stdout.flush()
        build_block(block, resolved, f"report {path}, block {place}, block")
