from __future__ import annotations

import pytest

from tvm_fusionx.bundle.names import (
    LONGEST,
    check_bundle_name,
    class_name,
    distinct_identifiers,
    identifier,
    kotlin_name,
)
from tvm_fusionx.errors import ModelError


@pytest.mark.parametrize(
    ("text", "expected"),
    [("x", "x"), ("in/scale:0", "in_scale_0"), ("1", "t1"), ("", "t"), ("int", "int_"), ("é", "t")],
)
def test_any_text_becomes_a_name(text: str, expected: str) -> None:
    assert identifier(text) == expected


def test_a_class_has_capitals() -> None:
    assert [class_name(name) for name in ("mobilenet-v2", "net", "long")] == [
        "MobilenetV2",
        "Net",
        "LongModel",
    ]


def test_two_names_differ_in_capitals_too() -> None:
    assert distinct_identifiers(["a", "A", "a/", "b"]) == ["a", "A_2", "a_3", "b"]


@pytest.mark.parametrize("name", ["", "2net", "a b", "a/b", "../a", "int", "n" * (LONGEST + 1)])
def test_a_name_of_files_and_symbols_is_plain(name: str) -> None:
    with pytest.raises(ModelError, match="name of the bundle"):
        check_bundle_name(name)
    assert check_bundle_name("mobilenet-v2") == "mobilenet-v2"


@pytest.mark.parametrize("name", ["stdio", "Math", "pool", "fusionx-pool", "all", "m", "features"])
def test_a_name_that_stands_for_something_else_is_refused(name: str) -> None:
    with pytest.raises(ModelError, match=f"of others has; found '{name}'.*such as {name}-model"):
        check_bundle_name(name)
    assert check_bundle_name(f"{name}-model") == f"{name}-model"


def test_words_of_kotlin_are_put_in_quotes() -> None:
    names = [kotlin_name(name) for name in ("x", "in", "object", "var", "Class")]
    assert names == ["x", "`in`", "`object`", "`var`", "Class_"]


def test_macros_of_headers_are_no_names() -> None:
    assert [identifier(name) for name in ("complex", "typeof")] == ["complex_", "typeof_"]


@pytest.mark.parametrize("name", ["net-memory", "net_error", "my-data-Set"])
def test_a_name_whose_symbols_are_anothers_is_refused(name: str) -> None:
    with pytest.raises(ModelError, match="has symbols that begin so"):
        check_bundle_name(name)
