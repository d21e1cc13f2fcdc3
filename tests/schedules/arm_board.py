"""An emulated Arm board that runs what tests build for it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from tests.devices.emulated_board import emulated_boards
from tvm_fusionx.devices import Device, export_kernel
from tvm_fusionx.report.bench.plain_tvm import load, set_inputs
from tvm_fusionx.tuning.bench import Bench

NEON = "+neon"
# What phones since 2018 have besides (Armv8.2): dot products of bytes, arithmetic in float16.
ARMV82 = "+neon,+dotprod,+fullfp16"
# And those since 2021 (Armv8.6): products of matrices of bytes.
ARMV86 = f"{ARMV82},+i8mm"

SESSION_SECONDS = 600.0


class Board:
    """An emulated board, and what it takes to run blocks on it."""

    def __init__(self, device: Device, folder: Path) -> None:
        self.bench = Bench(replace(device, session_timeout_seconds=SESSION_SECONDS))
        self.folder = folder
        self.count = 0

    def path(self) -> Path:
        """Return where the next library goes."""
        self.count += 1
        return self.folder / f"block_{self.count}.so"

    def run(self, library: Any, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Return the outputs of a factory module there."""
        session = self.bench.session()
        path = export_kernel(library, self.path(), self.bench.device)
        executor = load(session.load(path), session.context)
        set_inputs(executor, inputs)
        executor.run()
        return [executor.get_output(place).numpy() for place in range(executor.get_num_outputs())]


@contextlib.contextmanager
def emulated_arm(folder: Path) -> Iterator[Board]:
    """Start a board, and end it; what it runs is kept in `folder`."""
    with emulated_boards() as emulation:
        board = Board(emulation.device, folder)
        with board.bench:
            yield board


def target_with(device: Device, features: str) -> tvm.target.Target:
    """Return the target of a device that has the features beside, or in the place of, NEON."""
    return replace(device, target=device.target.replace(NEON, features)).tvm_target()
