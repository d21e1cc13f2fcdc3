"""setup.py: what it ships is there, and what it needs is pinned."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

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
