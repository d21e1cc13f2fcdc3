"""Damaged models are taken, or refused with a typed error.

``python benchmarks/fuzz_importer.py`` damages 2,000.
"""

from __future__ import annotations

import pytest

from tests.frontend.mutations import mutate
from tests.frontend.valid_models import valid_models
from tvm_fusionx import from_onnx
from tvm_fusionx.errors import FusionXError

MODELS = valid_models()
COUNT = 105


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_taken_as_it_is(name: str) -> None:
    mod, _ = from_onnx(MODELS[name])
    assert mod["main"].params


def test_damage_is_the_same_each_time() -> None:
    for seed, model in enumerate(MODELS.values()):
        assert mutate(model, seed) == mutate(model, seed)
        assert mutate(model, seed) != mutate(model, seed + 1)


def test_damaged_models_are_taken_or_refused_in_a_sentence() -> None:
    refused = 0
    for seed in range(COUNT):
        name = list(MODELS)[seed % len(MODELS)]
        try:
            from_onnx(mutate(MODELS[name], seed))
        except FusionXError as error:
            refused += 1
            text = str(error)
            assert "expected" in text, f"seed {seed}"
            assert "found" in text, f"seed {seed}"
            assert "::" not in text, f"seed {seed}: C++ text: {text}"
            assert ".cc" not in text, f"seed {seed}: C++ text: {text}"
            assert "report this" not in text, f"seed {seed}: not foreseen: {text}"
    # Some damage does no harm, and most does.
    assert COUNT / 2 < refused < COUNT
