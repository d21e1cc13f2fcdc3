"""Estimates: what hashing, products and sums cost, and how they depend on what was found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.reuse_layers import drawn
from tests.schedules.blocked_blocks import AVX2, AVX512, NEON
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.reuse.choice import Choice
from tvm_fusionx.reuse.cost import Found, reuse_cycles
from tvm_fusionx.reuse.layer import ReuseLayer

WINDOW = ((3, 3), (1, 1), (1, 1), (1, 1, 1, 1))


def _layer(bits: int = 8, channels: int = 64) -> ReuseLayer:
    choice = Choice(64, bits, 256, "mean", False, ((0.0,) * bits,) * 9)
    return ReuseLayer.of((1, 8, 56, 56, 8), WINDOW, (channels, 8), choice)


@pytest.mark.parametrize("cpu", [AVX2, AVX512, NEON], ids=["AVX2", "AVX512", "NEON"])
def test_only_products_depend_on_what_was_found(cpu: Cpu) -> None:
    layer = _layer()
    few, many = (reuse_cycles(layer, Found(count, 0), cpu) for count in (90, 900))
    assert many.multiplying == pytest.approx(10 * few.multiplying)
    assert (few.hashing, few.adding) == (many.hashing, many.adding)
    assert reuse_cycles(layer, Found(0, 90), cpu) == few
    assert few.total == few.hashing + few.multiplying + few.adding


def test_more_bits_cost_more_hashing_and_channels_more_sums() -> None:
    found = Found(100, 0)
    short, long = (reuse_cycles(_layer(bits), found, NEON) for bits in (4, 12))
    assert long.hashing > 1.5 * short.hashing
    wide = reuse_cycles(_layer(4, 128), found, NEON)
    assert wide.hashing == short.hashing
    assert wide.adding > short.adding


def test_a_first_segment_costs_less_than_a_mean() -> None:
    layer = replace(drawn(0), takes_mean=True)
    first = replace(layer, takes_mean=False)
    found = Found(10, 0)
    assert reuse_cycles(first, found, AVX2).hashing < reuse_cycles(layer, found, AVX2).hashing


def test_what_calls_share_is_not_put_together_and_tasks_share_rows() -> None:
    layer = replace(_layer(), length=576)
    shared = replace(layer, kept=100)
    found = Found(0, 0)
    own, kept = (reuse_cycles(each, found, AVX512) for each in (layer, shared))
    # One segment is one task where clusters are found anew; both cores hash where they are kept.
    assert kept.hashing < own.hashing
    assert kept.multiplying == 0
    assert kept.adding == own.adding
