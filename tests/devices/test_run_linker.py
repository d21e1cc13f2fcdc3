from __future__ import annotations

import sys

import pytest

from tvm_fusionx.devices.run_linker import run_linker
from tvm_fusionx.errors import LinkError


def test_what_a_linker_says_is_in_the_error() -> None:
    run_linker([sys.executable, "-c", ""], "a test")
    with pytest.raises(LinkError, match=r"a test by python.*found no room left"):
        run_linker([sys.executable, "-c", "raise SystemExit('no room left')"], "a test")
    with pytest.raises(LinkError, match="exit code 3"):
        run_linker([sys.executable, "-c", "raise SystemExit(3)"], "a test")
