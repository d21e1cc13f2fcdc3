from __future__ import annotations

import logging

import click
import pytest

from tvm_fusionx.cli import entry
from tvm_fusionx.cli.options import FiniteRange, InputShapes


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("x:[1,3,320,320]", {"x": (1, 3, 320, 320)}),
        ("x:[1, 3]  mask:[128]", {"x": (1, 3), "mask": (128,)}),
        ("x:[1,3], mask:[128] ,", {"x": (1, 3), "mask": (128,)}),
        ("input:0:[2]", {"input:0": (2,)}),
        ("a/b.c-d : [2]", {"a/b.c-d": (2,)}),
        ("scalar:[]", {"scalar": ()}),
    ],
)
def test_shapes_are_read_as_tvmc_writes_them(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    assert InputShapes().convert(text, None, None) == shapes


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "x:1,3",
        "x:[1,3",
        "x:[a]",
        "x:[-1,3]",
        "x:[99999999999]",
        "[1,3]",
        "x:[1] and y",
        "x:[1.5]",
        "x:[\u00b2]",
        pytest.param(f"x:[{'9' * 5000}]", id="thousands of digits"),
    ],
)
def test_what_cannot_be_read_is_quoted_with_an_example(text: str) -> None:
    with pytest.raises(click.BadParameter) as caught:
        InputShapes().convert(text, None, None)
    assert repr(text) in str(caught.value)
    assert "x:[1,3,320,320]" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x:[1,5] x:[2,5]", "input 'x' is there twice"),
        ("x:[1|3,5]", "several sizes, which only `fusionx compile` takes"),
    ],
)
def test_what_is_read_and_means_nothing_here_is_told(text: str, message: str) -> None:
    with pytest.raises(click.BadParameter, match=message):
        InputShapes().convert(text, None, None)


@pytest.mark.parametrize(
    ("words", "level"),
    [
        (["doctor"], logging.NOTSET),
        (["doctor", "-v"], logging.INFO),
        (["--verbose", "doctor"], logging.INFO),
        (["-v", "doctor", "-v"], logging.DEBUG),
        (["doctor", "-vvv"], logging.DEBUG),
    ],
)
def test_verbosity_adds_up_and_ends_with_the_command(
    words: list[str], level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = logging.getLogger("tvm_fusionx")
    seen = []

    @click.command("doctor")
    @entry.debug_option
    def command() -> None:
        seen.append(logger.level)

    monkeypatch.setattr("tvm_fusionx.cli.doctor_command.command", command)
    with pytest.raises(SystemExit):
        entry.main(words)
    assert seen == [level]
    assert logger.level == logging.NOTSET


@pytest.mark.parametrize("number", ["nan", "inf", "-1"])
def test_a_tolerance_is_a_finite_number(number: str) -> None:
    with pytest.raises(click.BadParameter):
        FiniteRange(min=0).convert(number, None, None)
    assert FiniteRange(min=0).convert("0.5", None, None) == 0.5
