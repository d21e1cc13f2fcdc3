"""The generated code of bundles, compiled with the sanitizers of addresses and of C's rules."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.benchmarks.scripts import script
from tests.bundle.small_bundles import NAME, answer, compiled, library, run, written_inputs
from tvm_fusionx.bundle.export import export_bundle

HERE = Path(__file__).resolve().parent

pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc"),
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return gcc with sanitizers, as one command."""
    folder = tmp_path_factory.mktemp("compiler")
    pytest.importorskip("onnxruntime")
    program = script("bundle_checks").checking_compiler(folder)
    source = folder / "none.c"
    source.write_text("int main(void) { return 0; }\n", encoding="ascii")
    words = [str(program), str(source), "-o", str(folder / "none")]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("gcc has no sanitizers")
    return str(program)


@pytest.fixture(autouse=True)
def _leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out leaks: the example frees nothing before it ends, and says so."""
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")


@pytest.mark.parametrize("weights", ["embedded", "beside", "streamed"])
def test_a_run_breaks_no_rule(compiler: str, weights: str, tmp_path: Path) -> None:
    folder = tmp_path / NAME
    export_bundle(library(), folder, weights=weights, compiler=compiler)
    program = compiled(folder / "main.c", tmp_path / "main", [folder], [compiler, "-std=c99"])
    assert b"__asan_init" in program.read_bytes()
    file = [] if weights == "embedded" else [folder / f"{NAME}.weights"]
    outs = [tmp_path / f"out{number}" for number in range(4)]
    run([program, *file, *written_inputs(tmp_path), *outs])
    assert tuple(out.read_bytes() for out in outs) == answer()


def test_malformed_calls_break_none(compiler: str, tmp_path: Path) -> None:
    folder = tmp_path / NAME
    export_bundle(library(), folder, compiler=compiler)
    program = compiled(HERE / "guarded.c", tmp_path / "guarded", [folder], [compiler, "-std=c99"])
    run([program, *written_inputs(tmp_path), tmp_path / "out"])
    assert (tmp_path / "out").read_bytes() == b"".join(answer()) * 2
