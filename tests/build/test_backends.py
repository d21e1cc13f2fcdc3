"""A backend of another package, made and installed here, is served without touching ours."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tvm import relay

import tvm_fusionx as fx
from tests.relay_modules import const, inputs_of, module, run_plain, var
from tvm_fusionx import schedules
from tvm_fusionx.build.backends import Backend, backend_of, register_backend, remove_backend
from tvm_fusionx.build.phases import Phases
from tvm_fusionx.errors import BackendError
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.schedules import Family
from tvm_fusionx.schedules.default import DEFAULT

ACME = "llvm -device=acme"


def _is_acme(target: object) -> bool:
    return str(target.attrs.get("device", "")) == "acme"  # type: ignore[attr-defined]


def _layouts_last(phases: Phases, target: object) -> Phases:
    return phases.moved("layout", after="fuse").without("quantized")


BACKEND = Backend(
    "acme",
    serves=_is_acme,
    family=Family(describe_cpu, (DEFAULT,)),
    tags={"acme/board": {"kind": "llvm", "device": "acme"}},
    phases=_layouts_last,
)


@pytest.fixture
def _registered() -> Iterator[None]:
    register_backend(BACKEND)
    yield
    remove_backend("acme")


def _product() -> object:
    return relay.nn.relu(relay.nn.dense(var("x", 8, 16), const(32, 16)))


@pytest.mark.usefixtures("_registered")
def test_its_targets_have_its_order_and_others_ours() -> None:
    usual = fx.phases("llvm").names
    theirs = fx.phases("acme/board").names
    assert "quantized" in usual
    assert "quantized" not in theirs
    assert theirs.index("layout") == theirs.index("fuse") + 1
    assert backend_of("llvm") is None
    assert backend_of("acme/board") is BACKEND


@pytest.mark.usefixtures("_registered")
def test_its_templates_serve_its_targets() -> None:
    mod = module(_product())
    library = fx.build(mod, ACME)
    templates = {entry.template for entry in library.fusionx_built_from[1].entries}
    assert templates == {DEFAULT.name}
    ours = fx.build(mod, "llvm")
    assert {entry.template for entry in ours.fusionx_built_from[1].entries} == {"dot"}
    inputs = inputs_of(mod)
    np.testing.assert_allclose(
        run_once(library, inputs)[0], run_plain(mod, inputs)[0], rtol=1e-5, atol=1e-5
    )


@pytest.mark.usefixtures("_registered")
def test_a_name_is_one_backend() -> None:
    register_backend(BACKEND)
    with pytest.raises(BackendError, match="two backends of that name"):
        register_backend(Backend("acme", serves=_is_acme, family=BACKEND.family))


def test_what_is_no_backend_is_refused() -> None:
    with pytest.raises(BackendError, match="found str"):
        register_backend("acme")  # type: ignore[arg-type]


def test_a_removed_backend_serves_nothing() -> None:
    register_backend(BACKEND)
    remove_backend("acme")
    assert backend_of(ACME) is None
    assert "acme" not in schedules.ADDED_FAMILIES
