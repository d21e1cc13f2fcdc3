from __future__ import annotations

import importlib.util
import json
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


@pytest.fixture(scope="module", name="sides")
def fixture_sides() -> ModuleType:
    return script("bundle_sides")


def test_a_process_is_timed_until_it_answers(sides: ModuleType, tmp_path: Path) -> None:
    np.savez(tmp_path / "inputs.npz", x=np.zeros(3))
    words = [sys.executable, "-c", sides.SCRIPTS["bare"] + sides.TELL, str(tmp_path)]
    found = sides.one_run(words)
    assert found["start_ms"] > 0
    assert found["VmHWM"] >= found["VmRSS"] > found["RssAnon"] > 0


def test_a_program_of_c_tells_its_memory_too(sides: ModuleType, tmp_path: Path) -> None:
    need("gcc")
    source = tmp_path / "timed.c"
    source.write_text(sides.PROGRAM, encoding="utf-8")
    library = bundle() / "libnet.a"
    run(["gcc", source, f"-I{bundle()}", library, "-lm", "-o", tmp_path / "timed"])
    found = sides.one_run([str(tmp_path / "timed")])  # without files it prints its outputs first
    assert found["VmHWM"] >= found["VmRSS"] > found["RssAnon"] > 0
    with pytest.raises(RuntimeError, match="expected"):
        sides.one_run([str(tmp_path / "timed"), str(source)])


def test_a_process_that_fails_says_why(sides: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="ValueError: no"):
        sides.one_run([sys.executable, "-c", "raise ValueError('no')"])


def test_the_bundle_and_the_executor_are_timed_warm(bundles: ModuleType) -> None:
    x, scale = inputs().values()
    found = bundles._steady(library(), {"x": x, "in/scale": scale}, bundle())
    assert found["bundle"] > 0
    assert found["executor"] > 0
    assert len(found["all"]["bundle"]) == bundles.STEADY_TURNS


def test_what_was_prepared_of_the_same_sources_is_not_made_again(
    bundles: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    monkeypatch.setattr(bundles, "PREPARED", tmp_path)
    monkeypatch.setattr(bundles, "prepare", lambda name, folder: made.append(name) or {})
    for digest in ("one", "one", "two"):
        folder = bundles.prepared("net:int8", {"sources": digest})
    assert made == ["net:int8", "net:int8"]
    assert json.loads((folder / bundles.ROW).read_text())["facts"] == {"sources": "two"}


def test_code_of_a_runtime_is_what_its_package_brings(sides: ModuleType) -> None:
    folder = Path(importlib.util.find_spec("numpy").origin).parent
    own = sum(path.stat().st_size for path in folder.rglob("*.so"))
    assert sides.shared_libraries_bytes("numpy") >= own > 0
    assert sides.shared_libraries_bytes("no_such_module") == 0
