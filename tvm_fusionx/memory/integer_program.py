"""A mixed-integer program, gathered inequality by inequality and given to HiGHS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class IntegerProgram:
    """Inequalities between variables that are numbered from 0; each variable is bounded below."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._columns: list[int] = []
        self._values: list[float] = []
        self._limits: list[float] = []

    def at_most(self, terms: Sequence[tuple[int, float]], limit: float) -> None:
        """Demand that a sum, of variables by their numbers times factors, is at most `limit`."""
        for column, value in terms:
            self._rows.append(len(self._limits))
            self._columns.append(column)
            self._values.append(value)
        self._limits.append(limit)

    def least(
        self,
        variable: int,
        integrality: np.ndarray,
        lower: np.ndarray,
        upper: np.ndarray,
        time_limit_seconds: float,
    ) -> Any:
        """Return scipy's answer in which one variable is least.

        Parameters
        ----------
        variable
            Number of what is to be least.
        integrality
            For each variable, 1 where it is a whole number, 0 elsewhere.
        lower, upper
            Bounds of each variable.
        time_limit_seconds
            After it, the best that is known.

        Returns
        -------
        scipy.optimize.OptimizeResult or None
            None where scipy is not installed, or nothing was found in time.
        """
        try:
            from scipy.optimize import Bounds, LinearConstraint, milp
            from scipy.sparse import csr_matrix
        except ModuleNotFoundError:
            return None
        objective = np.zeros(len(lower))
        objective[variable] = 1
        shape = (len(self._limits), len(lower))
        matrix = csr_matrix((self._values, (self._rows, self._columns)), shape=shape)
        answer = milp(
            objective,
            integrality=integrality,
            bounds=Bounds(lower, upper),
            constraints=LinearConstraint(matrix, -np.inf, np.array(self._limits)),
            options={"time_limit": time_limit_seconds},
        )
        return answer if answer.x is not None else None
