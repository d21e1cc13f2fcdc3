"""What a choice keeps of the clusters that calls share."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

import numpy as np

# Clusters of a segment that are kept at most, the most frequent: their products are in memory.
MOST_KEPT = 256

# As the text has them.
STORED = "<f4"


@dataclass(frozen=True)
class Kept:
    """What is kept of each segment of a row.

    Attributes
    ----------
    codes
        Of each segment, the codes that have a cluster, ascending.
    means
        The mean of the segments of each code, float32, `length` numbers each (zeros behind those of
        a shorter segment), one segment's behind the other's; as a text (base64).
    """

    codes: tuple[tuple[int, ...], ...]
    means: str

    @property
    def most(self) -> int:
        """Clusters of a segment at most."""
        return max(map(len, self.codes))

    def why_wrong(self, length: int, bits: int, segments: int) -> str | None:
        """Return what cannot be of segments of such a length, and codes of so many bits, or None.

        Parameters
        ----------
        length, bits, segments
            Numbers of a segment, bits of a code, and segments of a row.
        """
        if len(self.codes) != segments:
            return f"kept clusters of {len(self.codes)} segments, not of {segments}"
        for row in self.codes:
            if not 1 <= len(row) <= MOST_KEPT or list(row) != sorted(set(row)):
                return f"kept codes that are not 1 to {MOST_KEPT} ascending ones"
            if not all(isinstance(each, int) and 0 <= each < 1 << bits for each in row):
                return f"kept codes that have not {bits} bits"
        try:
            means = self._means()
        except (binascii.Error, ValueError) as error:
            return f"kept means that cannot be read: {error}"
        wanted = sum(map(len, self.codes)) * length
        if len(means) != wanted or not np.isfinite(means).all():
            return f"{len(means)} kept means, not {wanted} finite ones"
        return None

    def _means(self) -> np.ndarray:
        return np.frombuffer(base64.b64decode(self.means, validate=True), STORED)

    def table(self, bits: int) -> np.ndarray:
        """Return the cluster of each code, -1 for none: int32 ``[segments, 2^bits]``."""
        found = np.full((len(self.codes), 1 << bits), -1, "int32")
        for row, codes in zip(found, self.codes, strict=True):
            row[list(codes)] = np.arange(len(codes))
        return found

    def by_segment(self, length: int) -> list[np.ndarray]:
        """Return the means of each segment's clusters, ``[clusters, length]``."""
        means = self._means().reshape(-1, length)
        return np.split(means, np.cumsum([len(each) for each in self.codes])[:-1])
