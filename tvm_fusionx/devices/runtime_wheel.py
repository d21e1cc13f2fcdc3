"""TVM's runtime for another processor: out of the wheel of the installed TVM for that processor."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from importlib import metadata
from pathlib import Path

from tvm_fusionx.cache_folder import cache_folder
from tvm_fusionx.errors import MissingDependencyError
from tvm_fusionx.output_file import make_folder, new_file

DISTRIBUTION = "xtc-tvm-python-bindings"
# The last TVM with Relay; for a TVM that pip did not install.
DEFAULT_VERSION = "0.19.0.12"
RUNTIME = "libtvm_runtime.so"
MEMBER = f"tvm/{RUNTIME}"
# 45 MB over a slow line.
DOWNLOAD_SECONDS = 900


def wheel_version() -> str:
    """Return the version of the TVM distribution that is installed, or the one that is known."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return DEFAULT_VERSION


def runtime_from_wheel(platform_tag: str) -> Path:
    """Return TVM's runtime library for a platform, downloaded once by pip and kept.

    Parameters
    ----------
    platform_tag
        As pip has it, such as ``manylinux_2_28_aarch64``.

    Raises
    ------
    MissingDependencyError
        pip or the network is missing, or there is no such wheel.
    OutputFileError
        The cache folder cannot be written.
    """
    version = wheel_version()
    kept = cache_folder() / "runtime" / f"{version}-{platform_tag}" / RUNTIME
    if kept.is_file():
        return kept
    make_folder(kept.parent)
    # A folder of its own: somebody else may be fetching the same.
    with tempfile.TemporaryDirectory(prefix="fusionx-wheel-") as folder:
        wheel = _download(version, platform_tag, Path(folder))
        try:
            with zipfile.ZipFile(wheel) as archive, new_file(kept) as scratch:
                scratch.write_bytes(archive.read(MEMBER))
        except (zipfile.BadZipFile, KeyError) as error:
            raise _missing(version, platform_tag, f"{wheel.name}: {error}") from error
    return kept


def _download(version: str, platform_tag: str, folder: Path) -> Path:
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    words += ["--disable-pip-version-check", "--platform", platform_tag, "--dest", str(folder)]
    words.append(f"{DISTRIBUTION}=={version}")
    try:
        ended = subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=DOWNLOAD_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _missing(version, platform_tag, str(error)) from error
    wheels = sorted(folder.glob("*.whl"))
    if ended.returncode != 0 or not wheels:
        said = [line for line in ended.stderr.splitlines() if line.strip()]
        raise _missing(version, platform_tag, said[-1].strip() if said else "no file")
    return wheels[0]


def _missing(version: str, platform_tag: str, found: str) -> MissingDependencyError:
    return MissingDependencyError(
        f"TVM's runtime for {platform_tag}",
        expected=f"{MEMBER} in the wheel of {DISTRIBUTION}=={version}",
        found=found,
        next_step="Let pip reach an index that has the wheel, or build the runtime from its "
        "sources with --from-sources.",
    )
