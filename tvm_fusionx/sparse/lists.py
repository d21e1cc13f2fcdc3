"""The structure of a weight with zeros: for each group of rows, the columns that are not all zero.

A weight is looked at as a matrix ``[O, K]``: a row an output channel, a column what it multiplies
(an input channel at a place of the window). Rows are taken in groups of neighbours, as many as fill
one vector or several. A group has a list of the columns in which any of its rows has a number;
whatever pruned the weight (blocks, patterns shared by a group, whole kernels), that is all that a
kernel needs to know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Lists:
    """Groups of rows, and the columns that each needs.

    Parameters
    ----------
    width
        Rows of a group.
    firsts
        First row of each group, int32 ``[groups]``. The last group begins where it ends with the
        matrix, over rows of the one before where need be.
    starts
        Where the list of each group begins in `columns`, and where the last one ends,
        int32 ``[groups + 1]``.
    columns
        The lists, each ascending, one behind the other, int32 ``[entries]``.
    shape
        Of the matrix: rows and columns.
    """

    width: int
    firsts: np.ndarray
    starts: np.ndarray
    columns: np.ndarray
    shape: tuple[int, int]

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return len(self.firsts)

    @property
    def entries(self) -> int:
        """Columns of all lists together."""
        return len(self.columns)

    @property
    def density(self) -> float:
        """Share of the matrix that is multiplied: what is stored, zeros inside groups included."""
        return self.entries * self.width / max(1, self.shape[0] * self.shape[1])

    @property
    def lengths(self) -> np.ndarray:
        """Columns of each list."""
        return np.diff(self.starts)

    def places(self) -> np.ndarray:
        """Return for each row the number of its group times the width, plus its place in it.

        int32 ``[O]``; of a row in two groups, that in the later one by row.
        """
        found = np.zeros(self.shape[0], "int32")
        for group in np.argsort(self.firsts, kind="stable"):
            first = self.firsts[group]
            found[first : first + self.width] = group * self.width + np.arange(self.width)
        return found


def find_lists(matrix: np.ndarray, width: int, *, tasks: int = 1) -> Lists:
    """Return the lists of groups of `width` rows of a matrix.

    Parameters
    ----------
    matrix
        ``[O, K]``, O at least `width`.
    width
        Rows of a group.
    tasks
        Parts that groups are dealt out to: of neighbouring groups, each such part of them gets
        about as many entries as any other (the longest list goes to the part with the least).

    Raises
    ------
    ValueError
        The matrix has fewer rows than a group.
    """
    rows, columns = matrix.shape
    if not 0 < width <= rows:
        raise ValueError(
            f"width of a group: expected 1 to {rows}, the rows of the matrix; found {width}."
        )
    firsts = [min(first, rows - width) for first in range(0, rows, width)]
    mask = matrix != 0
    lists = [np.flatnonzero(mask[first : first + width].any(axis=0)) for first in firsts]
    order = dealt_out([len(each) for each in lists], tasks)
    lists = [lists[group] for group in order]
    starts = np.concatenate([[0], np.cumsum([len(each) for each in lists])])
    joined = np.concatenate(lists) if lists else np.zeros(0)
    return Lists(
        width,
        np.asarray([firsts[group] for group in order], "int32"),
        starts.astype("int32"),
        joined.astype("int32"),
        (rows, columns),
    )


def dealt_out(lengths: Sequence[int], tasks: int) -> list[int]:
    """Return groups in the order in which equal runs of them have about equally much to do."""
    count = len(lengths)
    if tasks <= 1 or count % tasks or len(set(lengths)) <= 1:
        return list(range(count))
    room = count // tasks
    parts: list[list[int]] = [[] for _ in range(tasks)]
    totals = [0] * tasks
    for group in sorted(range(count), key=lambda each: -lengths[each]):
        free = [part for part in range(tasks) if len(parts[part]) < room]
        chosen = min(free, key=totals.__getitem__)
        parts[chosen].append(group)
        totals[chosen] += lengths[group]
    return [group for part in parts for group in sorted(part)]
