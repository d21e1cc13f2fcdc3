"""Llama's decoder block: the published count, and what its parts are for."""

from __future__ import annotations

import pytest

from tests.zoo.networks.published import count, printed

torch = pytest.importorskip("torch")
llama = pytest.importorskip("tvm_fusionx.zoo.networks.llama")


def test_sixteen_blocks_are_the_published_model():
    counted = count(llama.LlamaBlock, (1, 128, llama.FEATURES))
    # 16 blocks, an embedding shared with the head, and the last norm: 1.23 billion, as published.
    vocabulary = 128_256
    model = 16 * counted.parameters + vocabulary * llama.FEATURES + llama.FEATURES
    assert model == printed("1230M")
    assert counted.outputs == [(1, 128, llama.FEATURES)]
    # Every matrix meets each token once; scores and values are 128 x 128 for each feature.
    norms = 2 * llama.FEATURES
    expected = 128 * (counted.parameters - norms) + 2 * 128 * 128 * llama.FEATURES
    assert counted.multiply_adds == expected


def test_a_token_does_not_see_those_after_it():
    torch.manual_seed(0)
    attention = llama.GroupedQueryAttention().eval()
    x = torch.randn(1, 6, llama.FEATURES)
    changed = x.clone()
    changed[:, 4:] += 1
    with torch.no_grad():
        before, after = attention(x), attention(changed)
    assert torch.allclose(before[:, :4], after[:, :4], atol=1e-6)
    assert not torch.allclose(before[:, 4:], after[:, 4:], atol=1e-3)


def test_rotation_leaves_lengths_and_depends_on_distance_alone():
    torch.manual_seed(0)
    x = torch.randn(llama.HEAD_FEATURES)
    cosines, sines = llama._rotation(8, x)
    rotated = llama._rotate(x.expand(8, -1), cosines, sines)
    assert torch.allclose(rotated.norm(dim=-1), x.norm().expand(8), rtol=1e-5)
    products = rotated @ rotated.T
    assert torch.allclose(products[0, 3], products[4, 7], rtol=1e-4)


def test_norm_makes_the_mean_square_one():
    norm = llama.RootMeanSquareNorm(16)
    x = torch.randn(3, 16) * 7
    assert torch.allclose(norm(x).pow(2).mean(-1), torch.ones(3), rtol=1e-4)
