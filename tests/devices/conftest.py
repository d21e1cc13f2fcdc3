"""One emulated board for the tests that leave it as they found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.devices.emulated_board import emulated_boards
from tvm_fusionx.devices.emulation import Emulation


@pytest.fixture(scope="session", name="board")
def fixture_board() -> Iterator[Emulation]:
    """Return a tracker and a board that every test leaves running."""
    with emulated_boards() as emulation:
        yield emulation
