"""A root of Debian for arm64 with Python and the other runtimes, fetched by one command.

Debian's packages come by ``apt-get`` from this machine's sources into a folder of their own, and
are unpacked there: nothing is installed. The runtimes come as wheels from pip's index.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from tvm_fusionx.cache_folder import cache_folder
from tvm_fusionx.counting.emulator import DIGITS
from tvm_fusionx.errors import MissingDependencyError
from tvm_fusionx.output_file import locked, new_folder

DEBIAN_PACKAGES = ("python3", "libstdc++6", "libgomp1")
# Distribution -> the version where this Python has no other; one whose dependencies are not needed
# to run a model is fetched without them.
WHEELS = {"onnxruntime": "1.31.1", "ai-edge-litert": "2.3.0"}
WHEELS_ALONE = {"MNN": "3.6.1", "ncnn": "1.0.20261020"}
# pip takes each tag as it is; these are what such wheels bear, up to the C library of Debian 12.
MANYLINUX = (
    "2014",
    "_2_17",
    "_2_24",
    "_2_26",
    "_2_27",
    "_2_28",
    "_2_31",
    "_2_34",
    "_2_35",
    "_2_36",
)
FETCH_SECONDS = 1800
SITE = "site"
ROOT = "root"
NEEDED = ("apt-get", "dpkg-deb")

# MIDR part numbers of Arm's cores (Linux, arch/arm64/include/asm/cputype.h).
PARTS = {
    "cortex-a53": 0xD03,
    "cortex-a55": 0xD05,
    "cortex-a72": 0xD08,
    "cortex-a73": 0xD09,
    "cortex-a75": 0xD0A,
    "cortex-a76": 0xD0B,
    "neoverse-n1": 0xD0C,
    "cortex-a77": 0xD0D,
    "neoverse-v1": 0xD40,
    "cortex-a78": 0xD41,
    "cortex-x1": 0xD44,
    "cortex-a510": 0xD46,
    "cortex-a710": 0xD47,
    "cortex-x2": 0xD48,
    "neoverse-n2": 0xD49,
    "cortex-a715": 0xD4D,
    "cortex-x3": 0xD4E,
    "neoverse-v2": 0xD4F,
}
# What runtimes read where they do not ask the kernel; two cores, as every phone has at least.
CPU_INFO = """processor\t: {number}
BogoMIPS\t: 52.00
Features\t: {features}
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x4
CPU part\t: {part:#05x}
CPU revision\t: 1

"""
CORES = 2
# Of the Cortex-A53, A72 and A73 (Armv8.0), of the later ones of Armv8.2, and of those with SVE.
FEATURES_8_0 = "fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid"
FEATURES_8_2 = f"{FEATURES_8_0} atomics fphp asimdhp asimdrdm lrcpc dcpop asimddp"
FEATURES_SVE = f"{FEATURES_8_2} fcma jscvt sve i8mm bf16"
WITHOUT_8_2 = ("cortex-a53", "cortex-a72", "cortex-a73")
# Parts from here on have SVE (Neoverse V1), but for the A78 and X1.
FIRST_SVE_PART = 0xD40
WITHOUT_SVE = ("cortex-a78", "cortex-x1")


def peers_folder() -> Path:
    """Return the folder of the root and the wheels; it exists once they were fetched."""
    asked = [*DEBIAN_PACKAGES, *_requirements(WHEELS), *_requirements(WHEELS_ALONE)]
    digest = hashlib.sha256(" ".join(asked).encode()).hexdigest()[:DIGITS]
    return cache_folder() / "counting" / f"peers-{digest}"


def why_no_peers() -> str | None:
    """Return what to do before other runtimes can be counted, or None."""
    if peers_folder().is_dir():
        return None
    return "the arm64 root was not fetched: run `fusionx count --fetch-peers` once"


def fetch_peers(on_stage: Callable[[str], Any] = lambda _: None) -> Path:
    """Fetch root and wheels, unless they are there; return their folder.

    Raises
    ------
    MissingDependencyError
        There is no ``apt-get``, or it or pip cannot fetch what is asked for.
    OutputFileError
        The cache folder cannot be written.
    """
    folder = peers_folder()
    if folder.is_dir():
        return folder
    with locked(folder):
        if not folder.is_dir():
            with new_folder(folder) as scratch:
                on_stage("fetching Debian's packages for arm64")
                _fetch_root(scratch / ROOT)
                on_stage("fetching wheels for aarch64")
                _fetch_wheels(scratch / SITE, _python_version(scratch / ROOT))
    return folder


def root_of(core: str) -> Path:
    """Return the root whose ``/proc/cpuinfo`` tells of two cores of this kind."""
    folder = peers_folder()
    root = folder / f"{ROOT}-{core}"
    if root.is_dir():
        return root
    with locked(root):
        if root.is_dir():
            return root
        with new_folder(root) as scratch:
            for entry in sorted((folder / ROOT).iterdir()):
                (scratch / entry.name).symlink_to(Path("..") / ROOT / entry.name)
            (scratch / "proc").mkdir()
            (scratch / "proc" / "cpuinfo").write_text(_cpu_info(core), encoding="ascii")
    return root


def python_of(root: Path) -> Path:
    """Return the Python of a root."""
    return root / "usr" / "bin" / f"python{_python_version(root)}"


def _cpu_info(core: str) -> str:
    features = FEATURES_8_2
    if core in WITHOUT_8_2:
        features = FEATURES_8_0
    elif PARTS[core] >= FIRST_SVE_PART and core not in WITHOUT_SVE:
        features = FEATURES_SVE
    return "".join(
        CPU_INFO.format(number=number, features=features, part=PARTS[core])
        for number in range(CORES)
    )


def _python_version(root: Path) -> str:
    found = sorted((root / "usr" / "bin").glob("python3.*[0-9]"))
    if not found:
        raise _missing("Debian's python3 for arm64", "no usr/bin/python3.* in the root")
    return found[0].name.removeprefix("python")


def _requirements(wheels: dict[str, str]) -> list[str]:
    """Return what pip is asked for: the versions that are installed here, whose files they read."""
    asked = []
    for name, otherwise in wheels.items():
        try:
            asked.append(f"{name}=={metadata.version(name)}")
        except metadata.PackageNotFoundError:
            asked.append(f"{name}=={otherwise}")
    return asked


def _fetch_root(root: Path) -> None:
    absent = [name for name in NEEDED if shutil.which(name) is None]
    if absent:
        raise _missing("a Debian, or one of its kin", f"no {' and no '.join(absent)}")
    with tempfile.TemporaryDirectory(prefix="fusionx-apt-") as name:
        apt = Path(name)
        for needed in ("state/lists/partial", "cache/archives/partial"):
            (apt / needed).mkdir(parents=True)
        (apt / "status").touch()
        options = {
            "APT::Architecture": "arm64",
            "APT::Architectures": "arm64",
            "APT::Sandbox::User": "root",
            "Dir::State": str(apt / "state"),
            "Dir::State::status": str(apt / "status"),
            "Dir::Cache": str(apt / "cache"),
            "Debug::NoLocking": "1",
        }
        words = ["apt-get", "--quiet", *(f"--option={key}={of}" for key, of in options.items())]
        _run([*words, "update"], "Debian's lists for arm64")
        fetch = ["install", "--yes", "--download-only", "--no-install-recommends"]
        _run([*words, *fetch, *DEBIAN_PACKAGES], "Debian's packages for arm64")
        root.mkdir()
        for package in sorted((apt / "cache" / "archives").glob("*.deb")):
            _run(["dpkg-deb", "--extract", str(package), str(root)], package.name)


def _fetch_wheels(site: Path, python: str) -> None:
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    words += ["--no-warn-conflicts", "--only-binary=:all:", "--implementation=cp"]
    words += [f"--python-version={python}", f"--target={site}", "--upgrade"]
    words += [f"--platform=manylinux{tag}_aarch64" for tag in MANYLINUX]
    _run([*words, *_requirements(WHEELS)], "wheels for aarch64")
    _run([*words, "--no-deps", *_requirements(WHEELS_ALONE)], "wheels for aarch64")


def _run(words: Sequence[str], subject: str) -> None:
    try:
        ended = subprocess.run(
            words,
            env={**os.environ, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=FETCH_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _missing(subject, str(error)) from error
    if ended.returncode != 0:
        said = [line for line in ended.stderr.splitlines() if line.strip()]
        raise _missing(subject, said[-1].strip() if said else f"exit code {ended.returncode}")


def _missing(expected: str, found: str) -> MissingDependencyError:
    return MissingDependencyError(
        "the other runtimes for arm64",
        expected=expected,
        found=found,
        next_step="Let apt-get reach a mirror of Debian that has arm64, and pip its index.",
    )
