"""Polynomials take the place of libm calls, except where a guard protects what they read."""

from __future__ import annotations

import numpy as np
from tvm import relay

from tests.relay_modules import TARGET, var
from tests.schedules.blocked_blocks import as_block
from tvm_fusionx.lowering import lowering
from tvm_fusionx.report.plain_tvm import run_once
from tvm_fusionx.schedules import resolve_target


def test_no_libm_call_is_left() -> None:
    target = resolve_target(TARGET)
    x = var("x", 64)
    body = relay.exp(relay.tanh(relay.erf(relay.sigmoid(x))))
    with lowering(target):
        library = relay.build(as_block(body), target)
    text = library.get_lib().get_source("ll")
    assert not [name for name in ("@expf", "@tanhf", "@erff", "llvm.exp") if name in text]


def test_a_guarded_argument_is_not_read_early() -> None:
    x = np.linspace(-1, 1, 24, dtype="float32").reshape(1, 1, 4, 6)
    data = var("x", 1, 1, 4, 6)
    body = relay.nn.pad(relay.exp(data), ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = np.pad(np.exp(x), ((0, 0), (0, 0), (1, 1), (1, 1)))
    target = resolve_target(TARGET)
    with lowering(target):
        library = relay.build(as_block(body), target)
    (found,) = run_once(library, {"x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-6)
