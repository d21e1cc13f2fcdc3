"""Run a command on a machine with AVX-512 as if it had AVX2 alone, whatever asks the processor.

    python benchmarks/hidden_features.py python benchmarks/wild.py --target "llvm -mcpu=haswell" ...

``hidden_features.c`` does it in the command's processes and all that they start. What reads
``/proc/cpuinfo`` still sees everything. Exit code 3 where the kernel or the processor cannot hide.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")
FLAG = "cpuid_fault"
CANNOT = 3


def why_not() -> str | None:
    """Return why features cannot be hidden here, or None."""
    told = Path("/proc/cpuinfo")
    if not told.is_file() or FLAG not in told.read_text(encoding="utf-8"):
        return f"the processor's flags lack {FLAG}"
    return None if shutil.which("cc") else "there is no C compiler (cc)"


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of processes that see AVX2 at most; the library goes to `folder`.

    Raises
    ------
    RuntimeError
        Features cannot be hidden here.
    """
    problem = why_not()
    if problem is not None:
        raise RuntimeError(f"AVX-512 cannot be hidden: {problem}")
    library = folder / f"{SOURCE.stem}.so"
    words = ["cc", "-O2", "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(library), str(SOURCE)]
    subprocess.run(words, check=True)
    return {**os.environ, "LD_PRELOAD": str(library.resolve())}


def main(words: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    command = list(sys.argv[1:] if words is None else words)
    if not command:
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        try:
            shown = environment(Path(folder))
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return CANNOT
        return subprocess.run(command, env=shown, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
