"""Blocks for a GPU, and what our templates make of them."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relay

from tests.opencl_device import require_opencl
from tests.relay_modules import REASSOCIATING, assert_close, inputs_of, module, run_plain
from tests.schedules.blocked_blocks import as_block, unscheduled
from tvm_fusionx.lowering import lowering
from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.schedules import schedule
from tvm_fusionx.schedules.lowering_log import LoweredBlock
from tvm_fusionx.tir.block import BlockInfo, describe_block

# The package's attribute of this name is the function.
by_record = importlib.import_module("tvm_fusionx.blocks.by_record")

OPENCL = tvm.target.Target("opencl", host="llvm")

KERNEL = re.compile(r"^__kernel void \w+\([^;]*\) \{$", re.MULTILINE)


def describe(body: relay.Expr, gpu: Gpu | None = None) -> BlockInfo:
    """Return what a template learns of a block that computes `body`."""
    return describe_block(unscheduled(body, OPENCL), gpu or Gpu())


def kernels_of(library: Any) -> list[str]:
    """Return the heads of the OpenCL kernels of a library."""
    return KERNEL.findall(library.get_lib().imported_modules[0].get_source())


def assert_runs(
    body: relay.Expr,
    template: str,
    *,
    knobs: Mapping[str, int] | None = None,
    kernels: int = 1,
    tolerance: float = REASSOCIATING,
    target: tvm.target.Target = OPENCL,
) -> LoweredBlock:
    """Build a block on the OpenCL device: check template, number of kernels, and the numbers."""
    require_opencl()
    mod = as_block(body)
    inputs = inputs_of(mod)

    def with_knobs(func: Any, resolved: Any, *_: Any) -> Any:
        return schedule(func, resolved, knobs)

    original = by_record.schedule
    by_record.schedule = with_knobs
    try:
        with lowering(target) as log:
            library = relay.build(mod, target)
    finally:
        by_record.schedule = original
    (entry,) = log.entries
    assert (entry.template, entry.fallback_reason) == (template, None)
    assert len(kernels_of(library)) == kernels
    expected = run_plain(module(body), inputs)
    assert_close(run_once(library, inputs, tvm.opencl(0)), expected, tolerance)
    return entry
