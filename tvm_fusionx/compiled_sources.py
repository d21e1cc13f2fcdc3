"""C++ of ours, compiled on the user's machine: the OpenCL runtime, the thread pool."""

from __future__ import annotations

import logging
import shlex
import subprocess
from collections.abc import Sequence

from tvm_fusionx.errors import MissingDependencyError

logger = logging.getLogger(__name__)

# A second for the pool on most machines; one that swaps gets minutes.
BUILD_SECONDS = 300.0


def compile_sources(
    words: Sequence[str], what: str, next_step: str, seconds: float = BUILD_SECONDS
) -> None:
    """Run a compiler; what it printed where it failed goes to the log.

    Parameters
    ----------
    words
        The compiler and its arguments.
    what
        What is made, for people.
    next_step
        What one can do where it fails.
    seconds
        After so many it is stopped.

    Raises
    ------
    MissingDependencyError
        It cannot be started, takes longer, or fails: the first error that it named.
    """

    def refuse(found: str) -> MissingDependencyError:
        return MissingDependencyError(
            what, expected="sources that compile", found=found, next_step=next_step
        )

    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=seconds)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise refuse(str(error)) from error
    if done.returncode != 0:
        logger.error("%s\n%s", shlex.join(words), done.stderr)
        lines = [line for line in done.stderr.splitlines() if "error" in line]
        raise refuse(lines[0].strip() if lines else f"exit code {done.returncode}")
