"""How much of an arena a run really writes: a bundle that is made, and run in a painted arena."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx.bundle.export import write_bundle
from tvm_fusionx.bundle.toolchain import find_toolchain
from tvm_fusionx.schedules.lowering_log import LoweringLog

# Two paints: what is written cannot equal both.
PAINTS = (0x55, 0xAA)
NAME = "measured"


def written_arena_bytes(library: Any, log: LoweringLog, tasks: int = 1) -> int:
    """Return where the last byte ends that a run on this machine writes in its arena.

    Parameters
    ----------
    library, log
        A graph-executor factory module for this machine's CPU, and the log of its lowering.
    tasks
        As for :func:`tvm_fusionx.bundle.export.export_bundle`.

    Returns
    -------
    int
        At most the plan's ``arena_bytes``: a run that wrote behind them would be no run of the
        plan. Less where the tensor on top ends with padding.

    Raises
    ------
    ModelError, TargetError, LinkError, MissingDependencyError
        As exporting a bundle does.
    """
    with tempfile.TemporaryDirectory(prefix="fusionx-") as place:
        folder = Path(place) / NAME
        write_bundle(library, log, folder, find_toolchain(), tasks=tasks)
        loaded = _loaded(folder / f"{NAME}.py")
        model = loaded.Model()
        inputs = {name: np.zeros(shape, dtype) for name, shape, dtype in loaded.INPUTS}
        written = np.zeros(model._arena.shape, bool)
        for paint in PAINTS:
            model._arena[...] = paint
            model.run(**inputs)
            written |= model._arena != paint
    places = np.flatnonzero(written)
    return int(places[-1]) + 1 if places.size else 0


def _loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"fusionx_{NAME}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
