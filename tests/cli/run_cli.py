"""Run the command line inside the test process."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from tvm_fusionx.cli import main


class Ran(NamedTuple):
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def problem(self) -> str:
        """Return the one sentence of an error, after checking that it is one."""
        assert "Traceback" not in self.err
        (line,) = [line for line in self.err.splitlines() if line.startswith("fusionx: ")]
        return line


def runner(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Return a function that runs ``fusionx`` with its arguments."""

    def run(*arguments: object) -> Ran:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        return Ran(int(ended.value.code or 0), *capsys.readouterr())

    return run
