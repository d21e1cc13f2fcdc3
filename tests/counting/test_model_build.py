from __future__ import annotations

from pathlib import Path

import pytest

from tests.counting.test_emulator import require_counting
from tests.tiny_models import perceptron, save
from tvm_fusionx.build.archive import checked_metadata, read_members
from tvm_fusionx.counting.model_build import compile_for_core, target_text
from tvm_fusionx.errors import TargetError


def test_a_model_is_compiled_for_one_core(tmp_path: Path) -> None:
    require_counting()
    model, path, stages = save(perceptron("n"), tmp_path), tmp_path / "m.tar", []
    compile_for_core(
        model,
        path,
        "neoverse-n1",
        shape={"x": (2, 16)},
        on_stage=lambda stage: stages.append(stage),
    )
    metadata = checked_metadata(path, read_members(path))
    assert "-mcpu=neoverse-n1" in metadata["target"]
    assert "-num-cores=1" in metadata["target"]
    assert metadata["inputs"][0]["shape"] == [2, 16]
    assert stages


def test_a_target_may_have_more_features(tmp_path: Path) -> None:
    require_counting()
    model, path = save(perceptron(), tmp_path), tmp_path / "m.tar"
    target = f"{target_text('cortex-a76')} -mattr=+bf16"
    compile_for_core(model, path, "cortex-a76", target=target)
    assert "bf16" in checked_metadata(path, read_members(path))["target"]


def test_a_target_of_another_architecture_is_refused(tmp_path: Path) -> None:
    require_counting()
    with pytest.raises(TargetError, match=r"expected one for aarch64.* found 'llvm.*znver4"):
        compile_for_core(
            tmp_path / "m.onnx", tmp_path / "m.tar", "cortex-a76", target="llvm -mcpu=znver4"
        )


def test_other_cores_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="znver4"):
        compile_for_core(tmp_path / "m.onnx", tmp_path / "m.tar", "znver4")
