from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import graph, var
from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.layout.integer_costs import (
    float_cycles,
    integer_cycles,
    thousands,
    why_slower_on_integers,
)
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.rewrite.quantized import QuantizedData
from tvm_fusionx.schedules import describe_cpu, resolve_target

ZERO, SHIFTED = QuantizedData("uint8", 0), QuantizedData("uint8", 7)

VNNI, AVX2 = "llvm -mcpu=znver4 -num-cores=2", "llvm -mcpu=haswell -num-cores=2"
DOT_PRODUCTS = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=2"
PAIRED_ROWS = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-x2 -num-cores=2"


def _cpu(target: str) -> Cpu:
    return describe_cpu(resolve_target(target))


def _node(expr: Any) -> Node:
    (node,) = graph(expr).calls()
    return node


def _conv(inputs: int, outputs: int, extent: int, kernel: int, **how: Any) -> Node:
    weights = relay.const(np.zeros((outputs, inputs // how.get("groups", 1), kernel, kernel), "f4"))
    data = var("x", 1, inputs, extent, extent)
    return _node(relay.nn.conv2d(data, weights, padding=(kernel // 2,) * 4, **how))


def _dense(rows: int, depth: int, columns: int) -> Node:
    weights = relay.const(np.zeros((columns, depth), "f4"))
    return _node(relay.nn.dense(var("x", rows, depth), weights))


def test_words_take_more_than_bytes() -> None:
    node, cpu = _conv(64, 64, 56, 3), _cpu(VNNI)
    words = integer_cycles(node, QuantizedData("int16", 0), cpu)
    assert integer_cycles(node, ZERO, cpu) < words
    # Data of another signedness is shifted, and so is its border.
    assert words < integer_cycles(node, QuantizedData("uint16", 7), cpu)


# What was faster when both were measured on Zen 4, as which it was built with and without VNNI;
# layers whose two times lay within a fifth of each other are left out.
@pytest.mark.parametrize(
    ("node", "target", "on_integers"),
    [
        (_conv(64, 64, 56, 3), AVX2, False),
        (_conv(256, 256, 14, 3), AVX2, False),
        (_conv(64, 128, 56, 3, strides=(2, 2)), AVX2, True),
        (_dense(1, 1280, 1000), AVX2, True),
        (_conv(64, 64, 56, 3), VNNI, True),
        (_conv(256, 256, 14, 3), VNNI, True),
        (_conv(3, 32, 224, 3, strides=(2, 2)), VNNI, True),
        (_conv(960, 160, 7, 1), VNNI, True),
        (_dense(128, 384, 1536), VNNI, True),
        (_dense(1, 1280, 1000), VNNI, True),
    ],
)
def test_the_estimate_agrees_with_measurements(node: Node, target: str, on_integers: bool) -> None:
    reason = why_slower_on_integers(node, SHIFTED, _cpu(target))
    assert (reason is None) == on_integers
    assert reason is None or "cycles of a core by the estimate" in reason


def test_a_stronger_instruction_costs_less() -> None:
    node = _conv(64, 64, 28, 1)
    single, paired = (
        integer_cycles(node, ZERO, _cpu(each)) for each in (DOT_PRODUCTS, PAIRED_ROWS)
    )
    assert single > 1.5 * paired


# What took fewer cycles by LLVM's models of these cores when both were counted under emulation.
@pytest.mark.parametrize(
    ("node", "core", "on_integers"),
    [
        (_conv(96, 24, 56, 1), "cortex-a72", True),
        (_conv(960, 160, 7, 1), "cortex-a72", True),
        (_conv(64, 128, 56, 3, strides=(2, 2)), "cortex-a72", True),
        (_conv(64, 64, 56, 3), "cortex-a72", False),
        (_conv(256, 256, 14, 3), "cortex-a72", False),
        (_conv(96, 24, 56, 1), "cortex-a53", True),
        (_conv(960, 160, 7, 1), "cortex-a53", True),
        (_conv(64, 128, 56, 3, strides=(2, 2)), "cortex-a53", True),
        (_conv(64, 64, 56, 3), "cortex-a53", False),
        (_conv(256, 256, 14, 3), "cortex-a53", False),
    ],
)
def test_the_estimate_agrees_with_counts(node: Node, core: str, on_integers: bool) -> None:
    cpu = _cpu(f"llvm -mtriple=aarch64-linux-gnu -mcpu={core} -num-cores=1")
    assert cpu.adds_in_words
    assert (why_slower_on_integers(node, QuantizedData("int8", 5), cpu) is None) == on_integers


def test_zero_points_and_signs_cost_instructions() -> None:
    apart, dense = _conv(64, 64, 28, 3, groups=64), _dense(64, 64, 64)
    vnni, signed = _cpu(VNNI), QuantizedData("int8", 0)
    assert integer_cycles(apart, SHIFTED, vnni) > integer_cycles(apart, ZERO, vnni)
    assert integer_cycles(dense, signed, vnni) > integer_cycles(dense, ZERO, vnni)
    # Where zero is another number, the border is copied.
    window = _conv(64, 64, 28, 3)
    assert integer_cycles(window, SHIFTED, vnni) > integer_cycles(window, ZERO, vnni)


def test_minimal_filtering_makes_floats_cheaper() -> None:
    cpu = _cpu(AVX2)
    steps = {"strides": (2, 2)}
    per_place = float_cycles(_conv(64, 64, 56, 3), cpu) / 56**2
    assert per_place < 0.7 * float_cycles(_conv(64, 64, 112, 3, **steps), cpu) / 56**2


def test_depths_are_filled_up() -> None:
    cpu = _cpu(VNNI)
    few, full = _conv(3, 32, 56, 3), _conv(4, 32, 56, 3)
    assert integer_cycles(few, ZERO, cpu) == pytest.approx(integer_cycles(full, ZERO, cpu), rel=0.1)


def test_tiles_take_less_where_they_are_used() -> None:
    tiles = "llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -num-cores=2"
    with_tiles, without = _cpu(tiles), _cpu(f"{tiles} -mattr=-amx-int8")
    for node in (_conv(64, 64, 56, 3), _conv(3, 64, 112, 7), _dense(128, 384, 1536)):
        assert integer_cycles(node, ZERO, with_tiles) < integer_cycles(node, ZERO, without) / 2
    # A row, groups, chunks of other sizes, and integers of 16 bits.
    stay = (_dense(1, 384, 384), _conv(64, 64, 28, 3, groups=2))
    for node in (*stay, _conv(64, 24, 28, 3)):
        same = integer_cycles(node, ZERO, with_tiles), integer_cycles(node, ZERO, without)
        assert same[0] == same[1]
    words = QuantizedData("int16", 0)
    node = _conv(64, 64, 56, 3)
    assert integer_cycles(node, words, with_tiles) == integer_cycles(node, words, without)


def test_numbers_for_people() -> None:
    assert (thousands(812.4), thousands(90_921)) == ("812", "90.92 thousand")
