from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tvm_fusionx.counting import arm_root
from tvm_fusionx.counting.arm_root import (
    PARTS,
    ROOT,
    SITE,
    fetch_peers,
    peers_folder,
    python_of,
    root_of,
    why_no_peers,
)
from tvm_fusionx.counting.emulator import arm_cores
from tvm_fusionx.errors import MissingDependencyError


@pytest.fixture(name="calls")
def fixture_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the commands that fetching runs; dpkg-deb and pip leave a file each."""
    monkeypatch.setenv("TVM_FUSIONX_CACHE", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: name)
    made: list[list[str]] = []

    def run(words: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        made.append(list(words))
        if "install" in words and words[0] == "apt-get":
            (cache,) = [word for word in words if word.startswith("--option=Dir::Cache=")]
            (Path(cache.rpartition("=")[2]) / "archives" / "python3.deb").touch()
        if words[0] == "dpkg-deb":
            python = Path(words[-1]) / "usr" / "bin" / "python3.11"
            python.parent.mkdir(parents=True)
            python.touch()
        return subprocess.CompletedProcess(words, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    return made


def test_a_root_and_wheels_are_fetched_once(calls: list[list[str]]) -> None:
    assert "--fetch-peers" in str(why_no_peers())
    stages: list[str] = []
    folder = fetch_peers(stages.append)
    assert folder == peers_folder()
    assert why_no_peers() is None
    assert [words[0] for words in calls[:3]] == ["apt-get", "apt-get", "dpkg-deb"]
    assert all("--option=APT::Architecture=arm64" in words for words in calls[:2])
    assert all("--python-version=3.11" in words for words in calls[3:])
    assert any(word.startswith("onnxruntime==") for word in calls[3])
    assert any(word.startswith("ncnn==") for word in calls[4])
    assert len(stages) == 2
    fetch_peers()
    assert len(calls) == 5


def test_a_root_tells_of_its_core(calls: list[list[str]]) -> None:
    folder = fetch_peers()
    root = root_of("cortex-a76")
    assert python_of(root).is_file()
    assert (root / "usr").resolve() == (folder / ROOT / "usr").resolve()
    told = (root / "proc" / "cpuinfo").read_text()
    assert told.count("CPU part\t: 0xd0b") == 2
    assert "asimddp" in told
    assert "sve" not in told
    assert "sve" in (root_of("neoverse-v1") / "proc" / "cpuinfo").read_text()
    assert "asimdhp" not in (root_of("cortex-a72") / "proc" / "cpuinfo").read_text()
    assert SITE not in [entry.name for entry in root.iterdir()]


def test_every_arm_core_has_its_part() -> None:
    assert set(arm_cores()) <= set(PARTS)


def test_what_cannot_be_fetched_is_told_and_leaves_nothing(
    calls: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(words: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(words, 100, "", "E: no such mirror\n")

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(MissingDependencyError, match="no such mirror"):
        fetch_peers()
    assert not peers_folder().exists()
    monkeypatch.setattr(arm_root.shutil, "which", lambda name: None)
    with pytest.raises(MissingDependencyError, match="no apt-get"):
        fetch_peers()
