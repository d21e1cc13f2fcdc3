"""Launch ten million small jobs on the thread pool and check each; then with the thread sanitizer.

python benchmarks/pool_stress.py                    # 10^7 launches as they are shipped
python benchmarks/pool_stress.py --way "thread sanitizer" --launches 1000000
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "tvm_fusionx" / "runtime" / "pool"
PLAIN, SANITIZED = "plain", "thread sanitizer"
# What workers sleep by on systems that are not Linux.
CONDITION, CONDITION_SANITIZED = "condition variable", "condition variable, thread sanitizer"
WAYS = {
    PLAIN: ("-O2",),
    SANITIZED: ("-O1", "-g", "-fsanitize=thread"),
    CONDITION: ("-O2", "-DFUSIONX_WITHOUT_FUTEX"),
    CONDITION_SANITIZED: ("-O1", "-g", "-fsanitize=thread", "-DFUSIONX_WITHOUT_FUTEX"),
}
# The first that can sanitize: of a g++ the library that does it is often missing.
COMPILERS = ("clang++", "clang++-19", "g++")
LIMIT_SECONDS = 7200
LAUNCHES = 10_000_000
# Threads and callers, with a share of all launches each, and changes of the threads meanwhile.
JOBS = ((2, 1, 0.5, 0), (2, 2, 0.2, 200), (4, 3, 0.2, 200), (16, 2, 0.08, 50), (64, 4, 0.02, 20))


def compile_stress(
    way: str, folder: Path, changes: Mapping[str, str] | None = None, compiler: str | None = None
) -> Path:
    """Compile the stress program into `folder`; `changes` of the pool's text must all apply."""
    text = (SOURCES / "pool.cc").read_text(encoding="utf-8")
    for old, new in (changes or {}).items():
        assert old in text, f"pool.cc has no {old!r}"
        text = text.replace(old, new)
    pool, program = folder / "pool.cc", folder / "stress"
    pool.write_text(text, encoding="utf-8")
    compiler = compiler or _compiler(way)
    words = [compiler or "g++", "-std=c++17", "-pthread", *WAYS[way], f"-I{SOURCES}"]
    words += [str(pool), str(SOURCES / "stress.cc"), "-o", str(program)]
    subprocess.run(words, check=True, capture_output=True)
    return program


def run_stress(program: Path, job: Sequence[int]) -> tuple[str, int]:
    """Return what the program printed and its exit status."""
    ended = subprocess.run(
        [str(program), *map(str, job)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=LIMIT_SECONDS,
    )
    return ended.stdout, ended.returncode


def why_not(way: str) -> str | None:
    """Return why the program cannot be compiled and run in that way here, or None."""
    return None if _compiler(way) is not None else f"no compiler with {' '.join(WAYS[way])}"


def _compiler(way: str) -> str | None:
    for compiler in COMPILERS:
        if shutil.which(compiler) is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "main.cc"
            source.write_text("int main() { return 0; }\n")
            words = [compiler, "-pthread", *WAYS[way], str(source), "-o", f"{folder}/main"]
            if subprocess.run(words, check=False, capture_output=True).returncode:
                continue
            # A sanitizer also needs a layout of memory that not every kernel gives.
            if subprocess.run([f"{folder}/main"], check=False, capture_output=True).returncode == 0:
                return compiler
    return None


def main() -> int:
    """Run every job; return 1 where one was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--way", choices=list(WAYS), default=PLAIN)
    parser.add_argument("--launches", type=int, default=LAUNCHES)
    options = parser.parse_args()
    reason = why_not(options.way)
    if reason is not None:
        sys.exit(reason)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        program = compile_stress(options.way, Path(folder))
        for threads, callers, share, changes in JOBS:
            launches = round(options.launches * share)
            said, code = run_stress(program, (threads, callers, launches, changes))
            print(said.strip(), flush=True)
            failed = failed or code != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
