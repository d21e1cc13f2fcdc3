"""Start emulated Arm boards for tests, or skip, naming what to install."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache

import pytest

from tvm_fusionx.devices.emulation import Emulation, emulate, emulated_server, why_no_emulation
from tvm_fusionx.errors import MissingDependencyError


@cache
def why_no_board() -> str | None:
    """Return why no Arm board can be emulated here, or None; builds its server the first time."""
    problem = why_no_emulation()
    if problem is not None:
        return problem
    try:
        emulated_server()
    except MissingDependencyError as error:
        return str(error)
    return None


def require_emulation() -> None:
    """Skip where an Arm board cannot be emulated."""
    pytest.importorskip("tvm.rpc.tracker", reason="the RPC tracker needs tornado")
    problem = why_no_board()
    if problem is not None:
        pytest.skip(problem)


@contextlib.contextmanager
def emulated_boards(count: int = 1) -> Iterator[Emulation]:
    """Yield a tracker with `count` boards, or skip."""
    require_emulation()
    with emulate(count) as emulation:
        yield emulation
