from __future__ import annotations

import numpy as np

from tvm_fusionx.zoo.sounds import voice_spectrogram


def test_a_voice_is_louder_in_its_bands_and_the_same_each_time() -> None:
    sound = voice_spectrogram(80, 300)
    assert sound.shape == (1, 80, 300)
    assert sound.dtype == np.float32
    np.testing.assert_array_equal(sound, voice_spectrogram(80, 300))
    # The first tone lies at band 14 when the sound begins, with quiet below it.
    assert sound[0, 14, 0] > sound[0, 4, 0] + 1
    assert -1 < sound.min() < sound.max() < 2
