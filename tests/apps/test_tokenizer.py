"""Tokens of text and back, and chats, as a file describes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.tiny_llama import write_tiny
from tvm_fusionx.apps.tokenizer import Tokenizer, from_json, tokenizer_of
from tvm_fusionx.errors import InputError, ModelError
from tvm_fusionx.gguf.read import GgufFile, read_gguf

pytest.importorskip("tokenizers")


@pytest.fixture(name="file")
def fixture_file(tmp_path: Path) -> GgufFile:
    """Return a tiny model's file."""
    write_tiny(tmp_path / "tiny.gguf")
    return read_gguf(tmp_path / "tiny.gguf")


@pytest.fixture(name="tokenizer")
def fixture_tokenizer(file: GgufFile) -> Tokenizer:
    """Return its tokenizer."""
    return tokenizer_of(file)


def test_pairs_are_merged_and_come_back(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.encode("abba d")
    assert [tokenizer.piece(token) for token in tokens] == [b"ab", b"ba", b" ", b"d"]
    assert tokenizer.decode(tokens) == "abba d"


def test_bytes_of_a_character_are_tokens(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.encode("\u00e9")
    assert [tokenizer.piece(token) for token in tokens] == [b"\xc3", b"\xa9"]
    assert tokenizer.decode(tokens) == "\u00e9"


def test_marks_are_tokens_and_no_text(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("<|im_start|>a<|im_end|>") == [1, tokenizer.encode("a")[0], 2]
    assert tokenizer.piece(1) == b""
    assert tokenizer.ends == (2,)
    assert tokenizer.piece(10_000) == b""


@pytest.mark.parametrize("text", ["a\udcffb", "\ud83d"])
def test_halves_of_pairs_are_refused(tokenizer: Tokenizer, text: str) -> None:
    for use in (tokenizer.encode, tokenizer.parts):
        with pytest.raises(InputError, match="whole characters; found half of a pair"):
            use(text)


@pytest.mark.parametrize(
    "text", ["", "\0", "\ufeff", "e\u0301", "\U0001f469\u200d\U0001f680", "\n\t "]
)
def test_odd_text_is_cut_into_tokens(tokenizer: Tokenizer, text: str) -> None:
    assert all(0 <= token < tokenizer.size for token in tokenizer.encode(text))


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("merges", ["a"], "pairs of tokens"),
        ("merges", ["a nowhere"], "pairs of tokens"),
        ("token_type", [1, 1], "types; found 2"),
    ],
)
def test_damaged_vocabularies_are_told(file: GgufFile, key: str, value: Any, told: str) -> None:
    metadata = {**file.metadata, f"tokenizer.ggml.{key}": value}
    with pytest.raises(ModelError, match=told):
        tokenizer_of(replace(file, metadata=metadata))


def test_a_damaged_definition_is_told(tokenizer: Tokenizer) -> None:
    for definition in ("", "{}", tokenizer.definition[:-9]):
        with pytest.raises(ModelError, match="it is damaged"):
            replace(tokenizer, definition=definition)


def test_a_chat_follows_the_template(tokenizer: Tokenizer) -> None:
    text = tokenizer.chat([{"role": "user", "content": "hello"}])
    assert text == "<|im_start|>user hello<|im_end|><|im_start|>assistant "


def test_written_and_read_it_is_the_same(tokenizer: Tokenizer) -> None:
    again = from_json(tokenizer.to_json())
    assert again == tokenizer
    assert again.encode("abba d") == tokenizer.encode("abba d")


def test_a_first_token_where_the_file_asks_for_one(file: GgufFile) -> None:
    held = {**file.metadata, "tokenizer.ggml.add_bos_token": True}
    tokenizer = tokenizer_of(replace(file, metadata=held))
    assert tokenizer.encode("ab")[0] == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [("tokenizer.ggml.model", "llama"), ("tokenizer.ggml.pre", "chatglm-bpe")],
)
def test_other_tokenizers_are_refused(file: GgufFile, key: str, value: Any) -> None:
    held = {**file.metadata, key: value}
    with pytest.raises(ModelError, match=f"key '{key}': expected .*; found '{value}'"):
        tokenizer_of(replace(file, metadata=held))


@pytest.mark.parametrize("template", [None, "{{ raise_exception('no system') }}", "{% if %}"])
def test_a_chat_that_no_template_takes_is_refused(
    tokenizer: Tokenizer, template: str | None
) -> None:
    with pytest.raises(ModelError, match=r"tokenizer\.chat_template"):
        replace(tokenizer, template=template).chat([{"role": "user", "content": "a"}])
