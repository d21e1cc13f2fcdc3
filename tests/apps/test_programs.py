"""What is compiled is kept, and found again by what it was made from."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.tiny_llama import Tiny, write_tiny
from tvm_fusionx.apps import programs as programs_module
from tvm_fusionx.apps.compiled_apart import WEIGHTS, Wanted
from tvm_fusionx.apps.programs import (
    CACHE,
    TOKENIZER,
    TextPrograms,
    programs_folder,
    tokens_of,
)
from tvm_fusionx.apps.text_model import TextModel
from tvm_fusionx.errors import InputError, ModelError, OutputFileError

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
    with pytest.raises(InputError, match=r"at most 64 tokens.* knows no more; found 65 at least"):
        _programs(tmp_path, [], buckets=(16, 64, 128)).libraries(128)


@pytest.mark.slow
def test_a_model_of_short_texts_has_a_cache_as_long(tmp_path: Path) -> None:
    write_tiny(tmp_path / "tiny.gguf", tiny=TINY)
    model = TextModel(_programs(tmp_path, [], buckets=(128,)))
    model.reserve(64)
    with pytest.raises(InputError, match=r"at most 64 tokens.* the model knows no more; found 65"):
        model.reserve(65)
    assert model.read([3] * 64).shape == (TINY.vocabulary,)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Wanted]:
    """Compile nothing; return what would have been."""
    found: list[Wanted] = []

    def note(wanted: Wanted, on_stage: Any) -> None:
        found.append(wanted)
        Path(wanted.folder).mkdir()

    monkeypatch.setattr(programs_module, "compile_apart", note)
    monkeypatch.setattr(programs_module, "load_compiled", lambda kept: ("a library",))
    return found


def test_two_at_once_compile_once(
    tmp_path: Path, compiled: list[Wanted], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tiny(tmp_path / "tiny.gguf", tiny=TINY)
    waits = threading.Event()
    stages: list[str] = []

    def say(stage: str) -> None:
        stages.append(stage)
        if stage.startswith("waiting"):
            waits.set()

    first, second = _programs(tmp_path, []), _programs(tmp_path, [], on_stage=say)
    other = threading.Thread(target=second.libraries, args=(16,))
    compile_now = programs_module.compile_apart

    def slowly(wanted: Wanted, on_stage: Any) -> None:
        other.start()
        assert waits.wait(60)
        compile_now(wanted, on_stage)

    monkeypatch.setattr(programs_module, "compile_apart", slowly)
    assert first.libraries(16) == ("a library",)
    other.join()
    assert len(compiled) == 1
    assert stages == ["waiting for another process, which compiles this model", "loading"]


def test_what_killed_processes_left_is_removed(tmp_path: Path, compiled: list[Wanted]) -> None:
    write_tiny(tmp_path / "tiny.gguf", tiny=TINY)
    programs = _programs(tmp_path, [])
    left = programs.own_folder / f".{CACHE.format(16)}.0123456789abcdef"
    (left / "new").mkdir(parents=True)
    programs.libraries(16)
    assert [path.name for path in programs.own_folder.iterdir()] == [CACHE.format(16)]


def test_a_folder_that_cannot_be_made_is_told_with_its_variable(tmp_path: Path) -> None:
    write_tiny(tmp_path / "tiny.gguf", tiny=TINY)
    (tmp_path / "kept").write_text("in the way")
    with pytest.raises(OutputFileError, match="TVM_FUSIONX_TEXT=FOLDER keeps compiled models"):
        _programs(tmp_path, [])


def test_a_model_that_was_replaced_keeps_no_tokenizer(tmp_path: Path) -> None:
    write_tiny(tmp_path / "tiny.gguf", tiny=TINY)
    programs = _programs(tmp_path, [])
    write_tiny(tmp_path / "tiny.gguf", ("Q4_0", "Q8_0"), TINY)
    with pytest.raises(ModelError, match="the file was replaced meanwhile"):
        programs.tokenizer()
    assert [*programs.own_folder.iterdir()] == []


def test_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="expected a GGUF file; found no such file"):
        _programs(tmp_path, [])
    with pytest.raises(ModelError, match="expected a GGUF file; found something else"):
        TextPrograms(tmp_path)


def test_the_folder_can_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_FUSIONX_TEXT", str(tmp_path))
    assert programs_folder() == tmp_path
    monkeypatch.delenv("TVM_FUSIONX_TEXT")
    assert programs_folder().name == "text"
