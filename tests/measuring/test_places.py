from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import tvm

from tvm_fusionx.measuring.places import (
    costs_path,
    data_folder,
    database_path,
    setting_of,
    versions,
)
from tvm_fusionx.records.device import processor_name
from tvm_fusionx.schedules import resolve_target, target_key

TARGET = "llvm -mcpu=native"


def test_the_folder_is_the_systems_or_the_users_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TVM_FUSIONX_DATA", raising=False)
    assert "tvm_fusionx" in str(data_folder())
    monkeypatch.setenv("TVM_FUSIONX_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    assert database_path().parent == tmp_path


def test_a_setting_tells_target_threads_device_and_versions() -> None:
    setting = setting_of(TARGET)
    assert setting.target == target_key(resolve_target(TARGET))
    assert setting.threads == tvm.runtime.num_threads()
    assert setting.device == processor_name() != ""
    assert setting.versions == versions()
    assert tvm.__version__ in setting.versions


def test_costs_are_kept_apart_by_what_they_depend_on() -> None:
    setting = setting_of(TARGET)
    assert costs_path(setting) != costs_path(replace(setting, threads=setting.threads + 1))
    assert costs_path(setting) == costs_path(replace(setting, versions="other"))
