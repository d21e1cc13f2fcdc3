from __future__ import annotations

import inspect

import pytest

from tvm_fusionx import errors

CLASSES = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, errors.FusionXError)
]


@pytest.mark.parametrize("error", CLASSES)
def test_an_error_says_thing_expected_found_and_next_step(
    error: type[errors.FusionXError],
) -> None:
    raised = error("input 'x'", expected="float32", found="int64", next_step="Cast it.")
    assert str(raised) == "input 'x': expected float32; found int64. Cast it."
    assert (raised.thing, raised.expected, raised.found, raised.next_step) == (
        "input 'x'",
        "float32",
        "int64",
        "Cast it.",
    )


@pytest.mark.parametrize("error", CLASSES)
def test_an_error_has_an_exit_code_that_is_not_success(error: type[errors.FusionXError]) -> None:
    assert error.exit_code in {
        errors.EXIT_WRONG_RESULT,
        errors.EXIT_USAGE,
        errors.EXIT_ENVIRONMENT,
    }


@pytest.mark.parametrize(
    ("error", "builtin", "exit_code"),
    [
        (errors.ModelError, ValueError, 2),
        (errors.OutputFileError, OSError, 3),
        (errors.MissingDependencyError, ImportError, 3),
        (errors.WrongResultError, ArithmeticError, 1),
    ],
)
def test_callers_who_do_not_know_us_catch_the_builtin(
    error: type[errors.FusionXError], builtin: type[Exception], exit_code: int
) -> None:
    assert issubclass(error, builtin)
    assert error.exit_code == exit_code
