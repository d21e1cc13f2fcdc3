from __future__ import annotations

import importlib.metadata
import os
import re
import runpy
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

import tvm_fusionx
from tvm_fusionx._tvm.presence import (
    EXTRAS,
    install_command,
    is_the_command,
    missing_package,
    require_relay,
    why_no_relay,
)

ROOT = Path(tvm_fusionx.__file__).resolve().parent.parent


def _python(*arguments: str, path: str) -> subprocess.CompletedProcess[str]:
    """Run an interpreter that sees only the standard library and `path`."""
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-S", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_relay_is_here() -> None:
    assert why_no_relay() is None
    require_relay()


def test_without_tvm_importing_gives_one_sentence() -> None:
    done = _python("-c", "import tvm_fusionx", path=str(ROOT))
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("tvm_fusionx.errors.MissingDependencyError: tvm_fusionx: expected")
    assert "no package named tvm" in last
    assert 'pip install ".[tvm]"' in last


def test_with_a_tvm_without_relay_importing_names_the_folder(tmp_path: Path) -> None:
    (tmp_path / "tvm").mkdir()
    (tmp_path / "tvm" / "__init__.py").write_text("__version__ = '0.25.0'")
    done = _python("-c", "import tvm_fusionx", path=f"{ROOT}{os.pathsep}{tmp_path}")
    last = done.stderr.strip().splitlines()[-1]
    assert "a TVM without Relay (0.20 or later)" in last
    assert str(tmp_path / "tvm") in last


def test_the_error_is_an_import_error() -> None:
    script = "try:\n import tvm_fusionx\nexcept ImportError as error:\n print(error.exit_code)"
    assert _python("-c", script, path=str(ROOT)).stdout.strip() == "3"


@pytest.mark.slow
def test_without_onnx_the_passes_import_and_reading_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['onnx'] = None\n"
        "import tvm_fusionx as fx; print(fx.passes.FuseByMapping.__name__)\n"
        "try:\n fx.from_onnx\nexcept ImportError as error:\n print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    first, second = done.stdout.splitlines()
    assert first == "FuseByMapping"
    assert 'pip install ".[onnx]"' in second


def test_a_missing_package_of_no_extra_is_installed_by_its_own_name() -> None:
    error = missing_package(ModuleNotFoundError("No module named 'abacus'", name="abacus.beads"))
    assert error.next_step == "Install it with: pip install abacus."
    assert error.exit_code == 3


# Packages whose distribution has another name, or comes with another package.
DISTRIBUTIONS = {
    "tvm": "xtc-tvm-python-bindings",
    "PIL": "pillow",
    "safetensors": "transformers",
}


@pytest.mark.parametrize("package", EXTRAS)
def test_the_extra_that_a_hint_names_holds_what_is_missing(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    setuptools = pytest.importorskip("setuptools", reason="setuptools is not installed")
    caught: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", caught.update)
    monkeypatch.chdir(ROOT)
    runpy.run_path("setup.py")
    held = caught["extras_require"][EXTRAS[package]]
    names = {re.split("[<>=;]", requirement)[0] for requirement in held}
    assert DISTRIBUTIONS.get(package, package) in names
    assert f'".[{EXTRAS[package]}]"' in install_command(package)


def test_a_package_that_comes_with_another_is_required_by_it() -> None:
    required = importlib.metadata.requires("transformers") or []
    names = {
        re.split("[^a-z]", requirement)[0] for requirement in required if ";" not in requirement
    }
    with_it = {name for name, by in DISTRIBUTIONS.items() if by == "transformers"}
    assert with_it <= names


def test_no_hint_is_written_by_hand() -> None:
    package = Path(tvm_fusionx.__file__).parent
    by_hand = [
        path.name
        for path in package.rglob("*.py")
        if path.name != "presence.py"
        and re.search(r"tvm-fusionx\[|pip install [\"'.]*\[", path.read_text(encoding="utf-8"))
    ]
    assert by_hand == []


@pytest.mark.parametrize(
    ("program", "answer"),
    [
        ("/venv/bin/fusionx", True),
        ("C:\\env\\fusionx.exe", os.name == "nt"),
        ("fusionx", True),
        ("-m", True),
        ("-c", False),
        ("", False),
        ("/opt/fusionx_demo.py", False),
        ("/usr/bin/pytest", False),
    ],
)
def test_only_our_own_command_may_start_without_relay(
    program: str, answer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [program, "doctor"])
    assert is_the_command() is answer


@pytest.mark.slow
def test_the_doctor_runs_in_an_environment_without_tvm(tmp_path: Path) -> None:
    environment = tmp_path / "env"
    venv.create(environment, with_pip=False)
    # The command line's own dependencies, and nothing else of this environment.
    libraries = next((environment / "lib").glob("python*")) / "site-packages"
    for name in (
        "click",
        "rich",
        "tqdm",
        "pygments",
        "markdown_it",
        "mdurl",
        "numpy",
        "numpy.libs",
        "platformdirs",
    ):
        for entry in map(Path, sys.path):
            if (entry / name).is_dir():
                (libraries / name).symlink_to(entry / name)
                break
    done = subprocess.run(
        [str(environment / "bin" / "python"), "-m", "tvm_fusionx", "doctor"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert "no package named tvm" in done.stdout
    assert "Traceback" not in done.stderr
