from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.search.small_spaces import cnns, pruned, transformers
from tvm_fusionx.search.encoding import Encoding
from tvm_fusionx.search.space import Space, candidate_key


@pytest.mark.parametrize("space", [transformers, cnns, pruned])
def test_vectors_tell_candidates_apart(space: Any) -> None:
    made: Space = space()
    encode = Encoding(made)
    generator = random.Random(0)
    vectors: dict[str, bytes] = {}
    lengths = set()
    for _ in range(200):
        candidate = made.sample(generator)
        vector = encode(candidate)
        vectors[candidate_key(candidate)] = vector.tobytes()
        lengths.add(len(vector))
        assert np.isfinite(vector).all()
        assert 0 <= vector.min() <= vector.max() <= 1
    assert len(lengths) == 1
    assert len(set(vectors.values())) == len(vectors)
