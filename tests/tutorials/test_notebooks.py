"""Every tutorial runs from its first cell to its last, and is kept with outputs of its code."""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.devices.emulated_board import require_emulation
from tests.tutorials.notebooks import (
    FACTS,
    MADE_OF,
    NOTEBOOKS,
    code_of,
    digest_of,
    execute,
    keep_outputs,
    missing_programs,
    smaller,
)
from tvm_fusionx.devices.emulation import EMULATOR

NUMBERED = 14
LARGEST_STORED_BYTES = 60_000

# What only one machine, or one run, has.
A_PLACE = re.compile(r"(?<![\w.])/(?:tmp|root|home|work|usr/local|opt)/\w|0x[0-9a-f]{8,}")

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed: pip install nbformat")


def test_there_are_tutorials_and_they_are_numbered() -> None:
    numbers = [int(path.name[:2]) for path in NOTEBOOKS]
    assert numbers == list(range(1, NUMBERED + 1))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_kept_with_small_outputs_of_its_own_code(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = code_of(notebook)
    assert notebook.metadata[FACTS].get(MADE_OF) == digest_of(notebook), (
        "its code has changed since its outputs were made: "
        f"python tests/tutorials/notebooks.py {path.name[:2]}"
    )
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert sum(bool(cell.outputs) for cell in code) > len(code) / 2
    kinds = {output.output_type for cell in code for output in cell.outputs}
    assert "error" not in kinds
    told = json.dumps([cell.outputs for cell in code])
    assert not A_PLACE.search(told)
    assert path.stat().st_size < LARGEST_STORED_BYTES


def test_outputs_are_kept_without_places_and_are_renewed_with_the_code(tmp_path: Path) -> None:
    printed = nbformat.v4.new_output("stream", text=f"{tmp_path}/a.txt <Thing at 0x7f00aa00bb00>")
    told = "/tmp/ipykernel_1/23.py:4: a warning"
    warned = nbformat.v4.new_output("stream", name="stderr", text=told)
    shown = nbformat.v4.new_output("display_data", data={"text/plain": f"in {tmp_path}"})
    cell = nbformat.v4.new_code_cell("a = 1", outputs=[printed, shown, warned])
    notebook = nbformat.v4.new_notebook(cells=[cell])
    keep_outputs(notebook, tmp_path)
    assert cell.outputs[0].text == "a.txt <Thing at 0x...>"
    assert cell.outputs[1].data["text/plain"] == "in ."
    assert cell.outputs[2].text == "cell.py:4: a warning"
    assert notebook.metadata[FACTS][MADE_OF] == digest_of(notebook)
    cell.source = "a = 2"
    assert notebook.metadata[FACTS][MADE_OF] != digest_of(notebook)


def test_a_kept_picture_is_small_and_of_the_same_size() -> None:
    pytest.importorskip("PIL.Image")
    from PIL import Image

    noise = np.random.default_rng(0).integers(0, 256, (64, 96, 3))
    drawn = Image.fromarray(noise.astype("uint8"))
    held = io.BytesIO()
    drawn.save(held, "png")
    before = base64.b64encode(held.getvalue()).decode()
    after = smaller(before)
    assert len(after) < len(before) / 3
    assert len(smaller(after)) <= len(after)
    with Image.open(io.BytesIO(base64.b64decode(after))) as opened:
        assert opened.size == (96, 64)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    pytest.importorskip(
        "nbclient", reason="nbclient is not installed: pip install nbclient ipykernel"
    )
    before = nbformat.read(path, as_version=4)
    missing = missing_programs(before)
    if missing:
        pytest.skip(f"missing programs: {' '.join(missing)}")
    if EMULATOR in before.metadata.get(FACTS, {}).get("programs", ()):
        require_emulation()
    code = code_of(execute(path, tmp_path))
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
