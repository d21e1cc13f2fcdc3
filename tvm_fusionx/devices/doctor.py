"""Say what of this machine and environment stands in the way, and what to do about it.

Runs where TVM is missing, broken or doubled: nothing here imports TVM before it is known to be
there.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_fusionx._tvm.presence import INSTALL_ADVICE, install_command, why_no_relay
from tvm_fusionx.runtime.pool_library import pool_library, why_no_pool

if TYPE_CHECKING:
    from tvm_fusionx.devices import Device


class Verdict(Enum):
    """How a check came out."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """One check.

    Attributes
    ----------
    subject
        What was looked at.
    verdict
        ``FAIL`` means that this package cannot work here; ``WARN``, that a part of it cannot.
    found
        What was found.
    advice
        What to do; empty when nothing is to be done.
    """

    subject: str
    verdict: Verdict
    found: str
    advice: str = ""


OLDEST_PYTHON = (3, 10)
NEWEST_PYTHON = (3, 13)

# Distribution -> versions, as a pattern, that are known to work; what it is needed for.
KNOWN_VERSIONS = {
    "numpy": (r"[12]\.", "everything"),
    "onnx": (r"1\.23\.", "reading models"),
    "onnxslim": (r"0\.", "simplifying models"),
    "onnxruntime": (r"1\.", "verifying and comparing"),
    "openvino": (r"20", "comparing"),
    "MNN": (r"3\.", "comparing"),
    "ncnn": (r"1\.", "comparing"),
    "xgboost": (r"[123]\.", "tuning"),
    "gguf": (r"0\.", "language models"),
    "tokenizers": (r"0\.", "language models"),
    "flask": (r"3\.", "the page of serve-demo"),
    "waitress": (r"3\.", "the page of serve-demo"),
}
NEEDED = ("numpy",)

COMPILERS = ("g++", "gcc", "clang++", "clang", "c++", "cc")


def examine() -> list[Finding]:
    """Return every finding, in the order in which a person would fix them.

    A check that itself fails is reported as a failed check, not raised.
    """
    findings: list[Finding] = []
    checks: list[Callable[[], list[Finding]]] = [
        check_python,
        check_tvm,
        check_single_tvm,
        check_tvm_loads,
        check_packages,
        check_threads,
        check_pool,
        check_compiler,
    ]
    for check in checks:
        try:
            findings += check()
        except Exception as error:  # the doctor reports whatever ails the environment
            subject = check.__name__.removeprefix("check_").replace("_", " ")
            findings.append(
                Finding(
                    subject,
                    Verdict.FAIL,
                    f"{type(error).__name__}: {error}",
                    "This check itself failed; please report it.",
                )
            )
    return findings


def examine_device(device: Device) -> list[Finding]:
    """Return what came of every step on the way to a kernel's answer on `device`.

    Stops at the first step that fails. Needs a TVM that works.
    """
    from tvm_fusionx.devices.check_up import check_up

    findings = []
    for step in check_up(device):
        verdict = Verdict.FAIL if step.problem else Verdict.WARN if step.advice else Verdict.OK
        findings.append(Finding(step.subject, verdict, step.found, step.advice))
    return findings


def check_python() -> list[Finding]:
    """Check the interpreter's version."""
    version = sys.version_info[:2]
    found = f"{platform.python_version()} at {sys.executable}"
    if OLDEST_PYTHON <= version <= NEWEST_PYTHON:
        return [Finding("python", Verdict.OK, found)]
    wanted = f"{_dotted(OLDEST_PYTHON)} to {_dotted(NEWEST_PYTHON)}"
    return [Finding("python", Verdict.FAIL, found, f"Make an environment with Python {wanted}.")]


def check_tvm() -> list[Finding]:
    """Check that a TVM with Relay is on the path."""
    problem = why_no_relay()
    if problem is not None:
        return [Finding("tvm", Verdict.FAIL, problem, INSTALL_ADVICE)]
    return [Finding("tvm", Verdict.OK, f"Relay found in {', '.join(map(str, tvm_folders()[:1]))}")]


def check_single_tvm() -> list[Finding]:
    """Check that only one TVM is installed: two overwrite or hide one another."""
    distributions = tvm_distributions()
    folders = tvm_folders()
    names = " ".join(distribution.split()[0] for distribution in distributions)
    findings = []
    if len(distributions) > 1:
        findings.append(
            Finding(
                "one tvm",
                Verdict.FAIL,
                f"{len(distributions)} distributions that all install the package tvm: "
                f"{', '.join(distributions)}",
                f"Uninstall all of them (pip uninstall {names}), then install one.",
            )
        )
    if len(folders) > 1:
        findings.append(
            Finding(
                "one tvm",
                Verdict.FAIL,
                f"{len(folders)} packages named tvm on the path: {', '.join(map(str, folders))}; "
                "the first hides the others",
                "Remove all but one from PYTHONPATH or from the environment.",
            )
        )
    return findings or [
        Finding("one tvm", Verdict.OK, ", ".join(distributions) or "not installed by pip")
    ]


def check_tvm_loads() -> list[Finding]:
    """Check that TVM's libraries load and that it can compile for CPUs."""
    if why_no_relay() is not None:
        return []
    try:
        import tvm
        from tvm.target import codegen
    except Exception as error:  # a broken library raises OSError, a missing dependency ImportError
        return [
            Finding(
                "tvm loads",
                Verdict.FAIL,
                f"{type(error).__name__}: {error}",
                f"Reinstall TVM. {INSTALL_ADVICE}",
            )
        ]
    loads = Finding("tvm loads", Verdict.OK, f"TVM {tvm.__version__}")
    llvm = codegen.llvm_version_major(allow_none=True)
    if llvm is None:
        advice = f"This TVM was built without LLVM. {INSTALL_ADVICE}"
        return [loads, Finding("llvm", Verdict.FAIL, "no LLVM in this TVM", advice)]
    from tvm_fusionx.processors.host_cpu import host_attributes

    cpu, hidden = host_attributes()
    without = f", which hides {' '.join(hidden)}" if hidden else ""
    return [loads, Finding("llvm", Verdict.OK, f"LLVM {llvm}, this CPU is {cpu}{without}")]


def check_packages() -> list[Finding]:
    """Check the versions of the packages that we work with."""
    return [_check_package(name) for name in KNOWN_VERSIONS]


def _check_package(name: str) -> Finding:
    pattern, purpose = KNOWN_VERSIONS[name]
    install = install_command(name)
    trouble = Verdict.FAIL if name in NEEDED else Verdict.WARN
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(name, trouble, f"not installed; needed for {purpose}", f"{install}.")
    if re.match(pattern, version) is None:
        advice = f"Not known to work; a version that is comes by: {install}."
        return Finding(name, trouble, version, advice)
    return Finding(name, Verdict.OK, version)


def check_threads() -> list[Finding]:
    """Check how many cores this process may use, and whether a variable gives TVM fewer."""
    cores = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores
    found = f"{usable} of {cores} logical cores may be used"
    limits = [
        f"{name}={os.environ[name]}"
        for name in ("TVM_NUM_THREADS", "OMP_NUM_THREADS")
        if os.environ.get(name, str(usable)) != str(usable)
    ]
    if limits:
        advice = "Unset it, or make it the number of cores: TVM's pool never grows beyond it."
        return [Finding("threads", Verdict.WARN, f"{found}; {', '.join(limits)}", advice)]
    return [Finding("threads", Verdict.OK, found)]


def check_pool() -> list[Finding]:
    """Check for the thread pool that kernels run on in the place of TVM's."""
    problem = why_no_pool()
    if problem is None:
        return [Finding("thread pool", Verdict.OK, f"fusionx's, {pool_library()}")]
    advice = "Kernels run on TVM's: beside other programs they wait for threads that do not run."
    return [Finding("thread pool", Verdict.WARN, problem, advice)]


def check_compiler() -> list[Finding]:
    """Check for the C++ compiler that links a compiled model into a library."""
    named = os.environ.get("CXX") or os.environ.get("CC")
    candidates = (named,) if named else COMPILERS
    for candidate in candidates:
        program = shutil.which(candidate)
        if program is not None:
            return [Finding("compiler", Verdict.OK, program)]
    return [
        Finding(
            "compiler",
            Verdict.WARN,
            f"none of {', '.join(candidates)}; needed for `fusionx compile`",
            "Install one (Debian: apt-get install g++), or set CXX.",
        )
    ]


def tvm_distributions() -> list[str]:
    """Return name and version of every installed distribution that brings a package ``tvm``."""
    found = set()
    for distribution in metadata.distributions():
        files = distribution.files or []
        top_level = (distribution.read_text("top_level.txt") or "").split()
        brings = "tvm" in top_level or any(
            file.parts[:2] == ("tvm", "__init__.py") for file in files
        )
        if brings:
            found.add(f"{distribution.metadata['Name']} {distribution.version}")
    return sorted(found)


def tvm_folders() -> list[Path]:
    """Return every folder on the import path that holds a package ``tvm``, in import order."""
    folders: list[Path] = []
    for entry in sys.path:
        folder = Path(entry or os.curdir).resolve() / "tvm"
        if (folder / "__init__.py").is_file() and folder not in folders:
            folders.append(folder)
    return folders


def is_fit(findings: list[Finding]) -> bool:
    """Tell whether none of the findings is a failure."""
    return all(finding.verdict is not Verdict.FAIL for finding in findings)


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
