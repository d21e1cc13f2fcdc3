from __future__ import annotations

import pytest

from tvm_fusionx.fusion import Reason
from tvm_fusionx.operators import MappingType
from tvm_fusionx.report.explain.legend import (
    FREE_RESHAPE,
    mapping_type_sentences,
    reason_code,
    reason_sentences,
)


def test_every_mapping_type_and_reason_has_a_sentence_of_its_own() -> None:
    assert set(mapping_type_sentences()) == {kind.value for kind in MappingType}
    assert set(reason_sentences()) == {reason_code(reason) for reason in Reason}
    sentences = [*mapping_type_sentences().values(), *reason_sentences().values()]
    assert len(set(sentences)) == len(sentences)


@pytest.mark.parametrize(
    "sentence", [*mapping_type_sentences().values(), *reason_sentences().values()]
)
def test_a_sentence_is_one(sentence: str) -> None:
    assert sentence[0].isupper()
    assert sentence.endswith(".")
    assert sentence.count(". ") == 0


def test_codes_are_spelled_as_on_the_command_line() -> None:
    assert FREE_RESHAPE == "reshape-is-free"
