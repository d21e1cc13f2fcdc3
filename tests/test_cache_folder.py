from __future__ import annotations

from pathlib import Path

import pytest

from tvm_fusionx.apps import kept_programs
from tvm_fusionx.cache_folder import FOLDER_VARIABLE, cache_folder
from tvm_fusionx.devices.opencl_plugin import opencl_library_path
from tvm_fusionx.runtime.pool_library import built_path


def test_one_variable_moves_all_that_can_be_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.delenv(kept_programs.FOLDER_VARIABLE, raising=False)
    assert cache_folder() == tmp_path
    assert opencl_library_path().parent == tmp_path / "opencl"
    assert built_path().parent == tmp_path / "pool"
    assert kept_programs.programs_folder() == tmp_path / "text"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [None, ""])
def test_without_it_the_system_says_where(
    value: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(FOLDER_VARIABLE, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder().is_relative_to(tmp_path)
    assert cache_folder().name == "tvm_fusionx"
