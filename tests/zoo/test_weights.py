"""Random weights: repeatable, none of them trivial, in the layout each layer stores."""

from __future__ import annotations

import pytest

from tvm_fusionx.zoo.weights import draw_weights

torch = pytest.importorskip("torch")


def small_net():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 64, 3),
        torch.nn.BatchNorm2d(64),
        torch.nn.Flatten(),
        torch.nn.Linear(64, 32),
        torch.nn.LayerNorm(32),
    )


def test_same_seed_same_weights():
    first, second, third = (draw_weights(small_net(), seed) for seed in (1, 1, 2))
    for name, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[name])
    assert not torch.equal(first[0].weight, third[0].weight)


def test_no_parameter_is_trivial():
    net = draw_weights(small_net(), seed=0)
    for name, value in net.named_parameters():
        assert value.unique().numel() == value.numel(), name
    assert (net[1].running_var > 0).all()
    assert net[1].running_mean.abs().min() > 0


def test_kernels_keep_the_variance():
    net = draw_weights(small_net(), seed=0)
    fan_in = 3 * 3 * 3
    assert net[0].weight.var().item() * fan_in == pytest.approx(1, rel=0.2)
    assert net[4].weight.mean().item() == pytest.approx(1, abs=0.1)


def test_gain_scales_the_kernels_only():
    plain, scaled = draw_weights(small_net(), 0), draw_weights(small_net(), 0, gain=2.0)
    torch.testing.assert_close(scaled[3].weight, 2 * plain[3].weight)
    torch.testing.assert_close(scaled[4].weight, plain[4].weight)
