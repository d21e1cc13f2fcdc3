"""What whole models execute on an Arm core, against committed figures: 1 % more fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.counting.counted_model import CORE, counted_library
from tests.counting.test_emulator import require_counting
from tvm_fusionx import zoo
from tvm_fusionx.counting.count import count_library
from tvm_fusionx.counting.model_build import compile_for_core

FIGURES = json.loads(Path(__file__).with_name("model_counts.json").read_text(encoding="utf-8"))
WORSE = 1.01
N1 = "neoverse-n1"


def assert_no_worse(name: str, library: Path) -> None:
    """Count a library, and compare with the figures of `name`."""
    total = count_library(library, CORE, with_caches=False, cores=(N1,)).total
    found = {"instructions": total.instructions, N1: round(total.cycles[N1])}
    figures = FIGURES[name]
    worse = {what: count for what, count in found.items() if count > WORSE * figures[what]}
    assert not worse, f"{name}: {found}, over 1 % more than {figures}"


def test_a_tiny_model_executes_no_more_than_it_did() -> None:
    assert_no_worse("perceptron", counted_library())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ppocr-cls"])
def test_a_model_of_the_zoo_executes_no_more_than_it_did(name: str, tmp_path: Path) -> None:
    require_counting()
    exported = zoo.export(name, tmp_path / f"{name}.onnx")
    compile_for_core(exported.path, tmp_path / "m.tar", CORE, shape=exported.shapes)
    assert_no_worse(name, tmp_path / "m.tar")
