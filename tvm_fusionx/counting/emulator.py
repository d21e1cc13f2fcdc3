"""Run a program under qemu-user with the plug-in that counts."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tvm_fusionx.cache_folder import cache_folder
from tvm_fusionx.devices.emulation import EMULATOR, NEEDS, SYSROOT, why_no_emulation
from tvm_fusionx.devices.run_linker import run_linker
from tvm_fusionx.errors import DeviceError, MissingDependencyError, TargetError
from tvm_fusionx.output_file import locked, make_folder, new_file
from tvm_fusionx.processors.rates import LINE_BYTES, core_names, rates_of

PLUGIN_SOURCE = Path(__file__).resolve().parent / "plugin" / "count.c"
PLUGIN = "count.so"
PLUGIN_OPTIONS = ("-O2", "-shared", "-fPIC", "-lpthread")
COMPILER = "gcc"
DIGITS = 12
# An inference of a large model with its caches modelled.
RUN_SECONDS = 7200

# What QEMU says, last of all, of a program that ended so.
ILLEGAL = "uncaught target signal 4"
# Of util-linux, which every Debian has.
TIE = "setpriv"
BY_HAND = "Run it by hand under qemu-aarch64 to see what it says."

KIBI = 1024
VECTOR_BITS = 128
# Arm Cortex-A76 Core Technical Reference Manual, 100798, sections A6.1 and A7.1: 4 ways and 8. The
# other cores' differ little, and so does what crosses.
L1_WAYS, L2_WAYS = 4, 8

# Cores that QEMU does not know, and one that it knows with the same instructions: of Armv8.2-A with
# dot products and half precision the Cortex-A76, of Armv8.0-A the Cortex-A72.
ALIKE = {
    **dict.fromkeys(
        ("cortex-a55", "cortex-a75", "cortex-a77", "cortex-a78", "cortex-x1"), "cortex-a76"
    ),
    "cortex-a73": "cortex-a72",
}
# Beginnings of LLVM's names of Arm's cores.
ARM_CORES = ("cortex-a", "cortex-x", "neoverse-")


@dataclass(frozen=True)
class Caches:
    """Sizes of the caches that are modelled, bytes."""

    l1_bytes: int
    l2_bytes: int

    def options(self) -> str:
        """Return the plug-in's options."""
        first = f"line={LINE_BYTES},l1={self.l1_bytes},l1_ways={L1_WAYS}"
        return f"{first},l2={self.l2_bytes},l2_ways={L2_WAYS}"


def arm_cores() -> tuple[str, ...]:
    """Return the Arm cores that have rows among the processors."""
    return tuple(name for name in core_names() if name.startswith(ARM_CORES))


def check_core(core: str) -> None:
    """Raise TargetError where `core` is no Arm core that is known."""
    if core not in arm_cores():
        raise TargetError(
            f"--cpu {core}",
            expected=f"an Arm core: one of {', '.join(arm_cores())}",
            found="none of them",
            next_step="Name one of these, or add a row to processors.json.",
        )


def caches_of(core: str) -> Caches:
    """Return the caches of a core."""
    rates = rates_of(core)
    return Caches(rates.l1_kib * KIBI, rates.l2_kib * KIBI)


def scalable_bytes_of(core: str) -> int:
    """Return the bytes of a scalable vector on a core."""
    return max(rates_of(core).scalable_bits, VECTOR_BITS) // 8


def emulated_cpu(core: str) -> str:
    """Return what QEMU emulates for a core: itself, one with its instructions, or all of them."""
    if core in _known_cpus():
        return core
    if core in ALIKE:
        return ALIKE[core]
    return f"max,sve-max-vq={scalable_bytes_of(core) * 8 // VECTOR_BITS}"


@functools.cache
def _known_cpus() -> frozenset[str]:
    listed = subprocess.run([EMULATOR, "-cpu", "help"], capture_output=True, text=True, check=False)
    return frozenset(listed.stdout.split())


def require_emulation() -> None:
    """Raise MissingDependencyError where nothing can be counted here."""
    problem = why_no_emulation()
    if problem is None and shutil.which(COMPILER) is None:
        problem = "missing Debian packages: gcc"
    if problem is not None:
        raise MissingDependencyError(
            "counting instructions",
            expected=f"{' and '.join(program for program, _ in NEEDS)}, and {COMPILER}",
            found=problem,
            next_step=f"apt-get install gcc {' '.join(package for _, package in NEEDS)}",
        )


def plugin() -> Path:
    """Return the plug-in that counts, compiled once and kept."""
    source = PLUGIN_SOURCE.read_bytes()
    digest = hashlib.sha256(source + " ".join(PLUGIN_OPTIONS).encode()).hexdigest()[:DIGITS]
    made = cache_folder() / "counting" / f"plugin-{digest}" / PLUGIN
    if made.is_file():
        return made
    make_folder(made.parent)
    with locked(made.parent):
        if not made.is_file():
            with new_file(made) as scratch:
                words = [COMPILER, str(PLUGIN_SOURCE), "-o", str(scratch), *PLUGIN_OPTIONS]
                run_linker(words, "the plug-in that counts")
    return made


def run_counted(
    words: Sequence[str],
    counts: Path,
    core: str,
    *,
    caches: Caches | None,
    environment: Mapping[str, str],
    sysroot: Path = SYSROOT,
) -> None:
    """Run a program for Arm under emulation, on one thread; the plug-in writes `counts`.

    Parameters
    ----------
    words
        The program and its arguments.
    core
        LLVM's name of the core to emulate.
    caches
        The caches to model; without, the program runs twice as fast.
    environment
        Variables of the program, beside those that say one thread.
    sysroot
        Where it finds its libraries.

    Raises
    ------
    MissingDependencyError
        The emulator or a compiler are missing.
    DeviceError
        The program failed, or took hours.
    """
    # QEMU takes a comma for the end of an option, and two for one of a name.
    made, told = (str(path).replace(",", ",,") for path in (plugin(), counts))
    options = f"{made},out={told}" + (f",{caches.options()}" if caches is not None else "")
    run_emulated(words, core, ["-plugin", options], environment, sysroot)


def run_emulated(
    words: Sequence[str],
    core: str,
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    sysroot: Path = SYSROOT,
) -> str:
    """Run a program for Arm under emulation, on one thread, and return what it prints.

    Parameters
    ----------
    options
        Of the emulator.
    words, core, environment, sysroot
        As for :func:`run_counted`, which raises the same.
    """
    require_emulation()
    command = [*_tied(), EMULATOR, "-cpu", emulated_cpu(core), "-L", str(sysroot)]
    command += [*options, *words]
    one_thread = dict.fromkeys(("TVM_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    try:
        ended = subprocess.run(
            command,
            env={"PATH": os.environ.get("PATH", ""), **one_thread, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=RUN_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _failed(words, f"none within {RUN_SECONDS} s") from error
    if ended.returncode != 0:
        said = [line for line in ended.stderr.splitlines() if line.strip()]
        found = said[-1].strip() if said else f"exit code {ended.returncode}"
        if ILLEGAL in found:
            raise _failed(
                words,
                f"an instruction that QEMU's {emulated_cpu(core)} does not have",
                f"Compile for {core}, or count on a core that has what the code was compiled for.",
            )
        raise _failed(words, found)
    return ended.stdout


def _tied() -> tuple[str, ...]:
    """Return what makes a program end with this one, which may be ended without a word."""
    found = shutil.which(TIE)
    return (found, "--pdeathsig", "KILL") if found is not None else ()


def _failed(words: Sequence[str], found: str, next_step: str = BY_HAND) -> DeviceError:
    return DeviceError(
        f"emulated program {Path(words[0]).name}",
        expected="an inference between the marks",
        found=found,
        next_step=next_step,
    )
