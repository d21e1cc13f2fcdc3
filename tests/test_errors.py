from __future__ import annotations

import inspect

import pytest

from tvm_fusionx import errors
from tvm_fusionx.errors import (
    EXIT_ENVIRONMENT,
    EXIT_USAGE,
    EXIT_WRONG_RESULT,
    FusionXError,
    explain_problem,
)

ERRORS = [
    item
    for _, item in inspect.getmembers(errors, inspect.isclass)
    if issubclass(item, FusionXError)
]

EXIT_CODES = {
    "DeviceError": EXIT_ENVIRONMENT,
    "DeviceLostError": EXIT_ENVIRONMENT,
    "LinkError": EXIT_ENVIRONMENT,
    "MissingDependencyError": EXIT_ENVIRONMENT,
    "DiskFullError": EXIT_ENVIRONMENT,
    "TuningError": EXIT_ENVIRONMENT,
    "WrongResultError": EXIT_WRONG_RESULT,
}

# What a caller that knows nothing of this package would catch.
BUILT_IN = {
    "BackendError": ValueError,
    "PhaseError": ValueError,
    "DeviceError": RuntimeError,
    "DeviceLostError": RuntimeError,
    "InputError": ValueError,
    "LibraryFileError": ValueError,
    "LinkError": RuntimeError,
    "LoweringError": RuntimeError,
    "MissingDependencyError": ImportError,
    "ModelError": ValueError,
    "DiskFullError": OSError,
    "OutputFileError": OSError,
    "RecordError": ValueError,
    "ReportFileError": ValueError,
    "ShapeError": ValueError,
    "SpaceError": ValueError,
    "TargetError": ValueError,
    "TuningError": RuntimeError,
    "UnknownDeviceError": RuntimeError,
    "UnsupportedOperatorError": ValueError,
    "WrongResultError": ArithmeticError,
}


def _raised(error: type[FusionXError]) -> FusionXError:
    return error("input 'x'", expected="float32", found="int64", next_step="Cast it.")


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_message_has_its_four_parts_and_keeps_them(error: type[FusionXError]) -> None:
    raised = _raised(error)
    assert str(raised) == "input 'x': expected float32; found int64. Cast it."
    assert (raised.thing, raised.expected, raised.found) == ("input 'x'", "float32", "int64")
    assert raised.next_step == "Cast it."


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_exit_code(error: type[FusionXError]) -> None:
    assert error.exit_code == EXIT_CODES.get(error.__name__, EXIT_USAGE)


def test_exit_codes_are_those_the_command_promises() -> None:
    codes = (errors.EXIT_OK, EXIT_WRONG_RESULT, EXIT_USAGE, EXIT_ENVIRONMENT)
    assert codes == (0, 1, 2, 3)


def test_every_error_is_a_built_in_one_too() -> None:
    named = {error.__name__: error for error in ERRORS if error is not FusionXError}
    assert named.keys() == BUILT_IN.keys()
    for name, base in BUILT_IN.items():
        assert issubclass(named[name], base)


def test_no_part_can_be_left_out() -> None:
    with pytest.raises(TypeError, match="next_step"):
        FusionXError("x", expected="a", found="b")  # type: ignore[call-arg]


def test_the_form_is_one_function() -> None:
    assert explain_problem("a", "b", "c", "D.") == "a: expected b; found c. D."
