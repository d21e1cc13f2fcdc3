"""Images sampled in chunks: TVM's numbers, nothing moved before or after, and the grid as it is."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_fusionx as fx
from tests.layout.test_convolution import Avx, assert_packed, conv, module_of
from tests.relay_modules import (
    EXACT,
    REASSOCIATING,
    TARGET,
    assert_close,
    inputs_of,
    module,
    run_plain,
    var,
)
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import assert_computes, unscheduled
from tvm_fusionx.ecg import from_relay
from tvm_fusionx.layout import pack_convolutions
from tvm_fusionx.layout.blocked_sampling import SAMPLE, SAMPLE_BLOCKED, register_sampling
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.schedules import resolve_target, schedule

METHODS = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")
CASES = {
    f"{method}, {padding}, {'centres' if align else 'edges'}": (method, padding, align)
    for method, padding, align in itertools.product(METHODS, PADDINGS, (True, False))
}
# Batch, channels, rows, columns, and the channels of a chunk.
IMAGES = {
    "chunks of 8": ((1, 24, 7, 5), 8),
    "chunks of 16, two images": ((2, 32, 4, 9), 16),
    "chunks of 6": ((2, 18, 5, 5), 6),
    "one chunk": ((1, 4, 6, 3), 4),
    "one channel each": ((3, 5, 4, 4), 1),
}


def _blocked(data: relay.Expr, grid: relay.Expr, *how: Any) -> relay.Expr:
    """Return the blocked image sampled; `how` is method, padding mode and corners."""
    register_sampling()
    names = ("method", "layout", "padding_mode", "align_corners")
    values = (how[0], "NCHW", *how[1:])
    attrs = tvm.ir.make_node("relay.attrs.GridSampleAttrs", **dict(zip(names, values, strict=True)))
    return relay.Call(relay.op.get(SAMPLE_BLOCKED), [data, grid], attrs)


def _sampled(data: relay.Expr, grid: relay.Expr, *how: Any) -> relay.Expr:
    method, padding, align = how or ("bilinear", "border", False)
    return relay.image.grid_sample(data, grid, method, "NCHW", padding, align)


def _both(image: tuple[int, ...], block: int, *how: Any) -> tuple[tvm.IRModule, tvm.IRModule]:
    """Return the modules that sample one image in NCHW, and in chunks on the way."""
    data, grid = var("x", *image), var("g", image[0], 2, 6, 11)
    chunks = relay.layout_transform(data, "NCHW", f"NCHW{block}c")
    result = relay.layout_transform(_blocked(chunks, grid, *how), f"NCHW{block}c", "NCHW")
    return module(_sampled(data, grid, *how)), module(result)


def _around_the_edges(mod: tvm.IRModule) -> dict[str, np.ndarray]:
    """Return places within the image, at its edges, and far outside."""
    inputs = inputs_of(mod)
    inputs["g"][0, :, 0] = np.linspace(-1, 1, 11)
    inputs["g"][1, :, 0] = np.linspace(-4, 4, 11)
    return inputs


@pytest.mark.parametrize("name", few_fast(CASES, 4))
def test_the_numbers_are_those_of_the_image(name: str) -> None:
    plain, chunks = _both((2, 16, 7, 5), 8, *CASES[name])
    target = resolve_target(TARGET)
    made = schedule(unscheduled(chunks["main"].body, target), target)
    assert_computes(made.func, target, plain, EXACT, _around_the_edges)


@pytest.mark.parametrize("name", ["bilinear, zeros, edges", "bicubic, zeros, centres"])
def test_a_library_gives_them_too_ours_and_plain_tvm_s(name: str) -> None:
    plain, chunks = _both((2, 16, 7, 5), 8, *CASES[name])
    inputs = _around_the_edges(plain)
    expected = run_plain(plain, inputs)
    assert_close(run_plain(chunks, inputs), expected, EXACT)
    assert_close(run_once(fx.build(chunks, TARGET), inputs), expected, EXACT)


@pytest.mark.parametrize("name", few_fast(IMAGES, 2))
def test_chunks_of_any_width_are_sampled(name: str) -> None:
    plain, chunks = _both(*IMAGES[name], "bilinear", "zeros", True)
    inputs = inputs_of(plain)
    built = fx.build(chunks, TARGET)
    assert_close(run_once(built, inputs), run_plain(plain, inputs), EXACT)


def test_the_type_is_that_of_the_grid_and_the_chunks() -> None:
    sample = _blocked(var("x", 3, 2, 5, 6, 8), var("g", 3, 2, 4, 7), "nearest", "zeros", False)
    result = module(sample)["main"].ret_type
    assert tuple(map(int, result.shape)) == (3, 2, 4, 7, 8)
    assert result.dtype == "float32"


@pytest.mark.slow
def test_nothing_is_moved_between_a_convolution_and_its_samples() -> None:
    x = relay.nn.relu(conv(var("x", 2, 3, 9, 8), 16, 3))
    sampled = relay.nn.relu(_sampled(x, var("g", 2, 2, 6, 4)))
    y = conv(relay.nn.avg_pool2d(sampled, (2, 2), (2, 2)), 8, 1)
    counts = assert_packed([y], 2, reshape=1, layout_transform=1)
    assert counts[SAMPLE_BLOCKED] == 1
    assert counts[SAMPLE] == 0


@pytest.mark.slow
def test_a_grid_in_chunks_is_put_back_in_order() -> None:
    x = var("x", 1, 3, 9, 8)
    sampled = _sampled(conv(x, 8, 3), relay.tanh(conv(x, 2, 1)))
    counts = assert_packed([conv(sampled, 8, 1)], 3, reshape=1, layout_transform=2)
    assert counts[SAMPLE_BLOCKED] == 1


IMAGES_THAT_STAY = {
    "the grid alone is in chunks": lambda x: _sampled(var("y", 1, 8, 4, 4), conv(x, 2, 1)),
    "channels last": lambda x: relay.op.image._make.grid_sample(
        conv(x, 8, 1), var("g", 1, 2, 4, 4), "bilinear", "NHWC", "zeros", True
    ),
}


@pytest.mark.parametrize("name", IMAGES_THAT_STAY)
def test_other_images_stay_as_they_are(name: str) -> None:
    made = from_relay(module(IMAGES_THAT_STAY[name](var("x", 1, 3, 9, 8)))["main"])
    assert pack_convolutions(made, Avx()) == 1
    assert SAMPLE in {node.op for node in made.calls()}
    assert SAMPLE_BLOCKED not in {node.op for node in made.calls()}


def test_a_build_in_chunks_gives_the_numbers_of_plain_tvm() -> None:
    x = relay.nn.relu(conv(var("x", 2, 3, 9, 8), 32, 1))
    pooled = relay.nn.avg_pool2d(_sampled(x, var("g", 2, 2, 12, 6)), (2, 2), (2, 2))
    bins = relay.transpose(relay.reshape(pooled, (2, 32, 3, 2, 3)), (0, 2, 1, 3, 4))
    mod = module(bins)
    inputs = inputs_of(mod)
    built = fx.build(mod, TARGET)
    assert SAMPLE_BLOCKED.replace(".", "_") in built.get_graph_json()
    assert_close(run_once(built, inputs), run_plain(mod, inputs), REASSOCIATING)


READ = """
import sys
import tvm
import tvm_fusionx as fx
from tvm import relay
with fx.lowering({target!r}):
    library = relay.build(tvm.ir.load_json(sys.stdin.read()), target={target!r})
assert {name!r} in library.get_graph_json()
"""


@pytest.mark.slow
def test_another_process_reads_the_operator_where_it_lowers() -> None:
    made = from_relay(
        module(_sampled(conv(var("x", 1, 3, 5, 4), 8, 1), var("g", 1, 2, 3, 3)))["main"]
    )
    pack_convolutions(made, Avx())
    text = READ.format(target=TARGET, name="grid_sample_NCHWc")
    subprocess.run(
        [sys.executable, "-c", text], input=tvm.ir.save_json(module_of(made)), text=True, check=True
    )
