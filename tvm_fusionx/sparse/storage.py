"""Lists and their numbers as arrays that a kernel reads in order, and how many bytes they take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvm_fusionx.sparse.lists import Lists

# Of an index, as CSR and we store it.
INDEX_BYTES = 4


@dataclass(frozen=True)
class Storage:
    """A weight with zeros as a kernel reads it.

    Parameters
    ----------
    values
        ``[entries, vectors, lanes * depth]``: for each column of a list the numbers of a group's
        rows; of integers, those of neighbouring columns that one instruction multiplies.
    index
        int32: starts ``[groups + 1]``, firsts ``[groups]``, places ``[O]``, offsets ``[entries]``,
        one behind the other.
    """

    values: np.ndarray
    index: np.ndarray

    @property
    def bytes(self) -> int:
        """What both take."""
        return int(self.values.nbytes + self.index.nbytes)


def store_lists(
    matrix: np.ndarray,
    lists: Lists,
    lanes: int,
    offsets: np.ndarray | None = None,
    depth: int = 1,
) -> Storage:
    """Return a matrix as its lists tell.

    Parameters
    ----------
    matrix
        ``[O, K * depth]``, of which `lists` are.
    lists
        Their width is a multiple of `lanes`.
    lanes
        Rows of a vector.
    offsets
        int32 ``[K]``: where the data of each column lies, counted in elements from that of a place;
        the columns themselves when None.
    depth
        Numbers of a row that are one column of the lists (:func:`as_words`).
    """
    group_of = np.repeat(np.arange(lists.groups), lists.lengths)
    rows = lists.firsts[group_of][:, None] + np.arange(lists.width)
    words = matrix.reshape(len(matrix), -1, depth)
    values = words[rows, lists.columns[:, None]]
    shape = (lists.entries, lists.width // lanes, lanes * depth)
    told = lists.columns if offsets is None else offsets[lists.columns]
    parts = [lists.starts, lists.firsts, lists.places(), told]
    index = np.concatenate([part.astype("int32") for part in parts])
    return Storage(np.ascontiguousarray(values.reshape(shape)), index)


def as_words(matrix: np.ndarray, depth: int) -> np.ndarray:
    """Return ``[O, K]``: whether any of `depth` neighbouring numbers of a row is not zero."""
    return (matrix.reshape(len(matrix), -1, depth) != 0).any(axis=2)


def csr_bytes(matrix: np.ndarray) -> int:
    """Return what compressed rows take: a number and a column for each, a start for each row."""
    numbers = int(np.count_nonzero(matrix))
    return numbers * (matrix.itemsize + INDEX_BYTES) + (matrix.shape[0] + 1) * INDEX_BYTES
