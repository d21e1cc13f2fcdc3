"""Random weights: repeatable, none of them trivial, in the layout each layer stores."""

from __future__ import annotations

import pytest

from tvm_fusionx.zoo.weights import calibrate_norms, draw_weights

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


def spreads(net, x):
    """Return the standard deviation of what each batch norm gives for `x`."""
    seen = []
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.register_forward_hook(lambda _, __, y: seen.append(float(y.std())))
    with torch.no_grad():
        net(x)
    return seen


def deep_net():
    layers = []
    for _ in range(20):
        layers += [torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.BatchNorm2d(8))


def test_calibrated_norms_keep_the_spread_through_twenty_layers():
    x = torch.rand(1, 8, 12, 12, generator=torch.Generator().manual_seed(5))
    drawn = spreads(draw_weights(deep_net(), seed=3), x)
    assert not 0.4 < drawn[-2] < 2
    net = calibrate_norms(draw_weights(deep_net(), seed=3), [x.numpy()])
    assert not net.training
    kept = spreads(net, x)[:-1]
    assert min(kept) > 0.4
    assert max(kept) < 2


def test_calibration_is_repeatable_and_left_behind():
    x = torch.rand(1, 8, 12, 12, generator=torch.Generator().manual_seed(5))
    first, second = (calibrate_norms(draw_weights(deep_net(), 3), [x.numpy()]) for _ in range(2))
    before = {name: value.clone() for name, value in first.state_dict().items()}
    with torch.no_grad():
        first(x)
    for name, value in second.state_dict().items():
        assert torch.equal(value, before[name])
        assert torch.equal(first.state_dict()[name], before[name])


def test_a_model_without_norms_is_left_alone():
    net = torch.nn.Sequential(torch.nn.Linear(3, 2))
    before = net[0].weight.clone()
    assert calibrate_norms(net, []) is net
    assert torch.equal(net[0].weight, before)


def test_a_constant_channel_keeps_a_variance():
    net = torch.nn.Sequential(torch.nn.BatchNorm2d(2))
    x = torch.rand(1, 2, 4, 4)
    x[:, 0] = 1
    calibrate_norms(net, [x.numpy()])
    assert (net[0].running_var > 0).all()
