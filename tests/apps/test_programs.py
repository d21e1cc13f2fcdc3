"""What is compiled is kept, and found again by what it was made from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tiny_llama import Tiny, write_tiny
from tvm_fusionx.apps.compiled_apart import WEIGHTS
from tvm_fusionx.apps.programs import (
    CACHE,
    TOKENIZER,
    TextPrograms,
    programs_folder,
    tokens_of,
)
from tvm_fusionx.errors import InputError, ModelError

pytest.importorskip("tokenizers")

TINY = Tiny(layers=1)


def _programs(folder: Path, stages: list[str], **choices: object) -> TextPrograms:
    return TextPrograms(
        folder / "tiny.gguf",
        folder=folder / "kept",
        chunks=(1,),
        buckets=(16, 128),
        on_stage=stages.append,
        **choices,  # type: ignore[arg-type]
    )


@pytest.mark.slow
def test_a_second_start_compiles_nothing(tmp_path: Path) -> None:
    write_tiny(tmp_path / "tiny.gguf", tiny=TINY)
    stages: list[str] = []
    first = _programs(tmp_path, stages)
    tokenizer = first.tokenizer()
    (library,) = first.libraries(16)
    assert tokens_of(library) == 1
    assert any("compiling program 1 of 1" in stage for stage in stages)
    stages.clear()
    second = _programs(tmp_path, stages)
    assert second.own_folder == first.own_folder
    assert {path.name for path in second.own_folder.iterdir()} == {TOKENIZER, CACHE.format(16)}
    assert second.tokenizer() == tokenizer
    assert len(second.libraries(16)) == 1
    assert stages == ["loading"]
    for damaged in ("{}", '{"definition": "{}", "begin": null, "ends": [], "template": null}'):
        (second.own_folder / TOKENIZER).write_text(damaged)
        assert second.tokenizer() == tokenizer
    weights = second.own_folder / CACHE.format(16) / WEIGHTS
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + b"\1")
    stages.clear()
    assert len(second.libraries(16)) == 1
    assert "compiling again: what was kept is damaged" in stages
    assert weights.read_bytes() == whole


def test_another_model_or_target_has_a_folder_of_its_own(tmp_path: Path) -> None:
    write_tiny(tmp_path / "tiny.gguf", tiny=TINY)
    first = _programs(tmp_path, [])
    assert _programs(tmp_path, [], target="llvm").own_folder != first.own_folder
    write_tiny(tmp_path / "tiny.gguf", ("Q4_0", "Q8_0"), TINY)
    assert _programs(tmp_path, []).own_folder != first.own_folder


def test_other_activations_have_a_folder_of_their_own(tmp_path: Path) -> None:
    write_tiny(tmp_path / "tiny.gguf", tiny=TINY)
    folders = {_programs(tmp_path, [], activations=each).own_folder for each in ("float32", "int8")}
    assert len(folders) == 2


def test_bytes_are_multiplied_where_the_processor_does_it(tmp_path: Path) -> None:
    write_tiny(tmp_path / "tiny.gguf", tiny=TINY)
    for target, expected in (
        ("llvm -mcpu=cascadelake", "int8"),
        ("llvm -mcpu=haswell", "float32"),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76", "int8"),
    ):
        assert _programs(tmp_path, [], target=target).activations == expected


def test_texts_go_to_the_smallest_cache(tmp_path: Path) -> None:
    write_tiny(tmp_path / "tiny.gguf", tiny=TINY)
    programs = _programs(tmp_path, [])
    assert [programs.bucket_for(tokens) for tokens in (1, 16, 17)] == [16, 16, 128]
    with pytest.raises(InputError, match="at most 128 tokens"):
        programs.bucket_for(129)
    with pytest.raises(ModelError, match="one of texts of 128 tokens; found 64"):
        programs.libraries(128)


def test_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="expected a GGUF file; found no such file"):
        _programs(tmp_path, [])


def test_the_folder_can_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_FUSIONX_TEXT", str(tmp_path))
    assert programs_folder() == tmp_path
    monkeypatch.delenv("TVM_FUSIONX_TEXT")
    assert programs_folder().name == "text"
