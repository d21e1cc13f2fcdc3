"""What holds for all tests of searches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> Iterator[None]:
    """Give torch one thread: threads that wait for each other cost more than these networks."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
