from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tests.benchmarks.scripts import script
from tests.bundle.small_bundles import answer, bundle, need, written_inputs


@pytest.fixture(scope="module", name="checks")
def fixture_checks() -> ModuleType:
    pytest.importorskip("onnxruntime")
    return script("bundle_checks")


@pytest.mark.parametrize("weights", ["embedded", "beside"])
def test_an_answer_is_compared(checks: ModuleType, weights: str, tmp_path: Path) -> None:
    need("gcc")
    words = checks.program_of(bundle(weights=weights), "gcc", tmp_path / "main")
    given = written_inputs(tmp_path)
    assert checks.check(words, given, answer()) == "right"
    others = [b"", *answer()[1:]]
    assert checks.check(words, given, others) == "another answer than the graph executor's"


def test_what_a_tool_says_is_told(checks: ModuleType) -> None:
    assert checks.check(["sh", "-c", "echo lost >&2"], [], []) == "lost"
    assert checks.check(["sh", "-c", "echo lost >&2; exit 9"], [], []) == "exit status 9\nlost\n"
