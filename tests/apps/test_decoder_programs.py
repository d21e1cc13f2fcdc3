"""What the process compiles that is started for a language model; its errors, in this process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.tiny_llama import Tiny, write_tiny
from tvm_fusionx.apps.compiled_apart import load_compiled
from tvm_fusionx.apps.decoder_programs import WantedDecoder
from tvm_fusionx.apps.model_files import digest_of
from tvm_fusionx.apps.programs import tokens_of
from tvm_fusionx.errors import InputError, ModelError


def _wanted(folder: Path) -> WantedDecoder:
    write_tiny(folder / "tiny.gguf", tiny=Tiny(layers=1))
    (folder / "made").mkdir()
    return WantedDecoder(
        model=str(folder / "tiny.gguf"),
        digest=digest_of(folder / "tiny.gguf"),
        target="llvm",
        folder=str(folder / "made"),
        chunks=(1, 4),
        places=16,
        least_places=1,
        activations="float32",
    )


@pytest.mark.slow
def test_a_program_for_each_size_of_a_step(tmp_path: Path) -> None:
    wanted = _wanted(tmp_path)
    stages: list[str] = []
    wanted.compile_here(stages.append)
    assert stages[0] == "reading the model"
    assert any(stage.startswith("compiling program 2 of 2, kept") for stage in stages)
    assert [tokens_of(each) for each in load_compiled(wanted.folder)] == [1, 4]


def test_a_model_of_shorter_texts_is_refused(tmp_path: Path) -> None:
    wanted = replace(_wanted(tmp_path), places=128, least_places=65)
    with pytest.raises(InputError, match=r"at most 64 tokens, .*; found 65 at least"):
        wanted.compile_here(lambda stage: None)


def test_a_model_that_was_replaced_is_told(tmp_path: Path) -> None:
    wanted = replace(_wanted(tmp_path), digest=digest_of(__file__))
    with pytest.raises(ModelError, match="the file was replaced meanwhile"):
        wanted.compile_here(lambda stage: None)
