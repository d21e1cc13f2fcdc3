from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tvm_fusionx.search.space_file import parse_space
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


def test_the_training_of_the_how_to_page_runs(tmp_path: Path) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "search-an-architecture.md"
    text = page.read_text(encoding="utf-8")
    code = text.split("```python\n")[1].split("```")[0]
    (tmp_path / "page_training.py").write_text(code)
    space = parse_space(json.loads(text.split("```json\n")[1].split("```")[0]))
    trial = {"share": 0.02, "seed": 0, "folder": str(tmp_path)}
    found = load(str(tmp_path / "page_training.py")).train(next(iter(space.every())), trial)
    assert checked(found) == found
    assert (tmp_path / "weights.npz").is_file()
    assert parse_space(json.loads(text.split("```json\n")[2].split("```")[0])).size() > 0
