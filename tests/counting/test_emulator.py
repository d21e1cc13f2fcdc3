from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.devices.emulated_board import why_no_board
from tvm_fusionx.counting import emulator
from tvm_fusionx.counting.emulator import (
    Caches,
    arm_cores,
    caches_of,
    check_core,
    emulated_cpu,
    plugin,
    require_emulation,
    run_counted,
    run_emulated,
    scalable_bytes_of,
)
from tvm_fusionx.counting.trace import Trace, read_trace
from tvm_fusionx.errors import DeviceError, MissingDependencyError, TargetError

LINES, TURNS = 1024, 1000
# Before counting begins all is touched once; then the part that is read is read again.
PROGRAM = f"""
#include <unistd.h>
static volatile unsigned char data[{LINES} * 64];
int main(int count, char **words) {{
  close(0x7ee10000);
  for (int i = 0; i < {LINES}; i++) data[i * 64];
  close(0x7ee10001);
  for (int i = 0; i < {TURNS}; i++) __asm__ volatile("fmla v0.4s, v1.4s, v2.4s");
  for (int i = 0; i < {LINES}; i++) data[i * 64];
  close(0x7ee10002);
  return count - 1;
}}
"""


def require_counting() -> None:
    """Skip where nothing can be counted."""
    problem = why_no_board()
    if problem is not None or shutil.which("gcc") is None:
        pytest.skip(problem or "missing Debian package: gcc")


@pytest.fixture(scope="module", name="program")
def fixture_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_counting()
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.c").write_text(PROGRAM)
    made = folder / "program"
    words = ["aarch64-linux-gnu-gcc", "-O1", str(folder / "program.c"), "-o", str(made)]
    subprocess.run(words, check=True)
    return made


def traced(program: Path, folder: Path, caches: Caches | None) -> Trace:
    counts = folder / "counts.txt"
    run_counted([str(program)], counts, "cortex-a76", caches=caches, environment={})
    return read_trace(counts)


def test_what_ran_between_the_marks_is_counted_exactly(program: Path, tmp_path: Path) -> None:
    trace = traced(program, tmp_path, None)
    fmla = sum(block.count * block.words.count(0x4E22CC20) for block in trace.blocks)
    assert fmla == TURNS
    assert {block.moved for block in trace.blocks} == {(0, 0, 0, 0)}
    (block,) = [block for block in trace.blocks if 0x4E22CC20 in block.words and block.count > 1]
    mapping = trace.mapping_of(block.address)
    assert mapping is not None
    assert mapping.path == str(program)
    again = traced(program, tmp_path, None)
    assert sorted(block.count for block in again.blocks) == sorted(
        block.count for block in trace.blocks
    )


@pytest.mark.parametrize(
    ("kib", "l1_lines", "l2_lines"),
    [
        ((256, 512), 0, 0),  # it stays where it was
        ((16, 512), LINES, 0),
        ((16, 32), LINES, LINES),
    ],
)
def test_what_does_not_fit_a_cache_crosses_it(
    program: Path, tmp_path: Path, kib: tuple[int, int], l1_lines: int, l2_lines: int
) -> None:
    trace = traced(program, tmp_path, Caches(kib[0] * 1024, kib[1] * 1024))
    l1, l2 = (sum(block.moved[way] for block in trace.blocks) // 64 for way in (0, 2))
    # The stack, and what the program's start left, have a few lines.
    assert l1 == pytest.approx(l1_lines, abs=32)
    assert l2 == pytest.approx(l2_lines, abs=32)


def test_a_program_that_fails_is_told(program: Path, tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="exit code 2"):
        run_counted(
            [str(program), "a", "b"], tmp_path / "c", "cortex-a76", caches=None, environment={}
        )
    assert (tmp_path / "c").is_file()


def test_an_instruction_that_the_core_lacks_is_told(tmp_path: Path) -> None:
    require_counting()
    source, made = tmp_path / "program.c", tmp_path / "program"
    source.write_text('int main(void) { __asm__ volatile(".inst 0x4e829420"); return 0; }')  # sdot
    subprocess.run(["aarch64-linux-gnu-gcc", str(source), "-o", str(made)], check=True)
    run_emulated([str(made)], "cortex-a76")
    with pytest.raises(DeviceError, match=r"QEMU's cortex-a53 does not have.* Compile for cortex"):
        run_emulated([str(made)], "cortex-a53")


WAITING = """
#include <stdio.h>
#include <unistd.h>
int main(int count, char **words) {
  FILE *told = fopen(words[1], "w");
  fprintf(told, "%d\\n", getpid());
  fclose(told);
  return sleep(600);
}
"""
STARTS = """
import sys
from tvm_fusionx.counting.emulator import run_emulated
run_emulated(sys.argv[1:], "cortex-a76")
"""


def _runs(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_the_emulator_ends_with_the_program_that_started_it(tmp_path: Path) -> None:
    require_counting()
    if shutil.which(emulator.TIE) is None:
        pytest.skip("no setpriv")
    source, made, told = tmp_path / "program.c", tmp_path / "program", tmp_path / "told"
    source.write_text(WAITING)
    subprocess.run(["aarch64-linux-gnu-gcc", str(source), "-o", str(made)], check=True)
    with subprocess.Popen([sys.executable, "-c", STARTS, str(made), str(told)]) as started:
        while started.poll() is None and not (told.is_file() and told.read_text().endswith("\n")):
            time.sleep(0.1)
        emulated = int(told.read_text())
        assert _runs(emulated)
        started.terminate()
    deadline = time.monotonic() + 60
    while _runs(emulated) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _runs(emulated)


def test_the_plug_in_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_counting()
    monkeypatch.setenv("TVM_FUSIONX_CACHE", str(tmp_path))
    path = plugin()
    assert path.is_relative_to(tmp_path)
    path.write_text("as it was")
    assert plugin().read_text() == "as it was"


def test_a_folder_may_have_commas_and_spaces_in_its_name(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a, b,,c"
    folder.mkdir()
    monkeypatch.setenv("TVM_FUSIONX_CACHE", str(folder))
    assert traced(program, folder, None).blocks
    assert plugin().is_relative_to(folder)


def test_a_core_is_emulated_by_itself_or_by_one_with_its_instructions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(emulator, "_known_cpus", lambda: frozenset({"cortex-a76", "neoverse-n1"}))
    assert emulated_cpu("neoverse-n1") == "neoverse-n1"
    assert emulated_cpu("cortex-a55") == "cortex-a76"
    assert emulated_cpu("cortex-a73") == "cortex-a72"
    assert emulated_cpu("neoverse-n2") == "max,sve-max-vq=1"
    assert emulated_cpu("neoverse-v1") == "max,sve-max-vq=2"


def test_caches_and_vectors_are_the_cores() -> None:
    assert caches_of("cortex-a76") == Caches(64 * 1024, 256 * 1024)
    assert scalable_bytes_of("cortex-a76") == 16
    assert scalable_bytes_of("neoverse-v1") == 32


def test_only_arm_cores_are_taken() -> None:
    assert "cortex-a76" in arm_cores()
    assert "znver4" not in arm_cores()
    check_core("neoverse-n1")
    with pytest.raises(TargetError, match="cortex-a55"):
        check_core("znver4")


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulator, "why_no_emulation", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(MissingDependencyError, match="apt-get install gcc"):
        require_emulation()
