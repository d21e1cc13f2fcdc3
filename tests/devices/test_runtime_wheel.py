from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tvm_fusionx.cache_folder import FOLDER_VARIABLE
from tvm_fusionx.devices import runtime_wheel as module
from tvm_fusionx.devices.runtime_wheel import runtime_from_wheel
from tvm_fusionx.errors import MissingDependencyError

TAG = "manylinux_2_28_aarch64"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))


def pip(monkeypatch: pytest.MonkeyPatch, member: str | None, stderr: str = "") -> list[list[str]]:
    """Put a pip in place that writes a wheel with `member`, or none; return what it is asked."""
    asked: list[list[str]] = []

    def run(words: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append(words)
        if member is not None:
            folder = Path(words[words.index("--dest") + 1])
            with zipfile.ZipFile(folder / "tvm.whl", "w") as archive:
                archive.writestr(member, "the runtime")
        return subprocess.CompletedProcess(words, 0 if member else 1, "", stderr)

    monkeypatch.setattr(module.subprocess, "run", run)
    return asked


def test_the_runtime_is_fetched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = pip(monkeypatch, "tvm/libtvm_runtime.so")
    path = runtime_from_wheel(TAG)
    assert path.read_text() == "the runtime"
    assert runtime_from_wheel(TAG) == path
    assert [path.name for path in path.parent.iterdir()] == ["libtvm_runtime.so"]
    (words,) = asked
    assert f"xtc-tvm-python-bindings=={module.wheel_version()}" in words
    assert TAG in words


@pytest.mark.parametrize(
    ("member", "found"), [(None, "no route to the index"), ("tvm/other.so", "libtvm_runtime")]
)
def test_what_pip_says_is_in_the_error(
    monkeypatch: pytest.MonkeyPatch, member: str | None, found: str
) -> None:
    pip(monkeypatch, member, "WARNING: slow\nERROR: no route to the index\n")
    with pytest.raises(MissingDependencyError, match=f"{found}.*--from-sources"):
        runtime_from_wheel(TAG)
