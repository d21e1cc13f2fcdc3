"""Run a linker and make one error of what it says."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tvm_fusionx.errors import LinkError
from tvm_fusionx.output_file import check_space


def run_linker(words: Sequence[str], subject: str) -> None:
    """Run a linker; `LinkError` with the first line that it said when it fails.

    `DiskFullError` where it said that.
    """
    ended = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    if ended.returncode != 0:
        check_space(ended.stderr)
        said = [line for line in ended.stderr.splitlines() if line.strip()]
        raise LinkError(
            f"linking for {subject} by {Path(words[0]).name}",
            expected="a shared library of the device",
            found=said[0].strip() if said else f"exit code {ended.returncode}",
            next_step="Build for the device's target, and check the linker that the device names.",
        )
