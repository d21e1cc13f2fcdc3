"""setup.py: what it ships is there, and what it needs is pinned."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tvm_fusionx.runtime.pool_library import library_name

setuptools = pytest.importorskip("setuptools", reason="setuptools is not installed")

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tvm_fusionx"


@pytest.fixture(name="arguments")
def fixture_arguments(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return what setup.py passes to setuptools."""
    caught: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", caught.update)
    monkeypatch.chdir(ROOT)
    runpy.run_path(str(ROOT / "setup.py"))
    return caught


def normal(requirement: str) -> str:
    """Return the package a requirement names, as constraints.txt spells it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[<>=;\[ ]", requirement)[0]).lower()


def pins() -> dict[str, list[str]]:
    """Return every pinned version by package."""
    found: dict[str, list[str]] = {}
    for line in (ROOT / "requirements" / "constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, version = line.partition(";")[0].strip().partition("==")
            found.setdefault(name, []).append(version)
    return found


def test_every_file_that_is_not_code_is_shipped(arguments: dict[str, Any]) -> None:
    shipped = {
        path
        for pattern in arguments["package_data"]["tvm_fusionx"]
        for path in PACKAGE.glob(pattern)
    }
    others = {
        path
        for path in PACKAGE.rglob("*")
        if path.is_file()
        and path.suffix != ".py"
        and not any(part.startswith((".", "__pycache__")) for part in path.relative_to(ROOT).parts)
    }
    assert others - shipped == set()
    assert PACKAGE / "report" / "explain" / "templates" / "explain.html" in shipped


def test_every_folder_of_code_is_a_package(arguments: dict[str, Any]) -> None:
    folders = {path.parent.relative_to(ROOT) for path in PACKAGE.rglob("*.py")}
    assert {".".join(folder.parts) for folder in folders} == set(arguments["packages"])


def test_the_command_is_installed(arguments: dict[str, Any]) -> None:
    assert arguments["entry_points"]["console_scripts"] == ["fusionx = tvm_fusionx.cli:main"]


def test_every_requirement_is_pinned(arguments: dict[str, Any]) -> None:
    extras = arguments["extras_require"]
    assert set(extras) >= {"tvm", "onnx", "tune", "peers", "zoo", "dev"}
    wanted = {
        normal(requirement)
        for requirements in (arguments["install_requires"], *extras.values())
        for requirement in requirements
    }
    assert wanted - set(pins()) == set()


def test_nothing_for_nvidia_cards_is_pinned() -> None:
    assert [name for name in pins() if name.startswith(("nvidia-", "cuda-", "triton"))] == []


def tracked(*under: str) -> set[str]:
    """Return the files of the repository below folders, or of these names."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *under], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {name for name in listed.stdout.split("\0") if name}


# What setup.py and pip read, and what goes with a package that is passed on.
BESIDE = ("setup.py", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "MANIFEST.in")

BUILD = "from setuptools import build_meta; build_meta.build_{kind}({folder!r})"


def build(kind: str, sources: Path, folder: Path) -> Path:
    """Build an archive of `sources` as pip does, without the network."""
    script = BUILD.format(kind=kind, folder=str(folder))
    subprocess.run([sys.executable, "-c", script], cwd=sources, check=True, capture_output=True)
    (made,) = folder.iterdir()
    return made


@pytest.mark.slow
def test_the_sources_are_whole_and_a_wheel_comes_of_them(tmp_path: Path) -> None:
    clone, unpacked = tmp_path / "clone", tmp_path / "unpacked"
    for name in tracked():
        if not (ROOT / name).is_symlink():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, clone / name)
    (clone / "tvm_fusionx" / "__pycache__").mkdir()
    (clone / "tvm_fusionx" / "__pycache__" / "errors.cpython-311.pyc").touch()
    folders = [tmp_path / kind for kind in ("sdist", "wheel")]
    for folder in folders:
        folder.mkdir()
    with tarfile.open(build("sdist", clone, folders[0])) as archive:
        archive.extractall(unpacked, filter="data")
    (root,) = unpacked.iterdir()
    package = tracked("tvm_fusionx")
    files = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert package | set(BESIDE) <= files
    assert {name for name in files if name.startswith("tvm_fusionx/")} == package
    with zipfile.ZipFile(build("wheel", root, folders[1])) as wheel:
        held = {name for name in wheel.namelist() if name.startswith("tvm_fusionx/")}
    # Compiled for each processor that there is a compiler for.
    compiled = {name for name in held if name.startswith("tvm_fusionx/runtime/compiled/")}
    assert held - compiled == package
    named = {f"linux-{machine}" for machine in ("x86_64", "aarch64")}
    assert {Path(name).name for name in compiled} <= {f"libfusionx_pool-{n}.so" for n in named}
    if os.environ.get("CXX") is None and shutil.which("g++"):
        assert any(name.endswith(library_name()) for name in compiled)


def test_make_builds_a_wheel_and_says_so() -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")
    for words, said in (
        (["-n", "-o", ".venv/made.stamp", "wheel"], "pip wheel .*--no-deps --wheel-dir dist ."),
        (["help"], "make venv +make"),
        (["help"], "make wheel +build"),
    ):
        told = subprocess.run([make, *words], cwd=ROOT, capture_output=True, text=True, check=True)
        assert re.search(said, told.stdout)


def test_the_readme_installs_what_is_there(arguments: dict[str, Any]) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    installed = re.findall(r'pip install "(.*?)\[([a-z,]+)\]"', text)
    assert {where for where, _ in installed} == {
        ".",
        f"dist/tvm_fusionx-{arguments['version']}-py3-none-any.whl",
    }
    for _, extras in installed:
        assert set(extras.split(",")) <= set(arguments["extras_require"])
