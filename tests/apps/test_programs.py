"""What is compiled is kept, and found again by what it was made from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tiny_llama import Tiny, write_tiny
from tvm_fusionx.apps.compiled_apart import WEIGHTS
from tvm_fusionx.apps.programs import CACHE, TOKENIZER, TextPrograms, tokens_of
from tvm_fusionx.apps.text_model import TextModel
from tvm_fusionx.errors import InputError, ModelError

pytest.importorskip("tokenizers")

TINY = Tiny(layers=1)


def _programs(folder: Path, stages: list[str], **choices: object) -> TextPrograms:
    return TextPrograms(
        folder / "tiny.gguf",
        **{  # type: ignore[arg-type]
            "folder": folder / "kept",
            "chunks": (1,),
            "buckets": (16, 128),
            "on_stage": stages.append,
            **choices,
        },
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


@pytest.mark.slow
def test_a_model_of_short_texts_has_a_cache_as_long(tmp_path: Path) -> None:
    write_tiny(tmp_path / "tiny.gguf", tiny=TINY)
    model = TextModel(_programs(tmp_path, [], buckets=(128,)))
    model.reserve(64)
    with pytest.raises(InputError, match=r"at most 64 tokens.* the model knows no more; found 65"):
        model.reserve(65)
    assert model.read([3] * 64).shape == (TINY.vocabulary,)


def test_a_model_that_was_replaced_keeps_no_tokenizer(tmp_path: Path) -> None:
    write_tiny(tmp_path / "tiny.gguf", tiny=TINY)
    programs = _programs(tmp_path, [])
    write_tiny(tmp_path / "tiny.gguf", ("Q4_0", "Q8_0"), TINY)
    with pytest.raises(ModelError, match="the file was replaced meanwhile"):
        programs.tokenizer()
    assert [*programs.own_folder.parent.iterdir()] == []


@pytest.mark.slow
def test_a_model_that_is_refused_leaves_nothing(tmp_path: Path) -> None:
    write_tiny(tmp_path / "tiny.gguf", tiny=TINY)
    programs = _programs(tmp_path, [], buckets=(16, 64, 128))
    with pytest.raises(InputError, match=r"at most 64 tokens.* knows no more; found 65 at least"):
        programs.libraries(128)
    assert [*(tmp_path / "kept").iterdir()] == []
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF and no more")
    with pytest.raises(ModelError):
        _programs(tmp_path, []).tokenizer()
    assert [*(tmp_path / "kept").iterdir()] == []


def test_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="expected a GGUF file; found no such file"):
        _programs(tmp_path, [])
    with pytest.raises(ModelError, match="expected a GGUF file; found something else"):
        TextPrograms(tmp_path)
