from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.benchmarks.scripts import script
from tests.bundle.small_bundles import bundle, inputs, library, need, run


@pytest.fixture(scope="module", name="bundles")
def fixture_bundles() -> ModuleType:
    pytest.importorskip("onnxruntime")
    return script("bundles")


def test_a_process_is_timed_until_it_answers(bundles: ModuleType, tmp_path: Path) -> None:
    np.savez(tmp_path / "inputs.npz", x=np.zeros(3))
    words = [sys.executable, "-c", bundles.SCRIPTS["bare"] + bundles.TELL, str(tmp_path)]
    found = bundles.one_run(words)
    assert found["start_ms"] > 0
    assert found["VmHWM"] >= found["VmRSS"] > found["RssAnon"] > 0


def test_a_program_of_c_tells_its_memory_too(bundles: ModuleType, tmp_path: Path) -> None:
    need("gcc")
    source = tmp_path / "timed.c"
    source.write_text(bundles.PROGRAM, encoding="utf-8")
    library = bundle() / "libnet.a"
    run(["gcc", source, f"-I{bundle()}", library, "-lm", "-o", tmp_path / "timed"])
    found = bundles.one_run([str(tmp_path / "timed")])  # without files it prints its outputs first
    assert found["VmHWM"] >= found["VmRSS"] > found["RssAnon"] > 0
    with pytest.raises(RuntimeError, match="expected"):
        bundles.one_run([str(tmp_path / "timed"), str(source)])


def test_a_process_that_fails_says_why(bundles: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="ValueError: no"):
        bundles.one_run([sys.executable, "-c", "raise ValueError('no')"])


def test_the_bundle_and_the_executor_are_timed_warm(bundles: ModuleType) -> None:
    x, scale = inputs().values()
    found = bundles._steady(library(), {"x": x, "in/scale": scale}, bundle())
    assert found["bundle"] > 0
    assert found["executor"] > 0
    assert len(found["all"]["bundle"]) == bundles.STEADY_TURNS
