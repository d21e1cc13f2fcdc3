"""Fields of a file that a stranger wrote: each is checked for its kind and its size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm_fusionx.errors import ReportFileError

NEXT_STEP = "Have it written again: fusionx report-slow MODEL -o FILE.json."


def damaged(where: str, expected: str, found: str) -> ReportFileError:
    """Return the error of a place in a report."""
    return ReportFileError(where, expected=expected, found=found, next_step=NEXT_STEP)


def integer(value: Any, where: str, low: int, high: int) -> int:
    """Return a whole number of a range; a bool is none."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise damaged(where, f"a whole number from {low} to {high}", _shown(value))
    return value


def items(value: Any, where: str, most: int) -> list[Any]:
    """Return a list of so many items at most."""
    if not isinstance(value, list):
        raise damaged(where, "a list", _shown(value))
    if len(value) > most:
        raise damaged(where, f"a list of at most {most}", f"{len(value)} items")
    return value


def text(value: Any, where: str, most: int) -> str:
    """Return a text of so many characters at most."""
    if not isinstance(value, str) or len(value) > most:
        raise damaged(where, f"a text of at most {most} characters", _shown(value))
    return value


@dataclass(frozen=True)
class Fields:
    """The fields of one object of the file.

    Attributes
    ----------
    content
        What JSON gave.
    where
        What errors call the object.
    """

    content: dict[str, Any]
    where: str

    @classmethod
    def of(cls, value: Any, where: str) -> Fields:
        """Return the fields of what must be an object."""
        if not isinstance(value, dict):
            raise damaged(where, "an object", _shown(value))
        return cls(value, where)

    def __getitem__(self, name: str) -> Any:
        if name not in self.content:
            known = ", ".join(map(repr, sorted(self.content)[:8])) or "nothing"
            raise damaged(self.where, f"the field {name!r}", known[:200])
        return self.content[name]

    def place(self, name: str) -> str:
        """Return what errors call a field."""
        return f"{self.where}, {name}"

    def integer(self, name: str, low: int, high: int) -> int:
        """Return a whole number of a range."""
        return integer(self[name], self.place(name), low, high)

    def amount(self, name: str) -> float:
        """Return a finite number that is not negative."""
        value = self[name]
        # An integer beyond any float is compared, not converted.
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not 0 <= value < math.inf or value > LARGEST_AMOUNT:
            raise damaged(self.place(name), "a number that is not negative", _shown(value))
        return float(value)

    def flag(self, name: str) -> bool:
        """Return true or false."""
        value = self[name]
        if not isinstance(value, bool):
            raise damaged(self.place(name), "true or false", _shown(value))
        return value

    def text(self, name: str, most: int) -> str:
        """Return a text of so many characters at most."""
        return text(self[name], self.place(name), most)

    def items(self, name: str, most: int) -> Sequence[Any]:
        """Return a list of so many items at most."""
        return items(self[name], self.place(name), most)


# Of seconds, operations or bytes: no machine comes near.
LARGEST_AMOUNT = 1e30

_SHOWN = 60


def _shown(value: Any) -> str:
    if isinstance(value, (list, dict)):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST_AMOUNT:
        return "a number of many digits"
    return repr(value)[:_SHOWN]
