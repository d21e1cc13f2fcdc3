from __future__ import annotations

from typing import Any

import pytest

from tvm_fusionx.compress.prune import words
from tvm_fusionx.errors import InputError

READERS = {"rate": words.number(0, 1, open_end=True), "size": words.whole(1, 9)}


def test_a_table_is_read() -> None:
    assert words.read_table("t", {"size": 3, "rate": 0}, READERS) == {"size": 3, "rate": 0.0}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"siez": 3}, "Did you mean 'size'"),
        ({"xyzzy": 3}, "Leave it out"),
        ({3: 3}, "unknown here"),
        ({"size": 0}, "a whole number from 1 to 9"),
        ({"size": True}, "a whole number"),
        ({"size": 2.5}, "a whole number"),
        ({"rate": 1}, "from 0 below 1"),
        ({"rate": "0.5"}, "found '0.5'"),
        ({"rate": float("nan")}, "found nan"),
        ([], "a table of rate, size"),
    ],
)
def test_what_is_none_is_told(given: Any, told: str) -> None:
    with pytest.raises(InputError) as raised:
        words.read_table("t", given, READERS)
    assert told in str(raised.value)


def test_flags_and_words() -> None:
    assert words.flag(True) is True
    with pytest.raises(ValueError, match="true or false"):
        words.flag(1)
    read = words.one_of("block", "pattern")
    assert read("block") == "block"
    with pytest.raises(ValueError, match="perhaps pattern"):
        read("patern")
