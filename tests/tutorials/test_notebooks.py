"""Every tutorial runs from its first cell to its last, as `make tutorials` runs it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.devices.emulated_board import require_emulation
from tvm_fusionx.devices.emulation import EMULATOR

TUTORIALS = Path(__file__).resolve().parents[2] / "tutorials"
NOTEBOOKS = sorted(TUTORIALS.glob("*.ipynb"))

# Far above what a notebook takes: a cell that hangs must not hold the suite until CI ends it.
CELL_TIMEOUT_SECONDS = 600
NUMBERED = 14
LARGEST_STORED_BYTES = 100_000

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed: pip install nbformat")


def test_there_are_tutorials_and_they_are_numbered() -> None:
    numbers = [int(path.name[:2]) for path in NOTEBOOKS]
    assert numbers == list(range(1, NUMBERED + 1))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_stored_clean(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    stored = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.outputs]
    assert not stored, "clear the outputs before committing"
    assert path.stat().st_size < LARGEST_STORED_BYTES


def _require_programs(names: Sequence[str]) -> None:
    """Skip without the programs that a notebook says it needs."""
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        pytest.skip(f"missing programs: {' '.join(missing)}")
    if EMULATOR in names:
        require_emulation()


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip(
        "nbclient", reason="nbclient is not installed: pip install nbclient ipykernel"
    )
    notebook = nbformat.read(path, as_version=4)
    _require_programs(notebook.metadata.get("fusionx", {}).get("programs", ()))
    # The kernel is a process of its own, in a folder where the checkout is not on the path.
    monkeypatch.setenv("PYTHONPATH", str(TUTORIALS.parent))
    client = nbclient.NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute()
    last = [cell for cell in notebook.cells if cell.cell_type == "code"][-1]
    assert last.execution_count == sum(cell.cell_type == "code" for cell in notebook.cells)
