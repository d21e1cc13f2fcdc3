"""Keys differ where code may, and nowhere else."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import tvm

from tests.late_passes.test_lower_kernel import CPU, block
from tvm_fusionx.code_cache import keys as module
from tvm_fusionx.code_cache.keys import block_keys, kernel_keys, symbol_of
from tvm_fusionx.late_passes.context import pass_context
from tvm_fusionx.schedules import resolve_target

ROOT = Path(__file__).resolve().parents[2]


def key(rows: int = 4, target: tvm.target.Target = CPU, denormals: str = "flush") -> str:
    with pass_context(target, "keep" if denormals == "keep" else "flush"):
        return kernel_keys(target, denormals)(block(rows))


def test_equal_blocks_have_one_key_whatever_they_are_called() -> None:
    assert key() == key()
    with pass_context(CPU, "flush"):
        named = kernel_keys(CPU, "flush")(block(4).with_attr("global_symbol", "other"))
    assert named == key()


def test_another_block_target_or_configuration_has_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changed = [key(5), key(denormals="keep"), key(target=resolve_target("llvm -mcpu=skylake"))]
    with tvm.transform.PassContext(config={"tir.disable_vectorize": True}):
        changed.append(key())
    with tvm.transform.PassContext(disabled_pass=["tir.Simplify"]):
        changed.append(key())
    monkeypatch.setattr(module, "VERSION", "0")
    changed.append(key())
    assert len({key(), *changed}) == len(changed)
    monkeypatch.undo()
    assert key() not in changed


def test_sources_of_the_passes_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = key()
    source = tmp_path / "late_passes" / "new_pass.py"
    source.parent.mkdir()
    source.write_text("one")
    monkeypatch.setattr(module, "PACKAGE", tmp_path)
    found = set()
    for text in ("one", "two"):
        source.write_text(text)
        module._sources.cache_clear()
        found.add(key())
    monkeypatch.undo()
    module._sources.cache_clear()
    assert len(found | {before}) == 3
    assert key() == before


def test_a_block_before_it_is_scheduled_has_a_key_of_all_it_depends_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def block_key(text: str = "block", record: str = "", denormals: str = "flush") -> str:
        with pass_context(CPU, "keep" if denormals == "keep" else "flush"):
            return block_keys(CPU, denormals)(text, record)

    first = block_key()
    found = {first, block_key("other"), block_key(record="block"), block_key(denormals="keep")}
    with tvm.transform.PassContext(config={"tir.disable_vectorize": True}):
        found.add(block_key())
    assert len(found) == 5
    assert block_key("1b", "a") != block_key("b", "a1")
    assert block_key() == first
    (tmp_path / "schedules").mkdir()
    for text in ("one", "two"):
        (tmp_path / "schedules" / "new_template.py").write_text(text)
        monkeypatch.setattr(module, "PACKAGE", tmp_path)
        module._all_sources.cache_clear()
        found.add(block_key())
    monkeypatch.undo()
    module._all_sources.cache_clear()
    assert len(found) == 7


def test_another_process_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "5")
    words = "from tests.code_cache.test_keys import key; print(key())"
    done = subprocess.run(
        [sys.executable, "-c", words], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.split() == [key()]


@pytest.mark.parametrize("count", [2, 40])
def test_maps_stand_in_one_order_however_long_they_are(count: int) -> None:
    names = [tvm.tir.Var(f"v{number}", "int32") for number in range(count)]
    placed = tvm.runtime.convert({name: tvm.tir.const(1, "int32") for name in names})
    # All names are numbered before the map, as parameters are before their buffers.
    text = tvm.ir.save_json(tvm.runtime.convert([names, placed]))
    ordered = module._MAP.sub(module._in_order, text)
    (pairs,) = re.findall(r'"type_key": "Map",\s*"data": (\[\(.*?\)\])', ordered)
    keys = [int(pair) for pair in re.findall(r"\((\d+),", pairs)]
    assert len(keys) == count
    assert keys == sorted(keys)


def test_a_symbol_begins_with_our_name() -> None:
    assert symbol_of("ab" * 32) == "fusionx_kernel_" + "ab" * 16
