from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tests.compress.prune.small_modules import torch
from tvm_fusionx.compress.prune.checkpoint import load_checkpoint, save_checkpoint
from tvm_fusionx.errors import RecordError


class Harmful:
    """What a pickle could run."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (exec, ("raise SystemExit('ran')",))


def test_there_and_back(tmp_path: Path) -> None:
    path = tmp_path / "c.pt"
    assert load_checkpoint(path, "f") is None
    save_checkpoint(path, "f", {"step": 3, "w": [torch.ones(2), None]})
    state = load_checkpoint(path, "f")
    assert state is not None
    assert state["step"] == 3
    assert (state["w"][0] == 1).all()
    assert [each.name for each in tmp_path.iterdir()] == ["c.pt"]


def test_another_runs_state_is_told(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "c.pt", "f", {})
    with pytest.raises(RecordError, match="another configuration"):
        load_checkpoint(tmp_path / "c.pt", "g")
    torch.save({"step": 1}, tmp_path / "d.pt")
    with pytest.raises(RecordError, match="another kind"):
        load_checkpoint(tmp_path / "d.pt", "f")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 half", pickle.dumps(Harmful(), protocol=2)])
def test_a_damaged_or_harmful_file_is_told_and_never_run(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "c.pt").write_bytes(content)
    with pytest.raises(RecordError, match="cannot be read"):
        load_checkpoint(tmp_path / "c.pt", "f")
    torch.save({"step": Harmful()}, tmp_path / "c.pt")
    with pytest.raises(RecordError, match="cannot be read"):
        load_checkpoint(tmp_path / "c.pt", "f")
