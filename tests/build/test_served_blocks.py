"""Blocks that no fast template can schedule come apart, and compute the same."""

from __future__ import annotations

import importlib

import pytest
import tvm
from tvm import relay

import tvm_fusionx as fx
from tests.relay_modules import (
    REASSOCIATING,
    TARGET,
    assert_close,
    inputs_of,
    module,
    run_plain,
    var,
)
from tvm_fusionx.build.served_blocks import why_unserved
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.schedules.default import DEFAULT
from tvm_fusionx.schedules.handed_over import HandedOver

# The package's attribute of this name is the function.
pipeline_module = importlib.import_module("tvm_fusionx.build.pipeline")


def _norm(value: relay.Expr) -> relay.Expr:
    centred = value - relay.mean(value, axis=-1, keepdims=True)
    variance = relay.mean(centred * centred, axis=-1, keepdims=True)
    return centred / relay.sqrt(variance + relay.const(1e-5))


def _partitioned() -> tvm.IRModule:
    """Return a norm that is read as it is, and a norm of it, cut into windows of an image."""
    first = _norm(var("x", 1, 56 * 56, 96))
    windows = relay.reshape(_norm(first), (1, 8, 7, 8, 7, 96))
    return module(relay.Tuple([first, relay.transpose(windows, [0, 1, 3, 2, 4, 5])]))


@pytest.mark.slow
def test_two_norms_of_which_one_is_cut_into_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    mod = _partitioned()
    taken: list[bool] = []
    take = HandedOver.take

    def counted(self: HandedOver, func: object, target: tvm.target.Target) -> object:
        taken.append((found := take(self, func, target)) is not None)
        return found

    monkeypatch.setattr(HandedOver, "take", counted)
    library = fx.build(mod, TARGET)
    # What planning scheduled, the build does not schedule again.
    assert sum(taken) >= 2
    templates = {entry.template for entry in library.fusionx_built_from[1].entries}
    assert DEFAULT.name not in templates
    inputs = inputs_of(mod)
    assert_close(run_once(library, inputs), run_plain(mod, inputs), REASSOCIATING)


@pytest.mark.slow
def test_without_asking_it_would_be_a_block_of_the_template_for_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Were templates to serve it one day, the test above would show nothing."""
    monkeypatch.setattr(pipeline_module, "why_unserved", lambda target: None)
    with fx.lowering(TARGET) as log:
        relay.build(fx.pipeline(TARGET)(_partitioned()), resolve_target(TARGET))
    assert DEFAULT.name in {entry.template for entry in log.entries}


def test_templates_of_gpus_are_not_asked() -> None:
    assert why_unserved("opencl") is None
    assert why_unserved(TARGET) is not None
