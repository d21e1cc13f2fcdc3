"""A sound for the speech model, as the spectrogram that it takes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

# Whisper's log-mel spectrograms are (log10 + 4) / 4, cut 8 below the loudest: about -1 to 1.5.
LOUD, QUIET = 1.5, -0.5
OVERTONES = 5
# Bands from one overtone to the next, and frames to one rise and fall of the voice.
OVERTONE_BANDS = 14
PERIOD_FRAMES = 250
NOISE = 0.05
NOISE_SEED = 883


def voice_spectrogram(bands: int, frames: int) -> npt.NDArray[np.float32]:
    """Return a rising and falling tone with overtones: ``(1, bands, frames)``, the same each time.

    Parameters
    ----------
    bands
        Mel bands; Whisper takes 80.
    frames
        Of 10 ms; Whisper takes 30 s.
    """
    time = np.arange(frames) / PERIOD_FRAMES
    tone = OVERTONE_BANDS * (1 + 0.3 * np.sin(2 * np.pi * time))
    loudness = 0.5 + 0.5 * np.cos(np.pi * time)
    band = np.arange(bands)[:, None]
    energy = np.zeros((bands, frames))
    for overtone in range(1, OVERTONES + 1):
        energy += loudness / overtone * np.exp(-((band - tone * overtone) ** 2) / 4)
    noise = np.random.default_rng(NOISE_SEED).standard_normal(energy.shape) * NOISE
    spectrogram = QUIET + (LOUD - QUIET) * np.minimum(energy, 1) + noise
    return np.ascontiguousarray(spectrogram[None]).astype(np.float32)
