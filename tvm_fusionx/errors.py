"""Every error a user can meet, and the exit code that goes with it.

Each error is one sentence of four parts: the thing, what was expected of it, what was found, and
the next step. :func:`explain_problem` builds that sentence, so that no message forgets a part.
"""

from __future__ import annotations

from typing import ClassVar

EXIT_OK = 0
EXIT_WRONG_RESULT = 1
EXIT_USAGE = 2
EXIT_ENVIRONMENT = 3


def explain_problem(thing: str, expected: str, found: str, next_step: str) -> str:
    """Return the one message form of this package: thing, expected, found, next step."""
    return f"{thing}: expected {expected}; found {found}. {next_step}"


# What taking apart a file of JSON raises that is not what it should be: not JSON, too deep, other
# fields, other types.
MALFORMED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class FusionXError(Exception):
    """Base of the errors a user can act on.

    Parameters
    ----------
    thing
        What the error is about: a file, an input, an operator, a target.
    expected, found
        What was needed, and what was there instead.
    next_step
        One sentence that says what to do about it.
    """

    exit_code: ClassVar[int] = EXIT_USAGE

    def __init__(self, thing: str, *, expected: str, found: str, next_step: str) -> None:
        super().__init__(explain_problem(thing, expected, found, next_step))
        self.thing = thing
        self.expected = expected
        self.found = found
        self.next_step = next_step


class ModelError(FusionXError, ValueError):
    """The model file cannot be read, or is not a valid model."""


class UnsupportedOperatorError(ModelError):
    """The model uses operators (or attribute combinations) that cannot be translated."""


class ShapeError(FusionXError, ValueError):
    """A shape is dynamic where it must be static, or differs from the model's."""


class InputError(FusionXError, ValueError):
    """An input's name, shape or dtype differs from what the model takes."""


class TargetError(FusionXError, ValueError):
    """The target string is unknown or cannot be used here."""


class PhaseError(FusionXError, ValueError):
    """A phase of the pipeline is named that is not there, or what stands between two is no pass."""


class BackendError(FusionXError, ValueError):
    """A backend of another package cannot be loaded, or takes a name that is taken."""


class LoweringError(FusionXError, RuntimeError):
    """Blocks are built outside of the scope that schedules them, or for another target."""


class RecordError(FusionXError, ValueError):
    """Tuning records are damaged or belong to another target."""


class LibraryFileError(FusionXError, ValueError):
    """A compiled library file is damaged, or of another format."""


class OutputFileError(FusionXError, OSError):
    """A result cannot be written where it was asked for."""


class DiskFullError(OutputFileError):
    """There is no space left where a result or a temporary file is written."""

    exit_code = EXIT_ENVIRONMENT


class MissingDependencyError(FusionXError, ImportError):
    """A package or tool that this call needs is not installed, or has the wrong version."""

    exit_code = EXIT_ENVIRONMENT


class LinkError(FusionXError, RuntimeError):
    """The compiled objects cannot be linked into a library of the target."""

    exit_code = EXIT_ENVIRONMENT


class DeviceError(FusionXError, RuntimeError):
    """A device cannot be used: unknown, not reachable, busy, or refusing what it is given."""

    exit_code = EXIT_ENVIRONMENT


class UnknownDeviceError(DeviceError):
    """No device has that name, or what describes it is damaged."""

    exit_code = EXIT_USAGE


class DeviceLostError(DeviceError):
    """The device went away in the middle of a session; a new session may find it again."""


class TuningError(FusionXError, RuntimeError):
    """Tuning found nothing: no candidate could be measured."""

    exit_code = EXIT_ENVIRONMENT


class ReportFileError(FusionXError, ValueError):
    """A report of slow blocks is damaged, too large, or tells a block that cannot be built."""


class SpaceError(FusionXError, ValueError):
    """A search space describes no networks, or a candidate is not one of it."""


class WrongResultError(FusionXError, ArithmeticError):
    """A compiled model's numbers differ from the reference beyond the tolerance."""

    exit_code = EXIT_WRONG_RESULT
