"""What a virtual machine hides of its processor is not compiled for."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
import tvm
from tvm.target import codegen

from tvm_fusionx.processors import host_cpu
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.processors.host_cpu import flag_names, host_attributes, host_flags
from tvm_fusionx.processors.targets import resolve_target, target_key


def _on(monkeypatch: pytest.MonkeyPatch, path: Path, *hiding: str) -> None:
    """Pretend that this machine is a Zen 4 whose processors hide these flags."""
    every = set(flag_names()["x86_64"].values())
    lines = [f"flags\t\t: {' '.join(sorted(every - set(hidden.split())))}" for hidden in hiding]
    path.write_text("model name : x\n" + "\n\n".join(lines) + "\n")
    monkeypatch.setattr(host_cpu, "CPU_INFO", path)
    monkeypatch.setattr(host_cpu, "may_use_tiles", lambda: True)
    monkeypatch.setattr(host_cpu.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(host_cpu.codegen, "llvm_get_system_cpu", lambda: "znver4")


@pytest.mark.parametrize(
    ("hidden", "lanes", "features"),
    [
        (("",), 16, ()),
        # Those that go with another are not named, nor what the family has not.
        (("avx512f avx512bw avx512_vnni avx512_fp16",), 8, ("-avx512f",)),
        (("avx512_vnni gfni",), 16, ("-avx512vnni", "-gfni")),
        # Of two processors, what either hides.
        (("gfni", "abm"), 16, ("-gfni", "-lzcnt")),
    ],
)
def test_native_leaves_out_what_the_machine_hides(
    hidden: tuple[str, ...],
    lanes: int,
    features: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    _on(monkeypatch, tmp_path / "cpuinfo", *hidden)
    target = resolve_target("llvm -mcpu=native -num-cores=1")
    assert str(target.attrs["mcpu"]) == "znver4"
    assert tuple(map(str, target.attrs.get("mattr", ()))) == features
    assert describe_cpu(target).lanes == lanes
    assert target_key(target) == " ".join(["llvm", "znver4", *features])


def test_given_features_count_after_the_hidden_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _on(monkeypatch, tmp_path / "cpuinfo", "avx512f")
    target = resolve_target("llvm -mattr=+avx512f,-adx -mcpu=native")
    assert [str(each) for each in target.attrs["mattr"]] == ["-avx512f", "+avx512f", "-adx"]
    assert describe_cpu(target).lanes == 16


@pytest.mark.parametrize("model", ["sapphirerapids", "icelake-server", "znver3"])
@pytest.mark.parametrize("told", ["rocketlake", "haswell"])
def test_flags_count_more_than_the_model_that_a_virtual_machine_tells(
    model: str, told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    has = _flags_of(model)
    every = set(flag_names()["x86_64"].values())
    _on(monkeypatch, tmp_path / "cpuinfo", " ".join(every - has))
    monkeypatch.setattr(host_cpu.codegen, "llvm_get_system_cpu", lambda: told)
    name, hidden = host_attributes()
    # Another CPU with the very same flags may come first in the table.
    assert has == _flags_of(name)
    assert hidden == ()


def _flags_of(cpu: str) -> set[str]:
    names = flag_names()["x86_64"]
    target = tvm.target.Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}")
    return {
        names[each] for each in map(str, codegen.llvm_get_cpu_features(target)) if each in names
    }


def test_a_cpu_of_flags_that_no_known_one_has_keeps_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _on(monkeypatch, tmp_path / "cpuinfo", "fma avx512f")
    monkeypatch.setattr(host_cpu.codegen, "llvm_get_system_cpu", lambda: "haswell")
    assert host_attributes() == ("haswell", ("-fma",))


@pytest.mark.parametrize("text", [None, "", "model name : x\n"])
def test_a_machine_that_tells_no_flags_hides_none(
    text: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(host_cpu, "CPU_INFO", tmp_path / "cpuinfo")
    if text is not None:
        (tmp_path / "cpuinfo").write_text(text)
    assert host_attributes() == (codegen.llvm_get_system_cpu(), ())


def test_what_native_compiles_runs_here() -> None:
    target = resolve_target("llvm -mcpu=native")
    flags = host_flags()
    if not flags:
        pytest.skip("this system does not tell its processors' flags")
    names = flag_names().get(platform.machine(), {})
    features = {str(each) for each in codegen.llvm_get_cpu_features(target)}
    assert {names[each] for each in features if each in names} <= flags


def test_llvm_knows_every_feature_of_the_table() -> None:
    for architecture, names in flag_names().items():
        triple = f"llvm -mtriple={architecture}-linux-gnu"
        for feature in names:
            target = tvm.target.Target(f"{triple} -mattr=+{feature}")
            assert feature in {str(each) for each in codegen.llvm_get_cpu_features(target)}, feature
