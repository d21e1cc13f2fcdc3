"""Text is shown once it is whole: characters, and what may be a stop word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_fusionx.apps.streaming import TextStream


def test_a_character_waits_for_its_last_byte() -> None:
    stream = TextStream()
    euro = "\u20ac".encode()
    assert [stream.feed(bytes([byte])) for byte in euro] == ["", "", "\u20ac"]


def test_a_character_that_never_ends_is_shown_as_such() -> None:
    stream = TextStream()
    assert stream.feed(b"a\xe2\x82") == "a"
    assert stream.feed(b"", final=True) == "\ufffd"


def test_half_a_stop_word_waits() -> None:
    stream = TextStream(["END", "\n\n"])
    assert stream.feed(b"one E") == "one "
    assert stream.feed(b"ND two") == ""
    assert stream.is_stopped
    assert stream.feed(b"three") == ""


def test_what_was_no_stop_word_is_shown() -> None:
    stream = TextStream(["END"])
    assert stream.feed(b"E") == ""
    assert stream.feed(b"A") == "EA"
    assert stream.feed(b"EN") == ""
    assert stream.feed(b"", final=True) == "EN"
    assert not stream.is_stopped


@given(st.text(max_size=20), st.text("ab", min_size=1, max_size=3), st.integers(1, 4))
def test_pieces_are_the_text_up_to_the_stop(text: str, stop: str, size: int) -> None:
    stream, data = TextStream([stop]), text.encode()
    pieces = [stream.feed(data[at : at + size]) for at in range(0, len(data), size)]
    pieces.append(stream.feed(b"", final=True))
    assert "".join(pieces) == text.partition(stop)[0]


@pytest.mark.parametrize("stops", [[], [""]])
def test_without_stop_words_nothing_waits(stops: list[str]) -> None:
    assert TextStream(stops).feed(b"abc") == "abc"
