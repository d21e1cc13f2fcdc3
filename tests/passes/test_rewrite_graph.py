from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from tvm import relay

from tests.passes.assert_pass import assert_numbers_agree, assert_pass, assert_unchanged
from tests.relay_modules import const, module, operator_names, var
from tvm_fusionx.passes import RewriteGraph
from tvm_fusionx.passes.rewrite_graph import rewrite_module
from tvm_fusionx.rewrite.denormal_constants import has_denormals

x, y, z = (var(name, 4, 8) for name in "xyz")
image, kernel = var("image", 1, 4, 8, 8), const(6, 4, 3, 3)


def _sum_of_weights() -> relay.Constant:
    v, w = const(6, 8, seed=1), const(6, 8, seed=2)
    return relay.const(v.data.numpy() + w.data.numpy(), "float32")


def test_a_common_factor_is_taken_out() -> None:
    before = module(x * z + y * z, params=[x, y, z])
    assert_pass(RewriteGraph(), before, module((x + y) * z, params=[x, y, z]))


def test_weights_of_one_input_are_added_at_compile_time() -> None:
    before = relay.nn.dense(x, const(6, 8, seed=1)) + relay.nn.dense(x, const(6, 8, seed=2))
    after = relay.nn.dense(x, _sum_of_weights(), units=None)
    assert_pass(RewriteGraph(), module(before), module(after))


def test_exact_leaves_out_what_changes_rounding() -> None:
    assert_unchanged(
        RewriteGraph(exact=True), module(x * z + y * z), because="factoring changes rounding"
    )


def test_what_has_no_law_stays() -> None:
    assert_unchanged(
        RewriteGraph(),
        module(relay.nn.relu(relay.nn.dense(x, const(6, 8)))),
        because="no rule fits",
    )


def test_equal_calls_become_one() -> None:
    found = RewriteGraph()(module(relay.exp(x) * y + relay.exp(x)))
    assert operator_names(found["main"]) == ["add", "exp", "multiply"]


def test_a_norm_is_folded_into_the_convolution_before_it() -> None:
    rows = [relay.abs(const(6, seed=seed)) for seed in range(4)]
    before = module(relay.nn.batch_norm(relay.nn.conv2d(image, kernel), *rows)[0])
    found, applications = rewrite_module(before)
    assert operator_names(found["main"]) == ["add", "nn.conv2d"]
    assert "fold_factor_into_weights" in {application.rule for application in applications}
    assert_numbers_agree(before, found)


def test_names_of_the_models_nodes_survive() -> None:
    span = relay.Span(relay.SourceName("layer/exp"), 0, 0, 0, 0)
    named = relay.Call(relay.op.get("exp"), [x * z + y * z], None, None, span)
    body = RewriteGraph()(module(named))["main"].body
    assert str(body.span.source_name.name) == "layer/exp"


def test_rules_and_strategy_are_the_users_choice() -> None:
    x = var("x", 4, 8)
    before = module(relay.exp(x) * relay.exp(x))
    assert operator_names(RewriteGraph(rules=())(before)["main"]) == ["exp", "multiply"]
    with pytest.raises(ValueError, match="expected 'greedy' or 'saturate'"):
        RewriteGraph(strategy="best")(before)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="which exact forbids"):
        RewriteGraph(strategy="saturate", exact=True)(before)


@pytest.mark.parametrize(("denormals", "expected"), [("flush", 0.0), ("keep", 1e-39)])
def test_denormal_constants_become_zeros_unless_they_are_kept(
    denormals: Literal["flush", "keep"], expected: float
) -> None:
    before = module(relay.maximum(x, relay.const(np.full((4, 8), 1e-39, "float32"))))
    found = RewriteGraph(denormals=denormals)(before)["main"].body
    np.testing.assert_array_equal(found.args[1].data.numpy(), np.float32(expected))


def test_products_of_constants_that_become_denormal_are_zeros_too() -> None:
    small = relay.const(np.full(6, 1e-20, "float32"))
    scaled = relay.nn.conv2d(image, kernel * relay.const(np.float32(1e-20)))
    found = RewriteGraph()(module(scaled * relay.reshape(small, (6, 1, 1))))
    constants: list[np.ndarray] = []

    def visit(node: relay.Expr) -> None:
        if isinstance(node, relay.Constant):
            constants.append(node.data.numpy())

    relay.analysis.post_order_visit(found["main"], visit)
    assert constants
    assert not any(map(has_denormals, constants))
    with pytest.raises(ValueError, match="denormals: expected 'flush' or 'keep'; found 'zero'"):
        RewriteGraph(denormals="zero")(module(x + y))  # type: ignore[arg-type]
