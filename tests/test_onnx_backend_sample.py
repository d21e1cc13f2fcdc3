"""A fixed sample of ONNX's own tests through the front end and the compiler.

``python benchmarks/onnx_backend.py`` runs all 2,024 of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = Path(__file__).with_suffix("").parent / "onnx_backend_sample.txt"
MUST_PASS = "passed"


def read_sample() -> dict[str, str]:
    """Return the expected outcome of every test in the sample."""
    lines = [line.split() for line in SAMPLE.read_text().splitlines() if line[:1] != "#"]
    return {words[0]: words[1] if len(words) > 1 else MUST_PASS for words in lines}


EXPECTED = read_sample()


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Run the whole sample once, in worker processes that may crash."""
    out = tmp_path_factory.mktemp("onnx_backend") / "verdicts.json"
    script = ROOT / "benchmarks" / "onnx_backend.py"
    command = [sys.executable, script, "--names", SAMPLE, "--json", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert out.is_file(), done.stderr[-2000:]
    return json.loads(out.read_text())


def test_the_sample_is_large_and_mostly_passes() -> None:
    assert len(EXPECTED) == 200
    assert sum(outcome == MUST_PASS for outcome in EXPECTED.values()) > 130


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_onnx_test(name: str, verdicts: dict[str, dict[str, Any]]) -> None:
    verdict = verdicts[name]
    # A test that may be refused may also pass: then the front end has grown.
    assert verdict["outcome"] in (EXPECTED[name], MUST_PASS), verdict["message"]
