from __future__ import annotations

import pytest
from tvm.target import codegen

from tvm_fusionx.processors.byte_packing import PACKINGS, BytePacking, packings_of


@pytest.mark.parametrize(
    ("features", "lanes"),
    [
        ({"sse4.2"}, []),
        ({"avx2"}, [8, 4]),
        ({"avx2", "avx512f"}, [8, 4]),
        ({"avx2", "avx512f", "avx512bw"}, [16, 8, 4]),
        ({"aarch64", "neon"}, []),
    ],
)
def test_which_vectors_are_packed(features: set[str], lanes: list[int]) -> None:
    assert [packing.lanes for packing in packings_of(features)] == lanes


@pytest.mark.parametrize("packing", [packing for _, packing in PACKINGS])
def test_llvm_knows_the_instructions(packing: BytePacking) -> None:
    names = (packing.nearest, packing.to_words, *dict(packing.to_bytes).values())
    assert all(codegen.llvm_lookup_intrinsic_id(name) for name in names)
