"""Values between points, by a Gaussian process (Rasmussen and Williams, 2006)."""

from __future__ import annotations

import numpy as np

# What the likelihood chooses from: distances over which values resemble each other, in units of the
# distance of two decisions that differ, and shares of noise.
LENGTHS = (1.0, 2.0, 4.0, 8.0)
NOISES = (1e-3, 1e-2, 1e-1, 0.5)


class GaussianProcess:
    """Values at points, told between them (Rasmussen and Williams, 2006, algorithm 2.1).

    Parameters
    ----------
    points
        ``(samples, features)``.
    values
        ``(samples,)``.
    chosen
        Length and noise; by default those of :data:`LENGTHS` and :data:`NOISES` with the largest
        likelihood.
    """

    def __init__(
        self,
        points: np.ndarray,
        values: np.ndarray,
        chosen: tuple[float, float] | None = None,
    ) -> None:
        self.points = points
        self._mean, self._scale = float(values.mean()), float(values.std()) or 1.0
        scaled = (values - self._mean) / self._scale
        self.length, self.noise = chosen or max(
            ((length, noise) for length in LENGTHS for noise in NOISES),
            key=lambda each: self._likelihood(scaled, *each),
        )
        self._factor = self._factored(self.length, self.noise)
        self._weights = _solved(self._factor, scaled)

    def __call__(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and deviation at each of `points`."""
        between = _resemblance(points, self.points, self.length)
        inner = np.linalg.solve(self._factor, between.T)
        variance = np.maximum(1.0 - np.square(inner).sum(axis=0), 1e-12)
        return self._mean + self._scale * between @ self._weights, self._scale * np.sqrt(variance)

    def _factored(self, length: float, noise: float) -> np.ndarray:
        matrix = _resemblance(self.points, self.points, length)
        return np.linalg.cholesky(matrix + noise * np.eye(len(matrix)))

    def _likelihood(self, scaled: np.ndarray, length: float, noise: float) -> float:
        factor = self._factored(length, noise)
        return float(-scaled @ _solved(factor, scaled) / 2 - np.log(np.diag(factor)).sum())


def _resemblance(one: np.ndarray, other: np.ndarray, length: float) -> np.ndarray:
    squares = np.square(one[:, None, :] - other[None, :, :]).sum(axis=2)
    return np.exp(-squares / (2 * length**2))


def _solved(factor: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.linalg.solve(factor.T, np.linalg.solve(factor, values))
