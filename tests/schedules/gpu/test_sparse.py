"""Sparse products on an OpenCL device: numbers, knobs, and what is refused."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping

import pytest
import tvm
from tvm import relay

from tests.opencl_device import require_opencl
from tests.relay_modules import REASSOCIATING, assert_close, inputs_of, module, run_plain, var
from tests.schedules.gpu.gpu_blocks import OPENCL, describe
from tests.schedules.matching import why_not
from tests.schedules.sparse_blocks import Window, dense, pruned, window
from tvm_fusionx.lowering import lowering
from tvm_fusionx.passes import FuseByMapping, PackFloats, PackLayouts, PackSparse
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.schedules import schedule
from tvm_fusionx.schedules.gpu.sparse import GPU_SPARSE

# The package's attribute of this name is the function.
by_record = importlib.import_module("tvm_fusionx.blocks.by_record")

WIDE = {"places": 4, "items": 32}

# Weights round to halves, by up to 2**-11 of each; sums of a few dozen of them by less than this.
HALVES = 2.0**-9


def _conv(
    images: int, outputs: int, size: tuple[int, int], kernel: int, **attrs: object
) -> relay.Expr:
    weight = pruned(outputs, 8 * kernel**2, 8, 0.3).reshape(outputs, 8, kernel, kernel)
    body = relay.nn.conv2d(
        var("x", images, 8, *size),
        relay.const(weight),
        kernel_size=(kernel, kernel),
        channels=outputs,
        **attrs,
    )
    return relay.nn.relu(relay.nn.bias_add(body, var("b", outputs)))


def _rows(rows: int, outputs: int = 32, density: float = 0.3) -> relay.Expr:
    weight = relay.const(pruned(outputs, 64, 8, density))
    return relay.nn.relu(relay.nn.dense(var("x", rows, 64), weight) + var("b", outputs))


CASES: dict[str, tuple[Callable[[], relay.Expr], Mapping[str, int]]] = {
    "rows": (lambda: _rows(13), WIDE),
    "strided": (lambda: _conv(1, 24, (9, 11), 3, padding=(1, 0, 0, 1), strides=(2, 2)), WIDE),
    "one row": (lambda: _rows(1, 30), {}),
    "zeros alone": (lambda: _rows(5, density=0), {}),
    "two images": (lambda: _conv(2, 16, (9, 7), 3, padding=(1, 1)), {"places": 2, "items": 256}),
    "dilated": (lambda: _conv(1, 16, (9, 9), 3, padding=(2, 2), dilation=(2, 2)), WIDE),
    "pixels": (lambda: _conv(2, 24, (5, 6), 1), {**WIDE, "planes": 1}),
    "pixels as they lie": (lambda: _conv(2, 24, (5, 6), 1), {**WIDE, "planes": 0}),
    "some pixels": (lambda: _conv(1, 16, (9, 9), 1, strides=(2, 2)), {}),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in ("rows", "strided") else pytest.mark.slow) for n in CASES],
)
def test_numbers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, knobs = CASES[name]
    _check(module(make()), monkeypatch, knobs)


@pytest.mark.slow
def test_weights_in_half_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    mod = module(relay.nn.dense(var("x", 13, 256), relay.const(pruned(64, 256, 8, 0.3))))
    source = _check(mod, monkeypatch, WIDE, PackFloats(OPENCL, "float16"), tolerance=HALVES)
    assert "vload_half4" in source


def test_integers_have_32_bits_and_data_is_loaded_in_vectors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = _check(module(_rows(13)), monkeypatch, WIDE)
    assert "long" not in source
    assert "vload4(0, ((__global float *)planes + at[" in source


def _check(
    mod: tvm.IRModule,
    monkeypatch: pytest.MonkeyPatch,
    knobs: Mapping[str, int],
    *passes: tvm.transform.Pass,
    tolerance: float = REASSOCIATING,
) -> str:
    """Build a module with its product sparse, compare its numbers, and return the source."""
    require_opencl()
    monkeypatch.setattr(by_record, "schedule", lambda f, t, *_: schedule(f, t, knobs))
    order = [PackSparse(OPENCL, least_gain=0), PackLayouts(OPENCL), FuseByMapping(OPENCL), *passes]
    with lowering(OPENCL) as log:
        library = relay.build(tvm.transform.Sequential(order)(mod), target=OPENCL)
    (served,) = [each for each in log.entries if each.template == GPU_SPARSE.name]
    assert served.fallback_reason is None
    inputs = inputs_of(mod)
    assert_close(run_once(library, inputs, tvm.opencl(0)), run_plain(mod, inputs), tolerance)
    return str(library.get_lib().imported_modules[0].get_source())


REFUSED: dict[str, tuple[Callable[[], relay.Expr], str]] = {
    "none": (lambda: relay.exp(var("x", 4)), "no sparse product"),
    "vectors": (lambda: dense(4, pruned(16, 8, 8, 0.5), 8, 8)[0], "vectors have 8 lanes"),
    "chunks": (
        lambda: window(Window(1, 8, 8, 5, 5), pruned(8, 72, 8, 0.5), 8, 4)[0],
        "chunks of 8 channels",
    ),
    "offsets": (
        lambda: window(Window(1, 8, 8, 5, 5, lanes=4), pruned(8, 72, 8, 0.5), 8, 4)[0],
        "not those of planes",
    ),
    "a sum": (
        lambda: relay.sum(dense(4, pruned(16, 8, 8, 0.5), 8, 4)[0], axis=1),
        "reduces something besides",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_others_are_refused(name: str) -> None:
    make, reason = REFUSED[name]
    told = why_not(GPU_SPARSE, describe(make()))
    assert told is not None
    assert reason in told
