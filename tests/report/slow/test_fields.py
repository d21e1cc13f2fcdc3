from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tvm_fusionx.errors import ReportFileError
from tvm_fusionx.report.slow.fields import Fields, integer, items, text

FIELDS = Fields(
    {"one": 1, "true": True, "half": 0.5, "word": "ab", "list": [1, 2], "long": 10**400}, "a report"
)


def test_a_field_of_its_kind_and_size_is_given() -> None:
    assert FIELDS.integer("one", 1, 1) == 1
    assert FIELDS.flag("true") is True
    assert FIELDS.amount("half") == 0.5
    assert FIELDS.text("word", 2) == "ab"
    assert FIELDS.items("list", 2) == [1, 2]


@pytest.mark.parametrize(
    ("ask", "about"),
    [
        (lambda: FIELDS["missing"], r"a report: expected the field 'missing'"),
        (lambda: Fields.of([], "block 3"), "block 3: expected an object; found a list of 0"),
        (lambda: FIELDS.integer("true", 0, 1), "a report, true: expected a whole number"),
        (lambda: FIELDS.integer("one", 2, 3), "from 2 to 3; found 1"),
        (lambda: FIELDS.integer("half", 0, 1), "whole number"),
        (lambda: FIELDS.integer("long", 0, 1), "a number of many digits"),
        (lambda: FIELDS.amount("word"), "a number that is not negative"),
        (lambda: FIELDS.amount("true"), "a number that is not negative"),
        (lambda: FIELDS.amount("long"), "a number of many digits"),
        (lambda: FIELDS.flag("one"), "true or false; found 1"),
        (lambda: FIELDS.text("word", 1), "at most 1 characters"),
        (lambda: FIELDS.text("one", 1), "a text"),
        (lambda: FIELDS.items("list", 1), "a list of at most 1; found 2 items"),
        (lambda: FIELDS.items("word", 9), "a list; found 'ab'"),
        (lambda: integer(None, "x", 0, 1), "found None"),
        (lambda: items({}, "x", 0), "found an object of 0"),
        (lambda: text([], "x", 0), "found a list of 0"),
    ],
)
def test_another_is_refused_with_its_place(ask: Callable[[], Any], about: str) -> None:
    with pytest.raises(ReportFileError, match=about):
        ask()
