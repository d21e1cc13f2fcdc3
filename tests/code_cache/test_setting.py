"""The scope decides where kernels are kept; without one, the environment."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tvm_fusionx.code_cache.setting import VARIABLE, folder_in_use, kernel_cache


def test_scopes_nest_and_end(tmp_path: Path) -> None:
    assert folder_in_use() is None
    with kernel_cache(tmp_path / "one", limit_bytes=5):
        found = folder_in_use()
        assert found is not None
        assert (found.path, found.limit_bytes) == (tmp_path / "one", 5)
        with kernel_cache(use=False):
            assert folder_in_use() is None
        assert folder_in_use() == found
    assert folder_in_use() is None


def test_it_is_on_where_nobody_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVM_FUSIONX_CACHE", str(tmp_path))
    monkeypatch.delenv(VARIABLE)
    found = folder_in_use()
    assert found is not None
    assert found.path == tmp_path / "kernels"


def test_the_environment_may_name_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "of_its_own"))
    found = folder_in_use()
    assert found is not None
    assert found.path == tmp_path / "of_its_own"


def test_a_folder_that_others_may_enter_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    with kernel_cache(tmp_path / "open"), caplog.at_level(logging.WARNING):
        assert folder_in_use() is None
        assert folder_in_use() is None
    assert caplog.text.count("chmod 700") == 1
