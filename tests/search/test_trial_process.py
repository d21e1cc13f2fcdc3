from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tvm_fusionx.search.trial_process import checked, load


def test_a_file_is_imported_with_what_lies_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.path", [])
    (tmp_path / "beside_it.py").write_text("VALUE = 3\n")
    (tmp_path / "a_training.py").write_text(
        "import beside_it\n\ndef train():\n    return beside_it.VALUE\n"
    )
    assert load(str(tmp_path / "a_training.py")).train() == 3


@pytest.mark.parametrize("returned", [None, {}, {"accuracy": "high"}])
def test_a_training_must_tell_its_accuracy(returned: Any) -> None:
    with pytest.raises(ValueError, match="dictionary with accuracy"):
        checked(returned)


@pytest.mark.parametrize("accuracy", [float("nan"), -0.1, 71.3])
def test_accuracy_is_a_share(accuracy: float) -> None:
    with pytest.raises(ValueError, match="0 to 1"):
        checked({"accuracy": accuracy})


def test_it_ends_where_its_parent_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    from tvm_fusionx.search import trial_process

    class EndedError(Exception):
        pass

    def end(code: int) -> None:
        raise EndedError(code)

    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(trial_process.sys, "platform", "another")
    with pytest.raises(EndedError):
        trial_process.end_with(os.getppid() + 1)
    trial_process.end_with(os.getppid())
